//! The example client: a process of its own between pages and a service, which has the token, passes on what pages need and nothing
//! else, and records what a person did.

use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::cli::place::{Place, Running};
use crate::http::users::{asked_as, can_play_others};
use crate::support::client::raw;
use crate::support::skill::HELLO;
use crate::support::{Answer, Call, SHIPPED, Server, Sse, of_type};

const TOKEN: &str = "t0ken-of-the-service";

/// The client at work.
struct Client {
    place: Place,
    running: Running,
    address: SocketAddr,
    /// The key in the printed address.
    key: Option<String>,
}

impl Client {
    fn of(service: &str, token: Option<&str>) -> Self {
        let place = Place::new();
        let mut command = place.command(&["e2e-client", "--port", "0", "--server", service]);
        command.envs(token.map(|token| ("SKILL_RUNNER_TOKEN", token)));
        let (running, line) = Place::started(command, "listening on ");
        let printed = line.strip_prefix("listening on http://").unwrap();
        let (address, key) = match printed.split_once("/?key=") {
            Some((address, key)) => (address, Some(key.to_owned())),
            None => (printed, None),
        };
        Self { place, running, address: address.parse().unwrap(), key }
    }

    /// A request as the pages send it, with the cookie if there is a key.
    fn call(&self, method: &str, path: &str) -> Call {
        let call = Call::new(self.address, method, path);
        match &self.key {
            Some(key) => call.header("cookie", &format!("skill_runner_e2e_{}={key}", self.address.port())),
            None => call,
        }
    }

    fn get(&self, path: &str) -> Answer {
        self.call("GET", path).send()
    }

    fn post(&self, path: &str, body: &Value) -> Answer {
        self.call("POST", path).json(body).send()
    }

    fn folder(&self) -> PathBuf {
        self.place.path().join("replay/recordings")
    }

    /// The actions and statuses of a recording.
    fn recorded(&self, run: &str) -> Vec<(String, u64)> {
        let text = fs::read(self.folder().join(format!("{run}.json"))).unwrap();
        let recording: Value = serde_json::from_slice(&text).unwrap();
        let step = |step: &Value| (step["action"].as_str().unwrap().to_owned(), step["status"].as_u64().unwrap());
        recording["steps"].as_array().unwrap().iter().map(step).collect()
    }
}

fn url(server: &Server) -> String {
    format!("http://{}", server.address)
}

fn id(answer: &Answer) -> String {
    assert_eq!(answer.status, 201, "{}", answer.text());
    answer.json()["request_id"].as_str().unwrap().to_owned()
}

#[test]
fn a_run_goes_through_the_client_and_each_of_its_steps_is_recorded_once() {
    let server = Server::with(&[SHIPPED]);
    let client = Client::of(&url(&server), None);
    let skills = client.get("/v1/management/skills").json();
    assert_eq!(skills, server.get("/v1/management/skills").json(), "answers are those of the service");
    let wrong = json!({"skill_id": "demo-prime-number", "parameter": {"divisor": "three"}});
    assert_eq!(client.post("/v1/jobs/check", &wrong).refusal(), server.post("/v1/jobs/check", &wrong).refusal());
    let run = id(&client.post("/v1/jobs", &json!({"skill_id": "demo-prime-number", "parameter": {"divisor": 3}})));
    let early = client.get(&format!("/v1/jobs/{run}/result"));
    assert_eq!(early.refusal(), (409, "RESULT_NOT_READY".into()));
    let upload = format!("/v1/jobs/{run}/upload");
    let refused = client.call("POST", &upload).files(&[("other", "x.txt", b"2 3")]).send();
    assert_eq!(refused.refusal(), (400, "UNKNOWN_INPUT_KEY".into()));
    let numbers = b"2 3 4 97\n";
    assert_eq!(client.call("POST", &upload).files(&[("input_file", "my numbers.txt", numbers)]).send().status, 200);

    // The feed passes as it comes, event by event, and ends like that of the service.
    let events = Sse::open(client.address, &format!("/v1/jobs/{run}/events"), &[]).until_end();
    assert_eq!(of_type(&events, "conversation.completed").len(), 1);
    assert_eq!(events, server.events(&run, 0).until_end());
    let behind = Sse::open(client.address, &format!("/v1/jobs/{run}/events"), &[("last-event-id", "3")]).until_end();
    assert_eq!(behind, events[3..]);

    let result = client.get(&format!("/v1/jobs/{run}/result"));
    assert_eq!(result.json()["result"]["data"]["count"], 3);
    client.get(&format!("/v1/jobs/{run}/result"));
    let report = client.get(&format!("/v1/jobs/{run}/artifacts/artifacts/primes.md"));
    assert!(report.text().contains("97") && report.header("content-disposition").starts_with("attachment"));
    assert_eq!(report.header("content-security-policy"), "default-src 'none'; frame-ancestors 'none'");

    let steps = [("create", 201), ("upload", 400), ("upload", 200), ("result_read", 200)];
    assert_eq!(client.recorded(&run), steps.map(|(action, status)| (action.to_owned(), status)));
    let recording = client.get(&format!("/client/recordings/{run}")).json();
    assert_eq!((&recording["request_id"], &recording["skill_id"]), (&json!(run), &json!("demo-prime-number")));
    assert_eq!(recording["steps"][0]["request"]["json"]["parameter"], json!({"divisor": 3}));
    let file = &recording["steps"][2]["files"][0];
    assert_eq!(
        (&file["field"], &file["file_name"], &file["bytes"]),
        (&json!("input_file"), &json!("my numbers.txt"), &json!(9))
    );
    assert_eq!(file["sha256"], json!(hex::encode(<sha2::Sha256 as sha2::Digest>::digest(numbers))));
    assert_eq!(recording["steps"][3]["answer"]["json"], result.json());
    let listed = client.get("/client/recordings").json();
    assert_eq!(listed["recordings"][0]["actions"], json!(["create", "upload", "upload", "result_read"]));
    assert_eq!(listed["trouble"], Value::Null);

    // A create that is refused makes no recording, and a recording outside the folder is not to be had.
    assert_eq!(client.post("/v1/jobs", &json!({"skill_id": "nothing"})).refusal(), (404, "SKILL_NOT_FOUND".into()));
    assert_eq!(fs::read_dir(client.folder()).unwrap().count(), 1);
    for name in ["nothing", "..%2f..%2fskill-runner", "%2e%2e"] {
        assert_eq!(client.get(&format!("/client/recordings/{name}")).status, 404, "{name}");
    }
}

#[test]
fn a_skill_of_one_run_passes_through_and_is_recorded_without_its_content() {
    let server = Server::start();
    let client = Client::of(&url(&server), None);
    let place = Place::new();
    place.skill("one-off", HELLO);
    let zip = crate::support::zips::zip_folder(&place.path().join("skills/one-off"));
    let checked = client.call("POST", "/v1/skill-packages/check").parts(&[("file", &zip)]).send().json();
    assert_eq!(checked["skill"]["schemas"]["input"]["properties"]["doc"], json!({"type": "string"}), "{checked}");
    assert_eq!(checked["skill"]["execution_modes"], json!(["auto"]));
    let run = id(&client.post("/v1/temp-skill-runs", &json!({})));
    let upload = client.call("POST", &format!("/v1/temp-skill-runs/{run}/upload"));
    assert_eq!(upload.parts(&[("skill_package", &zip)]).send().status, 200);
    Sse::open(client.address, &format!("/v1/jobs/{run}/events"), &[]).until_end();
    assert_eq!(client.get(&format!("/v1/jobs/{run}/result")).json()["result"]["data"]["greeting"], "hello");
    let text = fs::read_to_string(client.folder().join(format!("{run}.json"))).unwrap();
    assert!(text.contains("skill_package") && text.contains(&format!("\"bytes\": {}", zip.len())), "{text}");
    assert!(text.len() < 20_000, "{text}");
}

#[test]
fn the_token_stays_in_the_process_and_only_the_printed_address_opens_the_pages() {
    let server = Server::with(&[SHIPPED, ("token", TOKEN)]);
    let client = Client::of(&url(&server), Some(TOKEN));
    let key = client.key.clone().expect("a key in the printed address");
    // Pages and files hold no data, so that they need no key.
    for path in ["/", "/recordings", "/skills/demo-echo/run"] {
        let page = Call::new(client.address, "GET", path).send();
        assert_eq!((page.status, page.header("content-type")), (200, "text/html; charset=utf-8"), "{path}");
        assert!(page.header("content-security-policy").starts_with("default-src 'none'; script-src 'self'"), "{path}");
        assert!(!page.text().contains(&key) && !page.text().contains(TOKEN));
    }
    assert_eq!(
        Call::new(client.address, "GET", "/ui/static/e2e.js").send().header("content-type"),
        "text/javascript; charset=utf-8"
    );
    for path in ["/v1/skills", "/client", "/client/recordings"] {
        assert_eq!(Call::new(client.address, "GET", path).send().refusal(), (401, "UNAUTHORIZED".into()), "{path}");
        let wrong = format!("skill_runner_e2e_{}={}x", client.address.port(), &key[..key.len() - 1]);
        let wrong = Call::new(client.address, "GET", path).header("cookie", &wrong).send();
        assert_eq!(wrong.status, 401, "{path}");
    }
    assert_eq!(Call::new(client.address, "GET", "/?key=wrong").send().status, 401);
    // The key in the address becomes a cookie, and leaves the address.
    let opened = raw(
        client.address,
        format!(
            "GET /recordings?key={key} HTTP/1.1\r\nHost: localhost:{}\r\nConnection: close\r\n\r\n",
            client.address.port()
        )
        .as_bytes(),
    )
    .to_lowercase();
    assert!(opened.starts_with("http/1.1 303") && opened.contains("\r\nlocation: /recordings\r\n"), "{opened}");
    assert!(opened.contains("; httponly; samesite=strict"), "{opened}");
    let elsewhere = Call::new(client.address, "GET", &format!("//evil.example/?key={key}")).send();
    assert!(!elsewhere.text_lossy().contains("evil"), "{elsewhere:?}");

    let run =
        id(&client.post("/v1/jobs", &json!({"skill_id": "demo-echo", "input": {"text": format!("is it {TOKEN}?")}})));
    Sse::open(
        client.address,
        &format!("/v1/jobs/{run}/events"),
        &[("cookie", &format!("skill_runner_e2e_{}={key}", client.address.port()))],
    )
    .until_end();
    let result = client.get(&format!("/v1/jobs/{run}/result"));
    assert_eq!(result.status, 200);
    assert_eq!(result.header("set-cookie"), "");
    let text = fs::read_to_string(client.folder().join(format!("{run}.json"))).unwrap();
    assert!(text.contains("is it ***?") && !text.contains(TOKEN) && !text.contains(&key), "{text}");
    let listed = fs::metadata(client.folder().join(format!("{run}.json"))).unwrap();
    assert_eq!(std::os::unix::fs::PermissionsExt::mode(&listed.permissions()) & 0o077, 0, "others read no recording");
}

#[test]
fn other_pages_hosts_and_routes_get_nothing_from_the_client() {
    let server = Server::with(&[SHIPPED]);
    let client = Client::of(&url(&server), None);
    for host in ["evil.example", "localhost.evil.example", "me@localhost", "169.254.1.1"] {
        let answer = raw(
            client.address,
            format!("GET /v1/skills HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").as_bytes(),
        );
        assert!(answer.starts_with("HTTP/1.1 403") && answer.contains("FORBIDDEN_HOST"), "{host}: {answer}");
    }
    let body = json!({"skill_id": "demo-echo", "input": {"text": "x"}});
    let own = format!("http://{}", client.address);
    for (header, value) in [
        ("origin", "http://evil.example"),
        ("origin", "null"),
        ("origin", "http://127.0.0.1:1"),
        ("sec-fetch-site", "cross-site"),
        ("sec-fetch-site", "same-site"),
    ] {
        let refused = client.call("POST", "/v1/jobs").header(header, value).json(&body).send();
        assert_eq!(refused.refusal(), (403, "FORBIDDEN_ORIGIN".into()), "{value}");
        let refused = client.call("GET", "/v1/skills").header(header, value).send();
        assert_eq!((refused.status, refused.header("access-control-allow-origin")), (403, ""), "{value}");
    }
    assert_eq!(server.get("/v1/jobs").json()["jobs"], json!([]), "nothing was created");
    assert_eq!(client.call("POST", "/v1/jobs").header("origin", &own).json(&body).send().status, 201);
    for (method, path) in [
        ("DELETE", "/v1/skills/demo-echo"),
        ("POST", "/v1/skill-packages/install"),
        ("POST", "/v1/backups"),
        ("POST", "/v1/jobs/cleanup"),
        ("GET", "/v1/management/settings"),
        ("GET", "/v1/jobs/../management/settings"),
        ("GET", "/v1/openapi.json"),
        ("GET", "/ui/session"),
        ("GET", "/ui/static/../Cargo.toml"),
        ("POST", "/"),
        ("GET", "/client/nothing"),
    ] {
        let answer = client.call(method, path).send();
        assert!([404, 405].contains(&answer.status), "{method} {path}: {}", answer.status);
    }
    assert_eq!(server.get("/v1/skills/demo-echo").status, 200);
}

#[test]
fn a_service_that_is_away_is_told_and_a_signal_ends_the_client() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let service = format!("http://{}", taken.local_addr().unwrap());
    drop(taken);
    let client = Client::of(&service, None);
    assert_eq!(client.get("/v1/skills").refusal(), (502, "SERVICE_UNREACHABLE".into()));
    assert_eq!(client.get("/client").json(), json!({"service": service}));
    assert_eq!(client.get("/client/recordings").json()["recordings"], json!([]));
    let running = client.running;
    running.signal(Signal::TERM);
    let ran = running.end();
    assert_eq!(ran.code, Some(0), "{ran:?}");
}

#[test]
fn the_port_is_8011_also_when_the_variable_is_no_port_and_one_that_is_taken_is_named() {
    let place = Place::new();
    // Whoever holds the port, this test or somebody else, it is the one that is tried.
    let _held = TcpListener::bind("127.0.0.1:8011");
    for text in ["", "none", "0", "65536", "-1"] {
        let ran = place.run_with(("SKILL_RUNNER_E2E_CLIENT_PORT", text), &["e2e-client"]);
        assert_eq!(ran.code, Some(1), "{text}: {ran:?}");
        assert!(ran.stderr.contains("listen on 127.0.0.1:8011") && ran.stderr.contains("--port"), "{text}: {ran:?}");
    }
    let ran = place.run(&["e2e-client", "--server", "nothing"]);
    assert_eq!(ran.code, Some(2), "{ran:?}");
}

#[test]
fn without_a_token_other_users_of_the_machine_do_not_come_in_by_way_of_the_client() {
    if !can_play_others() {
        return;
    }
    let server = Server::start();
    let client = Client::of(&url(&server), None);
    let request = "GET /v1/skills HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    assert_eq!(asked_as(65534, client.address, request).stdout, b"");
    assert!(asked_as(0, client.address, request).stdout.starts_with(b"HTTP/1.1 200"));
}
