//! Tests of the configuration's layers.

use serde_json::json;

use super::*;
use crate::engine::{claude, codex, opencode};

fn layers<'a>(skill_file: Option<&'a str>, request: Option<&'a Value>) -> Layers<'a> {
    Layers { skill_file, request, model: None, mode: ExecutionMode::Auto }
}

#[test]
fn each_layer_lies_over_the_one_below_and_what_is_enforced_over_all() {
    let skill =
        "model = \"small\"\napproval_policy = \"on-request\"\n[features]\napps = true\nweb = true\n[tools]\na = 1";
    let request = json!({ "tools": { "b": 2 }, "analytics": true });
    let layers = Layers { model: Some("large"), ..layers(Some(skill), Some(&request)) };
    let expected = json!({
        "skills": { "bundled": { "enabled": false } },
        "model": "large",
        "approval_policy": "never",
        "features": { "apps": false, "web": true, "plugins": false, "unbounded_connection_retries": false },
        "tools": { "a": 1, "b": 2 },
        "analytics": { "enabled": false },
        "check_for_update_on_startup": false,
    });
    assert_eq!(merge(&codex::ADAPTER.config, &layers), Ok(expected));
}

#[test]
fn a_layer_that_cannot_be_used_is_named_with_the_reason() {
    let reason = |kind: &Kind, skill: Option<&str>, request: Option<&Value>| {
        let invalid = merge(kind, &layers(skill, request)).unwrap_err();
        (invalid.layer, invalid.reason)
    };
    assert_eq!(reason(&codex::ADAPTER.config, Some("model = "), None).0, "the skill");
    assert_eq!(reason(&claude::ADAPTER.config, Some("{"), None).0, "the skill");
    let list = json!([1]);
    assert_eq!(
        reason(&claude::ADAPTER.config, None, Some(&list)),
        ("the request", "it must be an object of keys and values".to_owned())
    );
    let null = json!({ "a": [{ "b": null }] });
    assert!(reason(&codex::ADAPTER.config, None, Some(&null)).1.contains("null"));
    let deep = (0..40).fold(json!(1), |inner, _| json!({ "a": inner }));
    assert_eq!(reason(&claude::ADAPTER.config, None, Some(&deep)).1, "it is nested too deeply");
}

#[test]
fn opencode_may_ask_only_where_somebody_can_answer() {
    let question = |mode| {
        let request = json!({ "permission": { "question": "ask", "bash": "ask" } });
        let config = merge(&opencode::ADAPTER.config, &Layers { mode, ..layers(None, Some(&request)) }).unwrap();
        config["permission"].clone()
    };
    assert_eq!(question(ExecutionMode::Auto), json!({ "*": "allow", "question": "deny", "bash": "ask" }));
    assert_eq!(question(ExecutionMode::Interactive), json!({ "*": "allow", "question": "allow", "bash": "ask" }));
}

#[test]
fn what_looks_like_a_secret_is_masked_and_found() {
    let config = json!({
        "provider": { "x": { "options": { "apiKey": "k", "baseURL": "u", "headers": { "X-Auth": "h" } } } },
        "env_key": "NAME", "max_output_tokens": 5, "experimental_bearer_token": "t", "password": ["p"],
    });
    let expected = json!({
        "provider": { "x": { "options": { "apiKey": "***", "baseURL": "u", "headers": { "X-Auth": "***" } } } },
        "env_key": "NAME", "max_output_tokens": 5, "experimental_bearer_token": "***", "password": ["***"],
    });
    assert_eq!(masked(&config), expected);
    assert_eq!(find_secret(&config).as_deref(), Some("provider.x.options.apiKey"));
    assert_eq!(find_secret(&json!({ "env_key": "NAME", "max_output_tokens": 5 })), None);
}
