//! Skills that take as much of the proxy as they get: others, and the service, have what they need.

use std::net::{SocketAddr, UdpSocket};
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::process::{Resource, Rlimit, Signal, setrlimit};
use serde_json::{Value, json};

use crate::cli::place::{Place, Running};
use crate::support::{Call, LONG, left_out, sandbox};

/// Opens connections to the proxy with the beginning of a request on each, says so, and keeps them.
const HOLDS: &str = "\
cat >/dev/null
exec python3 - BEGINNING <<'END'
import os, socket, sys, time
held = []
for number in range(250):
    try:
        held.append(socket.create_connection(('127.0.0.1', 3128), timeout=1))
        held[-1].sendall(sys.argv[1].encode().decode('unicode_escape').replace('NUMBER', f'{os.getpid()}-{number}').encode())
    except OSError:
        break
print('all are open', file=sys.stderr, flush=True)
time.sleep(10000)
END
";

/// Starts a service of which four runs hold on to the proxy.
fn held(place: &Place, mut command: Command, beginning: &str) -> (Running, SocketAddr, Vec<String>) {
    place.skill("holds", &HOLDS.replace("BEGINNING", &format!("'{beginning}'")));
    command.env("SKILL_RUNNER_MAX_RUNNING_JOBS", "5").env("SKILL_RUNNER_MIN_FREE_BYTES", "0");
    let (service, line) = Place::started(command, "listening on ");
    let address = line.strip_prefix("listening on http://").unwrap().parse().unwrap();
    let create = || {
        let body = json!({"skill_id": "holds", "runtime_options": {"no_cache": true}});
        let created = Call::new(address, "POST", "/v1/jobs").json(&body).send();
        created.json()["run_id"].as_str().unwrap_or_else(|| panic!("{}", created.text())).to_owned()
    };
    let runs: Vec<String> = (0..4).map(|_| create()).collect();
    let limit = std::time::Instant::now() + LONG;
    for run in &runs {
        let said = || std::fs::read_to_string(place.run_folder(run).join("logs/stderr.txt")).unwrap_or_default();
        while !said().contains("all are open") {
            assert!(std::time::Instant::now() < limit, "{run} said {:?}", said());
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }
    (service, address, runs)
}

/// Another run succeeds, those that hold on are canceled, and the service ends.
fn goes_on(service: &Running, address: SocketAddr, runs: &[String]) {
    assert_eq!(Call::new(address, "GET", "/healthz").send().status, 200);
    let body = json!({"skill_id": "tiny", "runtime_options": {"no_cache": true}});
    let job = Call::new(address, "POST", "/v1/jobs?wait=40").json(&body).send().json();
    assert_eq!((&job["status"], &job["error"]), (&json!("succeeded"), &Value::Null), "{job}");
    for run in runs {
        let answer = Call::new(address, "POST", &format!("/v1/jobs/{run}/cancel")).json(&json!({})).send();
        assert_eq!(answer.json()["accepted"], true, "{}", answer.text());
    }
    service.signal(Signal::TERM);
}

#[test]
fn names_that_no_server_answers_for_delay_nobody_else() {
    const NAME: &str = "hostile::egress::names_that_no_server_answers_for_delay_nobody_else";
    if sandbox::left_out(NAME) {
        return;
    }
    // The machine's name server, as the service sees it: one that never answers.
    let octets: [u8; 2] = std::array::from_fn(|at| std::process::id().to_le_bytes()[at]);
    let server = UdpSocket::bind(SocketAddr::from(([127, 9, octets[0], octets[1]], 53)));
    let mounts = Command::new("unshare").args(["-m", "true"]).status().is_ok_and(|status| status.success());
    let (Ok(server), true) = (server, mounts) else {
        left_out::tell("a name server of our own needs root", NAME);
        return;
    };
    let place = Place::new();
    let resolv = place.path().join("resolv.conf");
    let address = server.local_addr().unwrap().ip();
    std::fs::write(&resolv, format!("nameserver {address}\noptions timeout:30 attempts:5\n")).unwrap();
    let mut command = place.command(&["serve", "--port", "0"]);
    let program = command.get_program().to_owned();
    let mut inside = Command::new("unshare");
    inside.args(["-m", "sh", "-c", "mount --bind resolv.conf /etc/resolv.conf && exec \"$@\"", "sh"]);
    inside.arg(program).args(command.get_args()).current_dir(place.path()).env_clear();
    inside.env("PATH", std::env::var_os("PATH").unwrap());
    inside.stdin(std::process::Stdio::null()).stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    command = inside;
    let beginning = "CONNECT NUMBER.hostile.example:443 HTTP/1.1\\r\\n\\r\\n";
    let (service, address, runs) = held(&place, command, beginning);
    goes_on(&service, address, &runs);
    // Names are still being looked up: nothing waits for that.
    let ended = service.end();
    assert_eq!(ended.code, Some(0), "{ended:?}");
}

#[test]
fn tunnels_without_end_leave_descriptors_for_everybody_else() {
    if sandbox::left_out("hostile::egress::tunnels_without_end_leave_descriptors_for_everybody_else") {
        return;
    }
    let host = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let place = Place::new();
    let mut command = place.command(&["serve", "--port", "0"]);
    command.env("SKILL_RUNNER_EGRESS_ALLOW", "127.0.0.1");
    let limit = Rlimit { current: Some(512), maximum: Some(512) };
    // SAFETY: the closure makes one system call.
    unsafe { command.pre_exec(move || Ok(setrlimit(Resource::Nofile, limit)?)) };
    let beginning = format!("CONNECT {} HTTP/1.1\\r\\n\\r\\n", host.local_addr().unwrap());
    let (service, address, runs) = held(&place, command, &beginning);
    goes_on(&service, address, &runs);
    let ended = service.end();
    assert_eq!(ended.code, Some(0), "{ended:?}");
}
