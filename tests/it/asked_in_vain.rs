//! What a skill says in `automation` that has no effect is said in the log of each run and of the skill.

use serde_json::{Value, json};

use crate::support::Server;
use crate::support::skill::HELLO;

#[test]
fn a_list_that_is_not_in_force_and_keys_that_nobody_knows_are_said_not_to_be_enforced() {
    let asked = json!(["automation.allowlist", "automation.netwrok", "automation.limits.memory"]);
    let message = "automation.allowlist is not enforced: the allowlist is only read when network is \"allowlist\"; \
        automation.netwrok is not enforced: the key \"netwrok\" is unknown and has no effect; \
        automation.limits.memory is not enforced: the key \"memory\" is unknown and has no effect";
    for sandbox in ["auto", "off"] {
        let server = Server::with(&[("sandbox", sandbox)]);
        let limits = json!({"memory": 5, "processes": 30});
        let automation = json!({"netwrok": "off", "allowlist": ["example.org"], "limits": limits, "timeout_sec": 60});
        server.skill("wishes", HELLO, json!({"runner": {"automation": automation}}));
        let (_, run) = server.finished("wishes");
        let warnings = server.get(&format!("/v1/jobs/{run}")).json()["warnings"].take();
        let told: Vec<(&Value, &Value)> =
            warnings.as_array().unwrap().iter().map(|told| (&told["message"], &told["details"])).collect();
        assert_eq!(told, [(&json!(message), &json!({"asked": asked}))], "{sandbox}: {warnings:#}");
        let skill = server.get("/v1/management/skills/wishes").json()["isolation"].take();
        assert_eq!((&skill["asked"], &skill["not_enforced"]), (&asked, &asked), "{sandbox}: {skill:#}");
    }
}

#[test]
fn of_an_empty_list_and_of_keys_that_are_free_for_any_use_nothing_is_said() {
    let server = Server::with(&[("sandbox", "auto")]);
    server.skill(
        "free",
        HELLO,
        json!({"runner": {"automation": {"timeout_sec": 60, "x-note": "mine", "allowlist": []}}}),
    );
    let (_, run) = server.finished("free");
    assert_eq!(server.get(&format!("/v1/jobs/{run}")).json()["warnings"], json!([]));
}
