//! What services know of each other, and how one is taken out of work.

use serde_json::{Value, json};

use super::Services;
use crate::support::postgres;

const HELLO: &str = "cat >/dev/null\necho '{\"success\":true,\"data\":{}}'\n";

fn by_name(nodes: &Value, name: &str) -> Value {
    nodes["nodes"].as_array().unwrap().iter().find(|node| node["name"] == name).cloned().unwrap_or_default()
}

#[test]
fn services_list_each_other_and_one_that_drains_starts_nothing() {
    if !postgres::installed("services list each other, and one that drains starts nothing") {
        return;
    }
    let services = Services::new();
    services.skill("hello", HELLO, json!({}));
    let (api, worker) = (services.api("api"), services.worker("worker"));
    let listed = api.get("/v1/management/nodes");
    crate::support::openapi::check("GET", "/v1/management/nodes", &listed);
    let nodes = listed.json();
    let [first, second] = ["api", "worker"].map(|name| by_name(&nodes, name));
    assert_eq!(
        [&first["works"], &first["answers_this_request"], &first["alive"], &first["slots"]],
        [&json!(false), &json!(true), &json!(true), &json!(0)]
    );
    assert_eq!(
        [&second["works"], &second["answers_this_request"], &second["address"], &second["draining"]],
        [&json!(true), &json!(false), &json!(null), &json!(false)]
    );
    let said = |args: &[&str]| {
        let done = services.command("api", args).output().unwrap();
        assert!(done.status.success(), "{args:?}: {}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8(done.stdout).unwrap()
    };
    assert!(said(&["nodes"]).contains("worker"));
    assert_eq!(said(&["drain", "worker"]), "worker starts no more runs\n");
    let path = format!("/v1/management/nodes/{}/drain", second["node_id"].as_str().unwrap());
    let drained = api.post(&path, &json!({"draining": true}));
    assert_eq!(drained.status, 200, "{}", drained.text());
    crate::support::openapi::check("POST", &path, &drained);
    // The worker hears of it with its next renewal.
    crate::crash::until("the worker drains", || {
        by_name(&api.get("/v1/management/nodes").json(), "worker")["draining"] == true
    });
    let run = api.create("hello");
    assert_eq!(api.job(&run)["status"], "queued");
    assert_eq!(said(&["drain", "worker", "--undo"]), "worker starts runs again\n");
    assert_eq!(api.finish(&run).last().unwrap()["data"]["status"], "succeeded");
    let unknown = api.post("/v1/management/nodes/0192f0c1-2d3e-7f40-8a51-6b7c8d9e0f11/drain", &json!({}));
    assert_eq!(unknown.refusal(), (404, "NODE_NOT_FOUND".into()));
    drop(worker);
}

#[test]
fn settings_that_do_not_go_together_are_refused() {
    if !postgres::installed("settings of several services that do not go together are refused") {
        return;
    }
    let services = Services::new();
    let refused = |args: &[&str], store: Option<&str>, blobs: bool| {
        let mut command = services.command("one", args);
        if let Some(store) = store {
            command.env("SKILL_RUNNER_STORE", store);
        }
        if !blobs {
            command.env_remove("SKILL_RUNNER_BLOBS");
        }
        let done = command.output().unwrap();
        (done.status.code(), String::from_utf8_lossy(&done.stderr).into_owned())
    };
    for (args, store, blobs, words) in [
        (&["worker"][..], None, false, "set store to a postgres:// URL and blobs"),
        (&["worker"], Some("sled"), true, "set store to a postgres:// URL and blobs"),
        (&["serve", "--no-work"], Some("sled"), false, "nobody else could start the runs"),
        (&["serve", "--port", "0"], Some("sled"), true, "files are shared only between services that share a store"),
    ] {
        let (code, said) = refused(args, store, blobs);
        assert!(code == Some(2) && said.contains(words), "{args:?}: {code:?} {said}");
    }
}
