//! Engine configuration of packages and requests: what runs commands or widens access is refused, by name and without its value.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::interactive::pose::{self, Pose, done, says};
use crate::support::sandbox;
use crate::support::zips::zip_folder;
use crate::support::{LONG, Server, of_type};

const CANARY: &str = "canary-77aa-secret";

/// A key of each engine by which a client could pass a secret or have a command run, with the pointer to it.
fn refused_configs() -> [(&'static str, Value, &'static str); 13] {
    let roots = json!({"writable_roots": [CANARY]});
    [
        ("codex", json!({"sandbox_workspace_write": roots}), "/sandbox_workspace_write/writable_roots"),
        ("codex", json!({"sandbox_mode": CANARY}), "/sandbox_mode"),
        ("codex", json!({"approval_policy": CANARY}), "/approval_policy"),
        ("claude", json!({"permissions": {"allow": [CANARY]}}), "/permissions/allow"),
        ("gemini", json!({"tools": {"sandbox": CANARY}}), "/tools/sandbox"),
        ("opencode", json!({"permission": {"bash": CANARY}}), "/permission/bash"),
        ("qwen", json!({"tools": {"approvalMode": CANARY}}), "/tools/approvalMode"),
        ("codex", json!({"notify": ["sh", CANARY]}), "/notify"),
        ("claude", json!({"env": {"ANTHROPIC_AUTH_TOKEN": CANARY}}), "/env/ANTHROPIC_AUTH_TOKEN"),
        ("gemini", json!({"mcpServers": {"x": {"command": CANARY}}}), "/mcpServers/x/command"),
        ("opencode", json!({"provider": {"x": {"options": {"apiKey": CANARY}}}}), "/provider/x/options/apiKey"),
        ("qwen", json!({"security": {"auth": {"apiKey": CANARY}}}), "/security/auth/apiKey"),
        ("iflow", json!({"apiKey": CANARY}), "/apiKey"),
    ]
}

/// A server whose codex is a pose that is done at once, with the prompt skill `ask`.
fn scene(flags: &[(&str, &str)]) -> (Pose, Server) {
    let pose = Pose::new();
    pose.plays(&[done()]);
    let command = pose.command();
    let mut all = vec![("engines.codex.command", command.as_str())];
    all.extend(flags);
    let server = Server::with(&all);
    pose::skill(&server.folder.path().join("skills"), "ask", None);
    (pose, server)
}

fn skill_folder(server: &Server) -> std::path::PathBuf {
    server.folder.path().join("skills/ask")
}

/// Whether any file below this folder holds the secret.
fn holds_canary(folder: &Path) -> bool {
    let mut waiting = vec![folder.to_owned()];
    while let Some(path) = waiting.pop() {
        if path.is_dir() {
            waiting.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        } else if fs::read(&path).unwrap().windows(CANARY.len()).any(|window| window == CANARY.as_bytes()) {
            return true;
        }
    }
    false
}

#[test]
fn a_request_that_sets_what_is_the_operators_is_refused_by_key_and_leaves_nothing() {
    let (_pose, server) = scene(&[]);
    for (engine, config, pointer) in refused_configs() {
        for (route, skill) in [("/v1/jobs", Some("ask")), ("/v1/temp-skill-runs", None)] {
            let mut body = json!({"engine": "codex"});
            body[format!("{engine}_config")] = config.clone();
            if let Some(skill) = skill {
                body["skill_id"] = json!(skill);
            }
            let answer = server.post(route, &body);
            assert_eq!(answer.refusal(), (400, "ENGINE_CONFIG_REFUSED".to_owned()), "{engine} {route}");
            let text = answer.text();
            assert!(!text.contains(CANARY), "{text}");
            let error = &answer.json()["error"];
            let expected = json!([
                {"path": format!("/{engine}_config{pointer}"), "message": "only the operator may set it"}
            ]);
            assert_eq!(error["details"], expected);
            let dotted = pointer[1..].replace('/', ".");
            assert!(error["message"].as_str().unwrap().contains(&format!("{engine}_config.{dotted}")), "{text}");
        }
    }
    assert_eq!(server.get("/v1/jobs").json()["jobs"], json!([]));
    assert!(!holds_canary(&server.data()));
}

#[test]
fn what_a_request_may_set_reaches_the_engine() {
    let (pose, server) = scene(&[]);
    let body = json!({"skill_id": "ask", "engine": "codex", "codex_config": {"model_verbosity": "low"}});
    let (_, run) = server.create_with(&body);
    let events = server.finish(&run);
    assert_eq!(events.last().unwrap()["type"], "conversation.completed", "{events:#?}");
    let session = of_type(&events, "session.bound")[0]["handle"].as_str().unwrap().to_owned();
    assert!(pose.noted(&session, "argv")[0].contains("model_verbosity=\"low\""));
}

/// The configurations that clients sent and that are still on the disk.
fn kept_configs(data: &Path) -> Vec<std::path::PathBuf> {
    let requests = fs::read_dir(data.join("requests")).into_iter().flatten().flatten();
    requests.map(|entry| entry.path().join("engine_config.json")).filter(|path| path.exists()).collect()
}

#[test]
fn the_configuration_that_a_client_sent_goes_with_the_end_of_its_run_however_it_ends() {
    let (pose, server) = scene(&[("max_running_jobs", "1")]);
    let gone = || {
        let limit = std::time::Instant::now() + LONG;
        while !kept_configs(&server.data()).is_empty() {
            assert!(std::time::Instant::now() < limit, "it stays: {:?}", kept_configs(&server.data()));
            std::thread::yield_now();
        }
    };
    let body = |mode: &str| {
        json!({"skill_id": "ask", "engine": "codex", "codex_config": {"model_verbosity": "low"},
               "runtime_options": {"execution_mode": mode, "no_cache": true}})
    };
    let (_, run) = server.create_with(&body("auto"));
    server.finish(&run);
    gone();

    pose.plays(&[says("What is your name?")]);
    let (_, waits) = server.create_with(&body("interactive"));
    crate::support::Sse::until_status(server.address, &waits, "waiting_user");
    assert_eq!(kept_configs(&server.data()).len(), 1);
    assert_eq!(server.post(&format!("/v1/jobs/{waits}/cancel"), &json!({})).json()["status"], "canceled");
    server.finish(&waits);
    gone();

    // Where the service dies between the end of a run and this.
    let request = server.get(&format!("/v1/jobs/{waits}")).json()["request_id"].as_str().unwrap().to_owned();
    let folder = server.data().join("requests").join(request);
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("engine_config.json"), "{}").unwrap();
    let server = server.restarted(&[]);
    assert_eq!(kept_configs(&server.data()), Vec::<std::path::PathBuf>::new());
    assert!(!folder.exists(), "nothing else was in it");
}

#[test]
fn the_operators_files_lie_below_and_above_the_request_and_only_the_engine_is_told_their_values() {
    let (pose, server) = scene(&[]);
    let configs = server.folder.path().join("configs/codex");
    fs::create_dir_all(&configs).unwrap();
    let roots = format!("[sandbox_workspace_write]\nwritable_roots = [\"/{CANARY}\"]\n");
    let default = format!("model_verbosity = \"high\"\nmodel_reasoning_summary = \"concise\"\n{roots}");
    fs::write(configs.join("default.toml"), default).unwrap();
    fs::write(configs.join("enforced.toml"), "model_reasoning_effort = \"low\"\n").unwrap();
    let asked = json!({"model_verbosity": "medium", "model_reasoning_effort": "high"});
    let body = json!({"skill_id": "ask", "engine": "codex", "codex_config": asked});
    let (_, run) = server.create_with(&body);
    let events = server.finish(&run);
    assert_eq!(events.last().unwrap()["type"], "conversation.completed", "{events:#?}");
    let session = of_type(&events, "session.bound")[0]["handle"].as_str().unwrap().to_owned();
    let told = &pose.noted(&session, "argv")[0];
    for (key, value) in [
        ("model_verbosity", "\"medium\"".to_owned()),
        ("model_reasoning_summary", "\"concise\"".to_owned()),
        ("model_reasoning_effort", "\"low\"".to_owned()),
        ("sandbox_workspace_write.writable_roots", format!("[\"/{CANARY}\"]")),
    ] {
        assert!(told.contains(&format!("{key}={value}")), "{key}: {told}");
    }
    let shown = of_type(&events, "turn.started")[0].to_string();
    assert!(shown.contains("model_reasoning_summary") && shown.contains("(set by the operator)"), "{shown}");
    assert!(!holds_canary(&server.data()), "{shown}");
}

#[test]
fn a_file_of_the_operators_that_cannot_be_read_fails_the_run_by_its_name() {
    let (_pose, server) = scene(&[]);
    let configs = server.folder.path().join("configs/codex");
    fs::create_dir_all(&configs).unwrap();
    fs::write(configs.join("enforced.toml"), "model = ").unwrap();
    let (_, run) = server.create_with(&json!({"skill_id": "ask", "engine": "codex"}));
    server.finish(&run);
    let error = server.get(&format!("/v1/jobs/{run}")).json()["error"].take();
    assert_eq!(error["code"], "ENGINE_CONFIG_INVALID", "{error}");
    let file = configs.join("enforced.toml");
    assert_eq!(error["details"]["layer"], json!(file), "{error}");
    let message = error["message"].as_str().unwrap();
    assert!(message.contains(file.to_str().unwrap()) && message.contains("it is not TOML"), "{message}");
}

#[test]
fn a_package_with_a_key_of_the_operators_is_not_installed_and_the_finding_names_file_and_key() {
    let (_pose, server) = scene(&[]);
    let folder = tempfile::tempdir().unwrap();
    pose::skill(folder.path(), "evil", None);
    let config = format!("[mcp_servers.x]\ncommand = \"{CANARY}\"\n[sandbox_workspace_write]\nnetwork_access = true\n");
    fs::write(folder.path().join("evil/assets/codex_config.toml"), config).unwrap();
    let zip = zip_folder(&folder.path().join("evil"));
    let answer = server.call("POST", "/v1/skill-packages/install?wait=60").parts(&[("file", &zip)]).send();
    let install = answer.json();
    assert_eq!((&install["status"], &install["error"]["code"]), (&json!("failed"), &json!("SKILL_PACKAGE_INVALID")));
    assert!(!answer.text().contains(CANARY), "{install:#}");
    let findings = install["error"]["details"]["findings"].as_array().unwrap();
    let named: Vec<(&Value, &Value, &Value)> =
        findings.iter().map(|finding| (&finding["code"], &finding["file"], &finding["pointer"])).collect();
    let (code, file) = (json!("CONFIG_KEY_REFUSED"), json!("assets/codex_config.toml"));
    let places = [json!("/mcp_servers/x/command"), json!("/sandbox_workspace_write/network_access")];
    assert_eq!(named, [(&code, &file, &places[0]), (&code, &file, &places[1])]);
}

#[test]
fn a_skill_in_the_folder_with_such_a_key_is_refused_and_the_key_named() {
    let (_pose, server) = scene(&[]);
    fs::write(skill_folder(&server).join("assets/codex_config.toml"), format!("notify = [\"{CANARY}\"]\n")).unwrap();
    for route in ["/v1/jobs", "/v1/jobs?wait=5"] {
        let answer = server.post(route, &json!({"skill_id": "ask", "engine": "codex"}));
        assert_eq!(answer.refusal(), (400, "ENGINE_CONFIG_REFUSED".to_owned()));
        let text = answer.text();
        assert!(
            text.contains("assets/codex_config.toml") && text.contains("notify") && !text.contains(CANARY),
            "{text}"
        );
    }
    assert_eq!(server.get("/v1/jobs").json()["jobs"], json!([]), "nothing was created");
}

#[test]
fn a_configuration_that_an_engine_put_in_place_of_the_skills_is_not_followed_nor_waited_for() {
    for plant in ["mkfifo", "ln -s /etc/passwd", "echo 'notify = [1]' | tee"] {
        let (pose, server) = scene(&[]);
        pose.plays(&[pose::says("What is your name?"), done()]);
        pose.runs_after(
            1,
            &format!(
                "mkdir -p .codex/skills/ask/assets && {plant} .codex/skills/ask/assets/codex_config.toml >/dev/null"
            ),
        );
        let options = json!({"execution_mode": "interactive"});
        let (_, run) = server.create_with(&json!({"skill_id": "ask", "engine": "codex", "runtime_options": options}));
        server.wait_for(&run, "conversation.state.changed", "waiting_user");
        let reply = json!({"interaction_id": 1, "response": "Ann"});
        assert_eq!(server.post(&format!("/v1/jobs/{run}/interaction/reply"), &reply).status, 200);
        let events = server.finish(&run);
        let code = &events.last().unwrap()["data"]["error"]["code"];
        let expected = if plant.starts_with("echo") { "ENGINE_CONFIG_REFUSED" } else { "ENGINE_CONFIG_INVALID" };
        assert_eq!(code, expected, "{plant}: {events:#?}");
        assert_eq!(of_type(&events, "turn.started").len(), 1, "{plant}");
    }
}

#[test]
fn the_isolation_that_is_told_holds_for_every_process_of_the_turn() {
    let isolation = |flags: &[(&str, &str)], member: Option<(&str, Value)>| {
        let (_pose, server) = scene(flags);
        let path = skill_folder(&server).join("assets/runner.json");
        if let Some((key, value)) = member {
            let mut runner: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
            runner[key] = value;
            fs::write(&path, runner.to_string()).unwrap();
        }
        let (_, run) = server.create_with(&json!({"skill_id": "ask", "engine": "codex"}));
        let events = server.finish(&run);
        let told = of_type(&events, "turn.started")[0]["isolation"].clone();
        let by_engine = told["parts"].as_array().unwrap().contains(&json!("engine-sandbox"));
        (told["tier"].as_str().unwrap().to_owned(), by_engine)
    };
    // Codex's own sandbox cannot be made inside ours.
    let ours = sandbox::works();
    let usual = if ours { "sandbox" } else { "process-tree" };
    assert_eq!(isolation(&[], None), (usual.to_owned(), !ours));
    assert_eq!(isolation(&[("sandbox", "off")], None), ("process-tree".to_owned(), false));
    assert_eq!(isolation(&[], Some(("normalizer", json!({"command": "true"})))), (usual.to_owned(), false));
}
