//! Gemini and what an operator may have in its home: a login with Google, or no trust in any folder.

use std::fs;

use serde_json::json;

use super::KEY;
use super::service::Service;
use crate::interactive::pose;
use crate::support::clis;
use crate::support::model_server::Reply;

/// Leads every request to Google to the scripted one.
const SCRIPTED_GOOGLE: &str = r#"
const http = require("node:http"), https = require("node:https");
const scripted = new URL(process.env.CODE_ASSIST_ENDPOINT);
https.request = (options, ...rest) => {
  const asked = options instanceof URL || typeof options === "string" ? new URL(options) : options;
  const path = asked.path ?? asked.pathname + asked.search;
  const { agent, ...others } = typeof rest[0] === "object" ? rest.shift() : asked;
  return http.request({ method: others.method, headers: others.headers, host: scripted.hostname, port: scripted.port, path }, ...rest);
};
https.get = (...given) => { const request = https.request(...given); request.end(); return request; };
const fetched = globalThis.fetch;
globalThis.fetch = (input, init) => {
  const asked = new URL(typeof input === "object" && "url" in input ? input.url : input);
  return fetched(asked.hostname.endsWith("googleapis.com") ? new URL(asked.pathname + asked.search, scripted) : input, init);
};
require("node:module").syncBuiltinESMExports();
"#;

#[test]
fn a_login_with_google_in_the_home_is_used_and_nothing_forces_another() {
    if clis::left_out("gemini_home::login") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("data/agent-home/gemini/.gemini");
    fs::create_dir_all(&home).unwrap();
    let login = json!({
        "access_token": "dummy-access-0123456789", "refresh_token": "dummy-refresh-0123456789", "token_type": "Bearer",
        "scope": "openid", "expiry_date": 4_102_444_800_000_i64,
    });
    fs::write(home.join("oauth_creds.json"), login.to_string()).unwrap();
    let preload = folder.path().join("scripted-google.cjs");
    fs::write(&preload, SCRIPTED_GOOGLE).unwrap();
    let node = format!("--require={}", preload.display());
    let passed = ("SKILL_RUNNER_ENGINES_GEMINI_ENV_PASS", "CODE_ASSIST_ENDPOINT,NODE_OPTIONS");
    let seen = preload.display().to_string();
    let variables = [passed, ("NODE_OPTIONS", &node), ("SKILL_RUNNER_SANDBOX_READ", &seen)];
    let mut service = Service::set_in(folder, &[], "gemini", &variables);
    pose::skill(&service.skills(), "say", None);
    let run = service.start(&[Reply::Result(json!({"name": "Ann"}))], json!({"skill_id": "say"}));
    let events = service.finish(&run);
    let job = service.get(&format!("/v1/jobs/{run}"));
    assert_eq!(job["status"], "succeeded", "{job:#}\n{events:#?}");
    // The model was asked in the name of the account, not with a key.
    let asked = service.model.requests();
    assert!(!asked.is_empty() && asked.iter().all(|request| request["project"] == "scripted"), "{asked:#?}");
    service.close();
}

#[test]
fn the_settings_of_a_run_count_although_the_home_trusts_no_folder() {
    if clis::left_out("gemini_home::trust") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("data/agent-home/gemini/.gemini");
    fs::create_dir_all(&home).unwrap();
    let settings = json!({"security": {"auth": {"selectedType": "gemini-api-key"}, "folderTrust": {"enabled": true}}});
    fs::write(home.join("settings.json"), settings.to_string()).unwrap();
    let mut service = Service::set_in(folder, &[], "gemini", &[]);
    pose::skill(&service.skills(), "say", None);
    let replies = [Reply::Shell("env > seen".into()), Reply::Result(json!({"name": "Ann"}))];
    let run = service.start(&replies, json!({"skill_id": "say"}));
    let events = service.finish(&run);
    let job = service.get(&format!("/v1/jobs/{run}"));
    assert_eq!(job["status"], "succeeded", "{job:#}\n{events:#?}");
    // That the key is kept from commands stands in the settings of the run alone.
    let seen = fs::read_to_string(service.run_dir(&run).join("seen")).unwrap();
    assert!(seen.contains("PATH=") && !seen.contains(KEY), "{seen}");
    service.close();
}
