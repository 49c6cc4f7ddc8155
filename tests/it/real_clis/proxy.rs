//! What a CLI is given to find its way out, and what it is not given.

use std::fs;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::service::Service;
use super::{Cli, KEY, on_every_cli};
use crate::interactive::pose;
use crate::support::model_server::{ModelServer, Reply};
use crate::support::{clis, left_out, sandbox};

on_every_cli!(a_model_with_a_name_is_reached_through_the_proxy_alone);

/// A name that only the service knows, from its own table of hosts.
const NAME: &str = "model.test";

/// Starts a program with another table of hosts.
const WITH_HOSTS: [&str; 5] = ["unshare", "--mount", "sh", "-c", "mount --bind \"$0\" /etc/hosts && exec \"$@\""];

fn a_model_with_a_name_is_reached_through_the_proxy_alone(engine: &str) {
    let test = format!("real_clis::proxy::{engine}::a_model_with_a_name_is_reached_through_the_proxy_alone");
    let mounts = Command::new("unshare").args(["--mount", "true"]).stderr(Stdio::null()).status();
    if sandbox::left_out(&test) {
        return;
    }
    if !mounts.is_ok_and(|status| status.success()) {
        left_out::tell("this user may not mount", &test);
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let hosts = folder.path().join("hosts");
    fs::write(&hosts, format!("127.0.0.1 localhost\n127.0.0.1 {NAME}\n")).unwrap();
    let starter = [&WITH_HOSTS[..], &[hosts.to_str().unwrap()]].concat();
    let model = ModelServer::start();
    let cli = Cli::asking(&format!("{NAME}:{}", model.address.port()), engine);
    let mut service = Service::of(cli, model, folder, &starter, &[("SKILL_RUNNER_SANDBOX", "on")]);
    pose::skill(&service.skills(), "say", None);
    let runner = service.skills().join("say/assets/runner.json");
    let mut manifest: Value = serde_json::from_slice(&fs::read(&runner).unwrap()).unwrap();
    manifest["automation"] = json!({"network": "off"});
    fs::write(&runner, manifest.to_string()).unwrap();

    // In the run's own network nobody listens at the model's port, whatever the name leads to there.
    let run = service.start(&[Reply::Result(json!({"name": "Ann"}))], json!({"skill_id": "say"}));
    let events = service.finish(&run);
    let job = service.get(&format!("/v1/jobs/{run}"));
    assert_eq!((&job["status"], &job["isolation"]["network"]), (&json!("succeeded"), &json!("model")), "{events:#?}");
    let parts = job["isolation"]["parts"].as_array().unwrap();
    assert!(parts.contains(&json!("egress-proxy")), "{job:#}");
    let refused = job["warnings"].as_array().unwrap().iter().any(|warning| warning["details"]["host"] == NAME);
    assert!(!refused && !service.model.requests().is_empty(), "{job:#}");
    service.close();
}

#[test]
fn variables_that_change_how_programs_are_loaded_are_not_passed_even_if_the_operator_names_them() {
    if clis::left_out(
        "real_clis::proxy::variables_that_change_how_programs_are_loaded_are_not_passed_even_if_the_operator_names_them",
    ) {
        return;
    }
    let passed = "ANTHROPIC_API_KEY,ANTHROPIC_BASE_URL,LD_LIBRARY_PATH,GCONV_PATH,PYTHONSTARTUP,A_WORD";
    let variables = [
        ("SKILL_RUNNER_ENGINES_CLAUDE_ENV_PASS", passed),
        ("LD_LIBRARY_PATH", "/nowhere"),
        ("GCONV_PATH", "/nowhere"),
        ("PYTHONSTARTUP", "/nowhere"),
        ("A_WORD", "passed"),
    ];
    let mut service = Service::set("claude", &variables);
    pose::skill(&service.skills(), "say", None);
    let replies = [Reply::Shell("env > variables".to_owned()), Reply::Result(json!({"name": "Ann"}))];
    let run = service.start(&replies, json!({"skill_id": "say"}));
    let events = service.finish(&run);
    let told = fs::read_to_string(service.run_dir(&run).join("variables")).unwrap_or_else(|_| panic!("{events:#?}"));
    let of = |name: &str| told.lines().find_map(|line| line.strip_prefix(&format!("{name}=")[..]));
    assert_eq!(of("A_WORD"), Some("passed"), "{told}");
    for name in ["LD_LIBRARY_PATH", "GCONV_PATH", "PYTHONSTARTUP"] {
        assert_eq!(of(name), None, "{told}");
    }
    assert!(!told.contains(KEY), "{told}");
    service.close();
}
