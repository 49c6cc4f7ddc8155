//! The way out of a run: who may be reached is reached through the proxy, and nobody else.

use std::io::{Read, Write};
use std::net::TcpListener;

use serde_json::{Value, json};

use crate::support::{Server, sandbox};

/// Asks for each target in each way, and prints what came of it.
const ASK: &str = r#"import json, os, socket, sys
sys.stdin.read()
def ask(first, request):
    with socket.create_connection(first, timeout=20) as way:
        way.sendall(request)
        heard = b""
        while part := way.recv(4096):
            heard += part
            if heard.endswith(b"established\r\n\r\n"):
                way.sendall(b"GET / HTTP/1.0\r\n\r\n")
    return heard.decode().split("\r\n")
found = {}
for target in json.load(open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "targets.json"))):
    host, port = target.rsplit(":", 1)
    ways = {}
    if "HTTP_PROXY" in os.environ:
        proxy = os.environ["HTTP_PROXY"].split("//")[1].split(":")
        proxy = (proxy[0], int(proxy[1]))
        ways["connect"] = (proxy, "CONNECT %s HTTP/1.1\r\n\r\n" % target)
        ways["absolute"] = (proxy, "GET http://%s/ HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n" % (target, target))
    ways["direct"] = ((host.strip("[]"), int(port)), "GET / HTTP/1.0\r\n\r\n")
    for way, (first, request) in ways.items():
        try:
            heard = ask(first, request.encode())
            found[target + " " + way] = heard[-1].strip() if heard[0].split()[1] == "200" else heard[0].split()[1]
        except OSError as error:
            found[target + " " + way] = error.strerror
print(json.dumps({"success": True, "data": found}))
"#;

/// Something on the machine's own loopback that says `hello`.
fn host() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for connection in listener.incoming() {
            let mut connection = connection.unwrap();
            let _ = connection.read(&mut [0; 1024]);
            let _ = connection.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello");
        }
    });
    port
}

/// What a script with these wishes finds, and the refusals in its log: target and message.
fn asked(settings: &[(&str, &str)], automation: Value, targets: &[String]) -> (Value, Vec<(String, String)>) {
    let server = Server::with(&[settings, &[("sandbox", "on")]].concat());
    let entrypoint = json!({"type": "script", "script": {"command": "python3 scripts/ask.py"}});
    server.skill("asking", "", json!({"runner": {"entrypoint": entrypoint, "automation": automation}}));
    let scripts = server.folder.path().join("skills/asking/scripts");
    std::fs::write(scripts.join("ask.py"), ASK).unwrap();
    std::fs::write(scripts.join("targets.json"), json!(targets).to_string()).unwrap();
    let (_, run) = server.create("asking");
    server.finish(&run);
    let job = server.get(&format!("/v1/jobs/{run}")).json();
    assert_eq!(job["status"], "succeeded", "{job:#}");
    let warnings = job["warnings"].as_array().unwrap().iter().filter(|warning| warning["code"] == "EGRESS_REFUSED");
    let told = warnings.map(|warning| {
        let (host, port) = (warning["details"]["host"].as_str().unwrap(), &warning["details"]["port"]);
        (format!("{host}:{port}"), warning["message"].as_str().unwrap().to_owned())
    });
    (server.get(&format!("/v1/jobs/{run}/result")).json()["result"]["data"].take(), told.collect())
}

#[test]
fn a_host_that_the_operator_allows_is_reached_in_every_way_and_its_neighbour_in_none() {
    if sandbox::left_out("egress::a_host_that_the_operator_allows_is_reached_in_every_way_and_its_neighbour_in_none") {
        return;
    }
    let (open, closed) = (host(), host());
    let allow = format!("localhost:{open}");
    let targets = [allow.clone(), format!("localhost:{closed}")];
    let other = json!({"network": "allowlist", "allowlist": ["elsewhere.example"]});
    for automation in [other, json!({"network": "on"})] {
        let named = automation["network"] == "allowlist";
        let (found, told) = asked(&[("egress_allow", &allow)], automation, &targets);
        let wanted = json!({
            format!("localhost:{open} connect"): "hello",
            format!("localhost:{open} absolute"): "hello",
            format!("localhost:{open} direct"): "hello",
            format!("localhost:{closed} connect"): "403",
            format!("localhost:{closed} absolute"): "403",
            format!("localhost:{closed} direct"): "Connection refused",
        });
        assert_eq!(found, wanted);
        let reason = match named {
            true => "it is not among the hosts that this run may reach",
            false => "its address is of this machine or of a private network",
        };
        let neighbour = format!("localhost:{closed}");
        assert_eq!(told, [(neighbour.clone(), format!("{neighbour} was not reached: {reason}"))]);
    }
    // Off is off, whatever the operator allows others.
    let (found, told) = asked(&[("egress_allow", &allow)], json!({"network": "off"}), &targets[..1]);
    assert_eq!((found, told), (json!({format!("localhost:{open} direct"): "Connection refused"}), Vec::new()));
}

#[test]
fn a_name_that_a_skill_lists_is_refused_if_it_leads_to_the_machine_itself() {
    if sandbox::left_out("egress::a_name_that_a_skill_lists_is_refused_if_it_leads_to_the_machine_itself") {
        return;
    }
    let port = host();
    // Names and notations of the same host, each allowed by its name; what counts is where it leads to.
    let names = ["localhost", "LOCALHOST.", "127.0.0.1", "127.1", "2130706433", "0x7f.1", "[::ffff:127.0.0.1]"];
    let targets: Vec<String> = names.iter().map(|name| format!("{name}:{port}")).collect();
    let (found, told) = asked(&[], json!({"network": "allowlist", "allowlist": names}), &targets);
    let reached: Vec<(&String, &Value)> =
        found.as_object().unwrap().iter().filter(|(_, heard)| *heard == "hello").collect();
    assert_eq!(reached, [], "{found:#}");
    assert_eq!(found[format!("localhost:{port} connect")], "403", "{found:#}");
    let reason = "its address is of this machine or of a private network";
    assert!(told.iter().all(|(_, message)| message.ends_with(reason)), "{told:#?}");
    assert!(told.iter().any(|(host, _)| *host == format!("localhost:{port}")), "{told:#?}");
}
