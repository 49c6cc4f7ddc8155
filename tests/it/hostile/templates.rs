//! Templates made to take all memory, stack or time fail their run, and nothing else.

use serde_json::{Value, json};

use crate::interactive::pose::{self, Pose};
use crate::support::Server;

fn run(server: &Server, id: &str, template: &str) -> Value {
    let skills = server.folder.path().join("skills");
    pose::skill(&skills, id, None);
    let manifest = skills.join(id).join("assets/runner.json");
    let mut runner: Value = serde_json::from_slice(&std::fs::read(&manifest).unwrap()).unwrap();
    runner["entrypoint"]["prompt"] = json!({"template": "assets/prompt.md"});
    std::fs::write(&manifest, runner.to_string()).unwrap();
    std::fs::write(skills.join(id).join("assets/prompt.md"), template).unwrap();
    let (request, run) = server.create_with(&json!({"skill_id": id, "engine": "codex"}));
    server.finish(&run);
    server.get(&format!("/v1/jobs/{request}")).json()
}

#[test]
fn a_template_without_measure_fails_its_run_alone() {
    let pose = Pose::new();
    pose.plays(&[pose::done()]);
    let server = Server::with(&[("engines.codex.command", &pose.command())]);
    let doubling = format!("{{% set a = 'aaaaaaaa' %}}{}{{{{ a|length }}}}", "{% set a = a ~ a %}".repeat(40));
    let deep = "{% set n = namespace(v=[]) %}{% for i in range(90000) %}{% set n.v = [n.v] %}{% endfor %}{{ n.v }}";
    for (id, template) in [
        ("indent", "{{ \"a\\nb\"|indent(99999999999) }}"),
        ("tojson", "{{ [[1]]|tojson(indent=99999999999) }}"),
        ("doubling", &doubling),
        ("constants", &"{{ 'a' * 9000000 }}".repeat(5000)),
        (
            "replaced",
            "{% set n = namespace(v='aa') %}{% for i in range(60) %}{% set n.v = n.v|replace('a', n.v) %}{% endfor %}",
        ),
        ("deep", deep),
        ("endless", "{% for a in range(9999) %}{% for b in range(9999) %}{% endfor %}{% endfor %}"),
    ] {
        let job = run(&server, id, template);
        assert_eq!(
            (&job["status"], &job["error"]["code"]),
            (&json!("failed"), &json!("PROMPT_TEMPLATE_FAILED")),
            "{id}: {job}"
        );
    }
    let job = run(
        &server,
        "usual",
        "Ask {{ skill.id }} for {{ output_schema.required|join(', ') }} in {{ execution_mode }}.",
    );
    assert_eq!(job["status"], "succeeded", "{job}");
    let session = std::fs::read_dir(pose.sessions()).unwrap().next().unwrap().unwrap().file_name();
    let told = &pose.told(session.to_str().unwrap())[0];
    assert!(told.starts_with("Ask usual for name in auto."), "{told}");
}
