//! Packages that cannot be installed: the error has a code, the package, the installer's words and what to do.

use serde_json::{Value, json};

use super::{GREETS, WHEEL, greeter, python_skill};
use crate::support::Server;

fn failed(server: &Server, python: &Value, files: &[(&str, &[u8])]) -> Value {
    python_skill(&server.skills(), "broken", GREETS, python, files);
    let (_, run) = server.create("broken");
    server.finish(&run);
    let job = server.get(&format!("/v1/jobs/{run}")).json();
    assert_eq!(job["status"], "failed", "{job}");
    job["error"].clone()
}

#[test]
fn a_wheel_that_is_none_fails_the_run_with_the_installers_words() {
    let server = Server::start();
    let error = failed(&server, &json!({"requirements": [WHEEL]}), &[(WHEEL, b"no zip at all")]);
    assert_eq!(error["code"], "DEPENDENCIES_UNAVAILABLE", "{error}");
    let details = &error["details"];
    assert!(details["installer_output"].as_str().unwrap().contains("greet-1.0-py3-none-any.whl"), "{details}");
    assert!(details["hint"].is_string() && details["reason"].is_string() && details["exit_code"] == 1, "{details}");
    assert!(error["message"].as_str().unwrap().contains("greet-1.0-py3-none-any.whl"), "{error}");
}

#[test]
fn a_version_of_python_that_the_machine_does_not_have_is_named_with_those_it_has() {
    let server = Server::start();
    let error = failed(&server, &json!({"requirements": [], "python": ">=3.99"}), &[]);
    assert_eq!(
        (&error["code"], &error["details"]["reason"]),
        (&json!("DEPENDENCIES_UNAVAILABLE"), &json!("no_python"))
    );
    let message = error["message"].as_str().unwrap();
    assert!(message.contains("needs Python >=3.99, and this machine has 3."), "{message}");
}

#[test]
fn a_service_that_may_not_install_says_so_before_anything_starts() {
    let server = Server::with(&[("python_packages", "off")]);
    greeter(&server.skills(), "greeter");
    let (_, run) = server.create("greeter");
    server.finish(&run);
    let job = server.get(&format!("/v1/jobs/{run}")).json();
    assert_eq!(
        (&job["error"]["code"], &job["error"]["details"]["reason"]),
        (&json!("DEPENDENCIES_UNAVAILABLE"), &json!("off"))
    );
    assert!(job["error"]["message"].as_str().unwrap().contains("python_packages"), "{job}");
    assert_eq!(server.environments(), Vec::<String>::new());
}

#[test]
fn a_declaration_that_cannot_be_installed_is_refused_before_any_run() {
    let server = Server::start();
    python_skill(&server.skills(), "broken", GREETS, &json!({"requirements": ["requests=2"]}), &[]);
    let answer = server.post("/v1/jobs", &json!({"skill_id": "broken"}));
    assert!(answer.status >= 400 && answer.json().to_string().contains("requests=2"), "{}", answer.json());
}
