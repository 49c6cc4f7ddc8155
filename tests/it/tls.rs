//! What the program connects to over TLS: a service behind a proxy, and a collector. Both are known by their certificates.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::mpsc::channel;

use serde_json::json;

use crate::cli::place::Place;
use crate::support::tls::Front;
use crate::support::{Call, LONG};

fn service(place: &Place, variables: &[(&str, &str)]) -> (crate::cli::place::Running, SocketAddr) {
    let mut command = place.command(&["serve", "--port", "0"]);
    command.envs(variables.iter().copied());
    let (running, line) = Place::started(command, "listening on ");
    (running, line.strip_prefix("listening on http://").unwrap().parse().unwrap())
}

#[test]
fn commands_and_the_example_client_reach_a_service_over_tls_if_its_certificate_is_trusted() {
    let place = Place::new();
    let (_service, address) = service(&place, &[]);
    let front = Front::of(address);
    let certificate = front.keys.certificate();
    let command = |args: &[&str], trusted: bool| {
        let mut command = place.command(args);
        command.envs(trusted.then_some(("SSL_CERT_FILE", &certificate)));
        command
    };
    let run = |url: &str, trusted: bool| {
        let output = command(&["run", "tiny", "--json", "--server", url], trusted).output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (output.status.code(), text(output.stdout), text(output.stderr))
    };
    let (code, stdout, stderr) = run(&front.url(), true);
    assert_eq!(code, Some(0), "{stderr}");
    let document: serde_json::Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(document["status"], "succeeded", "{document:#}");

    // Nobody vouches for the certificate; it is that of another name; there is no list to look into.
    for (url, trusted) in [(front.url(), false), (format!("https://127.0.0.1:{}", front.port), true)] {
        let (code, _, stderr) = run(&url, trusted);
        assert_eq!(code, Some(3), "{stderr}");
        assert!(stderr.contains("cannot be reached") && stderr.contains("certificate"), "{stderr}");
    }
    let missing = command(&["runs", "--server", &front.url()], false).env("SSL_CERT_FILE", "none").output().unwrap();
    let stderr = String::from_utf8_lossy(&missing.stderr);
    assert_eq!(missing.status.code(), Some(3), "{stderr}");
    assert!(stderr.contains("none cannot be read"), "{stderr}");

    let client = command(&["e2e-client", "--port", "0", "--server", &front.url()], true);
    let (_client, line) = Place::started(client, "listening on ");
    let client: SocketAddr = line.strip_prefix("listening on http://").unwrap().parse().unwrap();
    let skills = Call::new(client, "GET", "/v1/skills").send();
    assert_eq!(skills.json(), Call::new(address, "GET", "/v1/skills").send().json());
}

#[test]
fn traces_are_sent_over_tls() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let front = Front::of(listener.local_addr().unwrap());
    let (sender, got) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = BufReader::new(stream.unwrap());
            let (mut head, mut line) = (Vec::new(), String::new());
            while stream.read_line(&mut line).is_ok_and(|bytes| bytes > 2) {
                head.push(std::mem::take(&mut line).trim_end().to_lowercase());
            }
            let length = head.iter().find_map(|line| line.strip_prefix("content-length: ")).unwrap().parse().unwrap();
            let mut body = vec![0; length];
            stream.read_exact(&mut body).unwrap();
            let answer = b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\n{}";
            stream.get_mut().write_all(answer).unwrap();
            if head[0].starts_with("post /v1/traces ") && sender.send(body).is_err() {
                return;
            }
        }
    });
    let place = Place::new();
    let certificate = front.keys.certificate();
    let variables = [("SKILL_RUNNER_OTLP_ENDPOINT", front.url()), ("SSL_CERT_FILE", certificate.display().to_string())];
    let variables = variables.each_ref().map(|(name, value)| (*name, value.as_str()));
    let (_service, address) = service(&place, &variables);
    let created = Call::new(address, "POST", "/v1/jobs?wait=60").json(&json!({"skill_id": "tiny"})).send();
    assert_eq!(created.status, 201, "{}", created.text());
    let run = created.json()["run_id"].as_str().unwrap().replace('-', "");
    let traces = String::from_utf8(got.recv_timeout(LONG).unwrap()).unwrap();
    assert!(traces.contains(&run), "{traces}");
}
