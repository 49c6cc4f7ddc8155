//! Tests of prompts.

use serde_json::json;

use super::*;
use crate::domain::codes::ErrorCode;
use crate::skill::{Intake, PackageFiles, lint};

fn skill(entrypoint: &Value) -> Skill {
    let runner = json!({
        "id": "demo", "version": "1.0.0", "execution_modes": ["auto", "interactive"],
        "entrypoint": entrypoint, "schemas": {},
    });
    let mut files = PackageFiles::new();
    files.insert("SKILL.md", b"---\nname: demo\ndescription: Shows a thing.\n---\nDo {{ this }} literally.\n".to_vec());
    files.insert("assets/runner.json", runner.to_string().into_bytes());
    files.insert("assets/general.md", b"x".to_vec());
    let parameter = json!({"type": "object", "properties": {"tone": {}, "more": {"type": "string"}}});
    files.insert("assets/parameter.schema.json", parameter.to_string().into_bytes());
    for kind in ["input", "output"] {
        files.insert(format!("assets/{kind}.schema.json"), br#"{"type":"object"}"#.to_vec());
    }
    lint("demo", &files, Intake::New).unwrap()
}

fn rendered(template: &str) -> Result<String, TemplateFailed> {
    rendered_for(&json!({ "type": "prompt" }), template)
}

fn rendered_for(entrypoint: &Value, template: &str) -> Result<String, TemplateFailed> {
    let skill = skill(entrypoint);
    let input = Map::from_iter([("file".to_owned(), json!("/run/uploads/file")), ("list".to_owned(), json!([1, 2]))]);
    let values = Values {
        skill: &skill,
        skill_dir: Path::new("/run/.codex/skills/demo"),
        run_dir: Path::new("/run"),
        input: &input,
        parameter: &Map::from_iter([("tone".to_owned(), json!("<kind> & \"warm\""))]),
        mode: ExecutionMode::Auto,
        answer: contract::Answer::of(&skill.manifest.entrypoint, None),
    };
    render(template, &values, evaluate)
}

fn own_part(prompt: &str) -> &str {
    prompt.split_once("\n\n# Output schema\n\n{\n  \"type\": \"object\"\n}\n\n<!-- run contract -->").unwrap().0
}

#[test]
fn the_engines_own_template_comes_first_then_the_general_one_then_the_built_in() {
    let all = skill(&json!({
        "type": "prompt", "prompt": { "template": "assets/general.md" }, "prompts": { "codex": "for {{ skill.id }}" },
    }));
    assert_eq!(template(&all.manifest.entrypoint, Engine::Codex), Template::Inline("for {{ skill.id }}"));
    assert_eq!(template(&all.manifest.entrypoint, Engine::Gemini), Template::Path("assets/general.md"));
    let none = skill(&json!({ "type": "prompt" }));
    assert_eq!(template(&none.manifest.entrypoint, Engine::Codex), Template::Inline(BUILT_IN));
}

#[test]
fn a_template_speaks_of_the_run_and_nothing_is_escaped_or_rendered_twice() {
    let prompt = rendered("{{ input.file }} {{ parameter.tone }} {{ skill.id }} {{ run_dir }}\n{{ body }}").unwrap();
    let expected = "/run/uploads/file <kind> & \"warm\" demo /run\nDo {{ this }} literally.";
    assert_eq!(own_part(&prompt), expected);
    assert_eq!(prompt.matches("__SKILL_DONE__").count(), 0);
}

#[test]
fn the_built_in_template_says_everything_the_engine_needs() {
    let prompt = rendered(BUILT_IN).unwrap();
    for part in ["\"demo\": Shows a thing.", "/run/.codex/skills/demo", "Do {{ this }} literally.", "/run/uploads/file"]
    {
        assert!(prompt.contains(part), "{part} is not in {prompt}");
    }
    assert!(prompt.ends_with("<!-- end of run contract -->\n"));
}

#[test]
fn a_value_that_may_be_absent_can_be_asked_for() {
    let template = "{% if parameter.more %}more{% endif %}{{ parameter.more | default('none') }}";
    assert_eq!(own_part(&rendered(template).unwrap()), "none");
    assert_eq!(own_part(&rendered("[{{ parameter.more }}]").unwrap()), "[]");
    assert_eq!(own_part(&rendered("{{ 1 if parameter.more is defined else 2 }}").unwrap()), "2");
}

#[test]
fn a_template_gets_the_schema_and_the_contract_once_unless_it_opts_out() {
    let own = rendered("Answer by {{ output_schema | tojson }}.").unwrap();
    assert!(own.starts_with("Answer by {\"type\": \"object\"}.\n\n<!-- run contract -->"), "{own}");
    let out = json!({ "type": "prompt", "prompt": { "contract": false, "template": "x\n" } });
    assert_eq!(rendered_for(&out, "Say {{ parameter.tone }}.").unwrap(), "Say <kind> & \"warm\".");
    let skill = skill(&out);
    assert!(!has_contract(&skill.manifest.entrypoint, Engine::Codex));
    let built_in = json!({ "type": "prompt", "prompt": { "contract": false } });
    assert!(rendered_for(&built_in, BUILT_IN).unwrap().ends_with("<!-- end of run contract -->\n"));
}

#[test]
fn what_cannot_be_rendered_is_a_failure_with_its_reason() {
    let large = "{% for a in range(9999) %}{{ 'xxxxxxxxxx' * 9999 }}{% endfor %}";
    let endless = "{% for a in range(9999) %}{% for b in range(9999) %}{% endfor %}{% endfor %}";
    for (template, reason) in [
        (
            "{{ parameter.tonne }}",
            "no variable \"parameter.tonne\": the parameter schema has no field \"tonne\"; it has more, tone",
        ),
        ("{{ input.missing }}", "no variable \"input.missing\": the input schema has no field"),
        ("{{ skill.title }}", "no variable \"skill.title\""),
        (
            "{{ titel }}",
            "no variable \"titel\"; there are body, execution_mode, input, message_is_result, output_schema, parameter, run_dir",
        ),
        ("{% if %}", "syntax error"),
        ("{% include '/etc/passwd' %}", ""),
        ("{{ env.HOME }}", "no variable \"env\""),
        (endless, "fuel"),
        (large, ""),
    ] {
        let failed = rendered(template).unwrap_err();
        assert!(failed.reason.contains(reason), "{template}: {}", failed.reason);
        assert_eq!(RunError::from(failed).code, ErrorCode::PromptTemplateFailed);
    }
}
