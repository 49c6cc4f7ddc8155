//! Packages that are installed, found again, shared, and removed.

use std::fs;
use std::thread;

use serde_json::{Value, json};

use super::{GREETS, WHEEL, greeter, progress, python_skill, wheel};
use crate::interactive::pose::{Pose, says};
use crate::support::{Server, of_type};

#[test]
fn a_script_runs_with_the_packages_it_declares_and_the_next_run_installs_nothing() {
    let server = Server::with(&[("python_environment_days", "0")]);
    greeter(&server.skills(), "greeter");
    let (events, result) = server.ran("greeter");
    let [id] = server.environments().try_into().unwrap();
    let environment = server.data().join("environments").join(&id).join("venv");
    assert_eq!(
        result["data"],
        json!({"greeting": "good day", "prefix": environment, "variable": environment}),
        "{result}"
    );
    let told = progress(&events);
    assert!(told.iter().any(|line| line.starts_with("making a Python 3.")), "{told:?}");
    let installing = "installing the Python packages of the skill: ./wheels/greet-1.0-py3-none-any.whl";
    assert!(told.iter().any(|line| line == installing), "{told:?}");
    let raw: String = of_type(&events, "raw.stderr").iter().map(|data| data["text"].as_str().unwrap()).collect();
    assert!(raw.contains("greet"), "the installer's own words are in the log: {raw}");
    // The command names the environment, so that every run tells which one it used.
    let command = &of_type(&events, "turn.started")[0]["command"][0];
    assert_eq!(*command, json!(environment.join("bin/python")));
    let record: Value = serde_json::from_slice(
        &fs::read(server.data().join("environments").join(&id).join("environment.json")).unwrap(),
    )
    .unwrap();
    assert!(record["packages"].as_array().unwrap().contains(&json!("greet==1.0")), "{record}");

    // The installation is in the sandbox, as the run is: nothing is told to be outside.
    let outside = |events: &[Value]| {
        let warnings = of_type(events, "diagnostic.warning");
        warnings.iter().any(|warning| warning["code"] == "ISOLATION_NOT_ENFORCED")
    };
    assert!(!outside(&events), "{events:?}");

    let (events, result) = server.ran("greeter");
    assert!(!outside(&events));
    assert_eq!(result["data"]["greeting"], "good day");
    assert_eq!((progress(&events), of_type(&events, "raw.stderr")), (vec![], vec![]), "no installer was started");
    assert_eq!(of_type(&events, "turn.started")[0]["command"][0], *command);

    let totals = server.get("/v1/system").json()["python_environments"].clone();
    assert_eq!((&totals["count"], &totals["bytes"]), (&json!(1), &record["bytes"]));
    let cleaned = server.post("/v1/jobs/cleanup", &json!({})).json();
    assert_eq!(cleaned["environments_deleted"], 1, "{cleaned}");
    assert_eq!(server.environments(), Vec::<String>::new());
}

#[test]
fn ten_runs_at_once_install_once() {
    let server = Server::with(&[("max_running_jobs", "10")]);
    greeter(&server.skills(), "greeter");
    let all: Vec<(Vec<Value>, Value)> = thread::scope(|scope| {
        let runs: Vec<_> = (0..10).map(|_| scope.spawn(|| server.ran("greeter"))).collect();
        runs.into_iter().map(|run| run.join().unwrap()).collect()
    });
    let makers =
        all.iter().filter(|(events, _)| progress(events).iter().any(|line| line.starts_with("making a Python")));
    assert_eq!(makers.count(), 1);
    for (_, result) in &all {
        assert_eq!(result["data"]["greeting"], "good day", "{result}");
    }
    assert_eq!(server.environments().len(), 1);
}

#[test]
fn a_script_can_declare_its_packages_in_its_own_head_and_so_can_a_normalizer() {
    let server = Server::start();
    let head = format!("# /// script\n# requires-python = \">=3.8\"\n# dependencies = [\"./{WHEEL}\"]\n# ///\n");
    let good = wheel("1.0", "good day");
    let files: [(&str, &[u8]); 1] = [(WHEEL, &good)];
    let folder = python_skill(&server.skills(), "inline", &format!("{head}{GREETS}"), &Value::Null, &files);
    let (_, result) = server.ran("inline");
    assert_eq!(result["data"]["greeting"], "good day", "{result}");
    // The same skill with a normalizer that needs the package, and a script that does not.
    let normalizer = format!(
        "{head}import json, os, sys, greet\nos.makedirs('result', exist_ok=True)\n\
         json.dump({{'greeting': greet.hello()}}, open('result/result.json', 'w'))\n"
    );
    fs::write(folder.join("scripts/run.py"), "print('{\"success\": true, \"data\": {}}')\n").unwrap();
    fs::write(folder.join("scripts/normalize.py"), normalizer).unwrap();
    let schema = json!({"type": "object", "required": ["greeting"]});
    fs::write(folder.join("assets/output.schema.json"), schema.to_string()).unwrap();
    let path = folder.join("assets/runner.json");
    let mut runner: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    runner["normalizer"] = json!({"command": "python scripts/normalize.py"});
    fs::write(&path, runner.to_string()).unwrap();
    let (events, result) = server.ran("inline");
    assert_eq!(result["data"], json!({"greeting": "good day"}), "{result}");
    assert!(progress(&events).iter().any(|line| line.starts_with("installing")), "before the script");
}

#[test]
fn other_requirements_are_another_environment_and_another_result() {
    let server = Server::start();
    let one = wheel("1.0", "good day");
    let files: [(&str, &[u8]); 2] =
        [(WHEEL, &one), ("requirements.txt", b"# needed\n./wheels/greet-1.0-py3-none-any.whl\n")];
    let declared = json!({"requirements": "requirements.txt"});
    let folder = python_skill(&server.skills(), "greeter", GREETS, &declared, &files);
    let cached = |server: &Server| {
        let (_, run) = server.create("greeter");
        server.finish(&run);
        server.get(&format!("/v1/jobs/{run}/result")).json()["result"]["data"]["greeting"].take()
    };
    assert_eq!(cached(&server), "good day");
    fs::write(folder.join("wheels/greet-2.0-py3-none-any.whl"), wheel("2.0", "good night")).unwrap();
    fs::write(folder.join("requirements.txt"), "wheels/greet-2.0-py3-none-any.whl\n").unwrap();
    assert_eq!(cached(&server), "good night");
    assert_eq!(server.environments().len(), 2);
}

#[test]
fn the_packages_of_a_hybrid_skill_are_there_before_its_engine_begins() {
    let pose = Pose::new();
    pose.plays(&[says("hello from the engine")]);
    let command = pose.command();
    let server = Server::with(&[("engines.codex.command", &command)]);
    let folder = greeter(&server.skills(), "both");
    let script = "import json, sys, greet\ncontext = json.load(sys.stdin)['context']\n\
        print(json.dumps({'success': True, 'data': {'engine': context['engine_text'], 'greeting': greet.hello()}}))\n";
    fs::write(folder.join("scripts/run.py"), script).unwrap();
    let path = folder.join("assets/runner.json");
    let mut runner: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    runner["entrypoint"] = json!({"type": "hybrid", "script": {"command": "python3 scripts/run.py"}});
    fs::write(&path, runner.to_string()).unwrap();
    let (events, result) = server.ran("both");
    assert_eq!(result["data"], json!({"engine": "hello from the engine", "greeting": "good day"}), "{result}");
    let at = |found: &dyn Fn(&Value) -> bool| events.iter().position(found).unwrap();
    let installed = at(&|event| event["data"]["message"] == "the Python packages of the skill are installed");
    let said = at(&|event| event["type"] == "assistant.message.final");
    assert!(installed < said, "{events:?}");
    // A package that cannot be installed costs no turn of the engine.
    fs::write(folder.join(WHEEL), "no zip at all").unwrap();
    let (events, result) = server.ran("both");
    assert_eq!(result["error"]["code"], "DEPENDENCIES_UNAVAILABLE", "{result}");
    assert_eq!(of_type(&events, "assistant.message.final"), Vec::<Value>::new());
}
