//! The sandbox around codex, the runner's or its own: only the operator widens it.

use std::fs::{self, OpenOptions};
use std::io::Write;

use serde_json::json;

use super::service::Service;
use crate::interactive::pose;
use crate::support::model_server::Reply;
use crate::support::{Call, clis, sandbox};

/// No namespace of this kind can be made in it, which the runner's sandbox needs and codex's own does not.
const WITHOUT_OUR_SANDBOX: &[&str] =
    &["unshare", "-Ur", "sh", "-c", "echo 0 > /proc/sys/user/max_uts_namespaces && exec \"$@\"", "sh"];

#[test]
fn the_operator_alone_gives_commands_of_codex_another_folder_to_write_to() {
    const NAME: &str = "real_clis::sandbox::the_operator_alone_gives_commands_of_codex_another_folder_to_write_to";
    if !clis::left_out(NAME) && !sandbox::left_out(NAME) {
        only_the_operator_widens(&[], "sandbox", "read-only-root");
    }
}

#[test]
fn where_the_runner_has_no_sandbox_that_of_codex_itself_is_widened_by_the_operator_alone() {
    const NAME: &str =
        "real_clis::sandbox::where_the_runner_has_no_sandbox_that_of_codex_itself_is_widened_by_the_operator_alone";
    if clis::left_out(NAME) || sandbox::left_out(NAME) {
        return;
    }
    only_the_operator_widens(WITHOUT_OUR_SANDBOX, "process-tree", "engine-sandbox");
}

/// Both start a program of another package, which npm puts beside their own.
#[test]
fn a_cli_that_was_installed_into_a_folder_of_packages_finds_the_others_there() {
    for name in ["codex", "opencode"] {
        if clis::left_out(&format!("real_clis::sandbox::a_cli_that_was_installed_into_a_folder_of_packages on {name}"))
        {
            continue;
        }
        let program = clis::prefix().join("node_modules/.bin").join(name).display().to_string();
        let elsewhere = tempfile::tempdir().unwrap();
        let variable = format!("SKILL_RUNNER_{}_BIN", name.to_uppercase());
        let prefix = elsewhere.path().display().to_string();
        let mut service = Service::set(name, &[(&variable, &program), ("SKILL_RUNNER_NPM_PREFIX", &prefix)]);
        pose::skill(&service.skills(), "say", None);
        let run = service.start(&[Reply::Result(json!({"name": "Ann"}))], json!({"skill_id": "say"}));
        let events = service.finish(&run);
        let job = service.get(&format!("/v1/jobs/{run}"));
        assert_eq!(job["status"], "succeeded", "{name}: {job:#}\n{events:#?}");
        service.close();
    }
}

/// A service of codex that is started by these words, with the skill `say`.
fn service(starter: &[&str], variables: &[(&str, &str)]) -> Service {
    let service = Service::set_in(tempfile::tempdir().unwrap(), starter, "codex", variables);
    pose::skill(&service.skills(), "say", None);
    service
}

fn only_the_operator_widens(starter: &[&str], tier: &str, part: &str) {
    // Not in /tmp, which is the run's own: a file that a command writes there is seen by nobody else in any case.
    let outside = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let file = outside.path().join("file");
    let replies = [Reply::Shell(format!("echo x > {}; true", file.display())), Reply::Result(json!({"name": "Ann"}))];
    let body = json!({"skill_id": "say", "runtime_options": {"no_cache": true}});
    let writes = |service: &mut Service| {
        let run = service.start(&replies, body.clone());
        let events = service.finish(&run);
        let job = service.get(&format!("/v1/jobs/{run}"));
        assert_eq!(job["status"], "succeeded", "{job:#}\n{events:#?}");
        (file.exists(), job["isolation"].clone())
    };
    // Without any sandbox the command does write there.
    let mut open = self::service(&[], &[("SKILL_RUNNER_SANDBOX", "off")]);
    assert!(writes(&mut open).0);
    fs::remove_file(&file).unwrap();
    open.close();

    let mut service = self::service(starter, &[]);
    let (written, isolation) = writes(&mut service);
    assert_eq!((written, &isolation["tier"]), (false, &json!(tier)), "{isolation:#}");
    assert!(isolation["parts"].as_array().unwrap().contains(&json!(part)), "{isolation:#}");
    let config = json!({"sandbox_workspace_write": {"writable_roots": [outside.path()]}});
    let asked = json!({"skill_id": "say", "engine": "codex", "codex_config": config});
    let answer = Call::new(service.address, "POST", "/v1/jobs").json(&asked).send();
    assert_eq!(answer.refusal(), (400, "ENGINE_CONFIG_REFUSED".to_owned()));
    let path = &answer.json()["error"]["details"][0]["path"];
    assert_eq!(path, "/codex_config/sandbox_workspace_write/writable_roots");

    service.close();

    // The runner's own sandbox is widened by its setting, codex's own by its configuration.
    let roots = fs::canonicalize(outside.path()).unwrap();
    let mut service = self::service(starter, &[("SKILL_RUNNER_SANDBOX_WRITE", roots.to_str().unwrap())]);
    let operators = service.folder.path().join("data/agent-home/codex/.codex/config.toml");
    let mut operators = OpenOptions::new().append(true).open(operators).unwrap();
    write!(operators, "\n[sandbox_workspace_write]\nwritable_roots = [{:?}]\n", roots.to_str().unwrap()).unwrap();
    assert!(writes(&mut service).0);
    service.close();
}
