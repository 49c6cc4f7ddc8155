//! A name whose address changes between two looks at it: the address that was looked at is the one that is used.

use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::cli::place::Place;
use crate::support::{left_out, sandbox};

/// Asks the proxy for the same host twice, and answers with what the proxy said.
const ASKS: &str = "\
cat >/dev/null
exec python3 - <<'END'
import json, socket
def ask():
    with socket.create_connection(('127.0.0.1', 3128), timeout=30) as way:
        way.sendall(b'CONNECT rebinding.example:8080 HTTP/1.1\\r\\n\\r\\n')
        return way.recv(200).decode().split('\\r\\n')[0]
print(json.dumps({'success': True, 'data': {'heard': [ask(), ask()]}}))
END
";

/// A network of its own in which one address is public and leads here, and a name server of our own.
const NETWORK: &str = "ip link set lo up && ip route add local 11.0.0.0/8 dev lo src 127.0.0.1 && \
    mount --bind resolv.conf /etc/resolv.conf && exec \"$@\"";

#[test]
fn a_name_that_is_public_first_and_then_loopback_is_resolved_once_for_each_connection_and_never_reaches_loopback() {
    const NAME: &str = "hostile::rebinding::a_name_that_is_public_first_and_then_loopback_is_resolved_once_for_each_connection_and_never_reaches_loopback";
    if sandbox::left_out(NAME) {
        return;
    }
    let place = Place::new();
    place.skill("asks", ASKS);
    std::fs::write(place.path().join("resolv.conf"), "nameserver 127.0.0.1\n").unwrap();
    let inside = |words: &[&str]| {
        let mut command = Command::new("unshare");
        command.args(["-mn", "sh", "-c", NETWORK, "sh"]).args(words).current_dir(place.path()).env_clear();
        command.env("PATH", std::env::var_os("PATH").unwrap());
        command.env("SKILL_RUNNER_MIN_FREE_BYTES", "0").env("SKILL_RUNNER_SANDBOX", "on").stdin(Stdio::null());
        command.output()
    };
    if !inside(&["true"]).is_ok_and(|done| done.status.success()) {
        assert!(std::env::var_os("SANDBOX_TEST_REQUIRED").is_none(), "{NAME} needs root and ip");
        left_out::tell("a network of our own needs root and ip", NAME);
        return;
    }
    let world = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/hostile/rebinding.py");
    let program = env!("CARGO_BIN_EXE_skill-runner");
    let done = inside(&["python3", world, program, "run", "asks", "--no-cache", "--json"]).unwrap();
    let told: Value = serde_json::from_slice(&done.stdout).unwrap_or_else(|error| panic!("{error}: {done:?}"));
    assert_eq!(told["code"], 0, "{told:#}");
    let printed: Value = serde_json::from_str(told["printed"].as_str().unwrap()).unwrap();
    assert_eq!(
        printed["result"]["data"]["heard"],
        json!(["HTTP/1.1 200 Connection established", "HTTP/1.1 403 Forbidden"]),
        "{printed:#}"
    );
    assert_eq!(told["questions"], json!(["11.0.0.2", "127.0.0.1"]), "each connection asks once");
    assert_eq!(told["reached"], json!(["11.0.0.2"]));
}
