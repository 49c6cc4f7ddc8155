//! The process that installs Python packages is in the sandbox: what a package does while it is built stays there, and the index that
//! the operator names is reached.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::Path;

use serde_json::{Value, json};

use super::{GREETS, python_skill, wheel};
use crate::support::{Server, of_type, program, sandbox};

/// A package that tries things while it is built, and tells later what came of them.
fn nosy_package(aim: &Value) -> Vec<(String, Vec<u8>)> {
    let project = "[build-system]\nrequires = []\nbuild-backend = 'backend'\nbackend-path = ['.']\n[project]\nname = 'nosy'\nversion = '1.0'\n";
    let backend = r#"import errno, json, os, socket, zipfile
aim = json.load(open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "aim.json")))
def outcome(tried):
    try:
        tried()
        return "got it"
    except OSError as error:
        return errno.errorcode[error.errno]
def write(folder):
    with open(os.path.join(folder, "planted"), "w") as file:
        file.write("x")
def read(path):
    with open(path, "rb") as file:
        file.read(1)
def build_wheel(folder, config_settings=None, metadata_directory=None):
    found = {name: outcome(lambda: read(path)) for name, path in aim["read"].items()}
    found.update({name: outcome(lambda: write(path)) for name, path in aim["write"].items()})
    found["the service"] = outcome(lambda: socket.create_connection(("127.0.0.1", aim["port"]), 20))
    name, info = "nosy-1.0-py3-none-any.whl", "nosy-1.0.dist-info/"
    with zipfile.ZipFile(os.path.join(folder, name), "w") as wheel:
        wheel.writestr("nosy.py", "FOUND = %r\n" % (found,))
        wheel.writestr(info + "METADATA", "Metadata-Version: 2.1\nName: nosy\nVersion: 1.0\n")
        wheel.writestr(info + "WHEEL", "Wheel-Version: 1.0\nGenerator: t\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(info + "RECORD", "nosy.py,,\n" + info + "METADATA,,\n" + info + "WHEEL,,\n" + info + "RECORD,,\n")
    return name
"#;
    vec![
        ("vendor/nosy/pyproject.toml".to_owned(), project.as_bytes().to_vec()),
        ("vendor/nosy/backend.py".to_owned(), backend.as_bytes().to_vec()),
        ("vendor/nosy/aim.json".to_owned(), aim.to_string().into_bytes()),
    ]
}

/// What such a package found while a service with this setting installed it; how often something was planted outside; the warnings.
fn installed(setting: &str) -> (Value, usize, Vec<Value>) {
    let server = Server::with(&[("sandbox", setting)]);
    let home = tempfile::tempdir_in(std::env::var_os("HOME").unwrap()).unwrap();
    let (outside, shared) = (tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap(), tempfile::tempdir().unwrap());
    let other = server.data().join("environments/other");
    fs::create_dir_all(&other).unwrap();
    for file in [home.path().join("file"), server.data().join("secret")] {
        fs::write(file, "secret").unwrap();
    }
    server.skill("victim", "cat >/dev/null; echo '{\"success\":true,\"data\":{}}'\n", json!({}));
    let (_, victim) = server.create("victim");
    server.finish(&victim);
    let aim = json!({
        "read": {
            "the data folder": server.data().join("secret"),
            "another run": server.run_dir(&victim).join("input.json"),
            "a home": home.path().join("file"),
        },
        "write": {
            "the machine": outside.path(),
            "the machine's /tmp": shared.path(),
            "another environment": other,
        },
        "port": server.address.port(),
    });
    let files = nosy_package(&aim);
    let files: Vec<(&str, &[u8])> = files.iter().map(|(path, bytes)| (path.as_str(), bytes.as_slice())).collect();
    let script = "import json, nosy\nprint(json.dumps({'success': True, 'data': nosy.FOUND}))\n";
    python_skill(&server.skills(), "curious", script, &json!({"requirements": ["./vendor/nosy"]}), &files);
    let (events, result) = server.ran("curious");
    let planted =
        [outside.path(), shared.path(), &other].iter().filter(|folder| folder.join("planted").exists()).count();
    (result["data"].clone(), planted, of_type(&events, "diagnostic.warning"))
}

#[test]
fn a_package_that_is_built_sees_neither_other_runs_nor_homes_nor_the_service_and_writes_to_its_environment_alone() {
    let test = "dependencies::confined::a_package_that_is_built_sees_neither_other_runs_nor_homes_nor_the_service_and_writes_to_its_environment_alone";
    let names = [
        "the data folder",
        "another run",
        "a home",
        "the machine",
        "the machine's /tmp",
        "another environment",
        "the service",
    ];
    let (found, planted, _) = installed("off");
    let all: serde_json::Map<String, Value> = names.iter().map(|name| ((*name).to_owned(), json!("got it"))).collect();
    assert_eq!((found, planted), (Value::Object(all), 3), "without the sandbox nothing keeps it");
    if sandbox::left_out(test) {
        return;
    }
    let (mut found, planted, warnings) = installed("on");
    if found["the machine"] == "ENOENT" {
        // The project itself is in a folder that runs do not see.
        found["the machine"] = json!("EROFS");
    }
    let kept = json!({
        "the data folder": "ENOENT", "another run": "ENOENT", "a home": "ENOENT", "the machine": "EROFS",
        "the machine's /tmp": "ENOENT", "another environment": "ENOENT", "the service": "ECONNREFUSED",
    });
    assert_eq!((found, planted), (kept, 0));
    assert_eq!(warnings, Vec::<Value>::new(), "nothing was left out");
}

/// A package index on the machine's loopback with one wheel.
fn index(wheel: Vec<u8>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for connection in listener.incoming() {
            let Ok(mut connection) = connection else { return };
            let mut lines = BufReader::new(connection.try_clone().unwrap()).lines();
            let Some(Ok(first)) = lines.next() else { continue };
            let path = first.split(' ').nth(1).unwrap_or_default().to_owned();
            while lines.next().is_some_and(|line| line.is_ok_and(|line| !line.is_empty())) {}
            let name = "greet-1.0-py3-none-any.whl";
            let (kind, body) = match path.as_str() {
                "/simple/greet/" => ("text/html", format!("<a href=\"/files/{name}\">{name}</a>").into_bytes()),
                path if path.starts_with("/files/") => ("application/octet-stream", wheel.clone()),
                _ => ("text/html", Vec::new()),
            };
            let status = if body.is_empty() { "404 Not Found" } else { "200 OK" };
            let head = format!(
                "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
                body.len()
            );
            let _ = connection.write_all(head.as_bytes()).and_then(|()| connection.write_all(&body));
        }
    });
    port
}

fn run(place: &Path, variables: &[(&str, &str)]) -> (Option<i32>, String, String) {
    let mut command = program();
    command.arg("run").arg(place.join("greeter")).arg("--data-dir").arg(place.join("data")).env_clear();
    command.env("PATH", std::env::var_os("PATH").unwrap()).env("SKILL_RUNNER_SANDBOX", "on");
    let done = command.envs(variables.iter().copied()).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (done.status.code(), text(done.stdout), text(done.stderr))
}

#[test]
fn the_index_that_the_operator_names_is_reached_from_the_sandbox_and_what_a_skill_says_of_its_network_is_its_own() {
    let test = "dependencies::confined::the_index_that_the_operator_names_is_reached_from_the_sandbox_and_what_a_skill_says_of_its_network_is_its_own";
    if sandbox::left_out(test) {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let folder = python_skill(place.path(), "greeter", GREETS, &json!({"requirements": ["greet==1.0"]}), &[]);
    let runner = folder.join("assets/runner.json");
    let mut manifest: Value = serde_json::from_slice(&fs::read(&runner).unwrap()).unwrap();
    manifest["automation"] = json!({"network": "off"});
    fs::write(runner, manifest.to_string()).unwrap();
    let url = format!("http://127.0.0.1:{}/simple", index(wheel("1.0", "good day")));
    let (code, stdout, stderr) = run(place.path(), &[("PIP_INDEX_URL", &url), ("PIP_RETRIES", "0")]);
    assert_eq!(code, Some(0), "{stderr}");
    assert_eq!(serde_json::from_str::<Value>(&stdout).unwrap()["greeting"], "good day", "{stdout}");
    assert!(!stderr.contains("ISOLATION_NOT_ENFORCED"), "{stderr}");
}

#[test]
fn a_proxy_on_another_machine_is_used_and_the_log_says_that_the_network_is_the_machines() {
    let test =
        "dependencies::confined::a_proxy_on_another_machine_is_used_and_the_log_says_that_the_network_is_the_machines";
    if sandbox::left_out(test) {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    python_skill(place.path(), "greeter", GREETS, &json!({"requirements": ["greet==1.0"]}), &[]);
    fs::create_dir(place.path().join("wheels")).unwrap();
    fs::write(place.path().join("wheels/greet-1.0-py3-none-any.whl"), wheel("1.0", "good day")).unwrap();
    let links = place.path().join("wheels").to_str().unwrap().to_owned();
    let variables = [("PIP_NO_INDEX", "1"), ("PIP_FIND_LINKS", &links), ("HTTPS_PROXY", "http://proxy.invalid:3128")];
    let (code, _, stderr) = run(place.path(), &variables);
    assert_eq!(code, Some(0), "{stderr}");
    assert!(stderr.contains("ISOLATION_NOT_ENFORCED") && stderr.contains("proxy on another machine"), "{stderr}");
}
