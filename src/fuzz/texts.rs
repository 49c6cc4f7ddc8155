//! Texts of models and of packages: answers, questions, manifests, schemas, templates, patterns, stored events.

use std::sync::LazyLock;

use serde_json::{Value, json};

use super::ways::{about, way};
use crate::bounded;
use crate::convergence::{Attempts, TurnWords, WordsVerdict, judge_turn, judge_words, parse};
use crate::fcmp::audit::{Auditor, Expect};
use crate::fcmp::{LogHead, read_envelope};
use crate::projection::{Pointer, Work, places as places_of, span};
use crate::skill::front_matter::{split, split_leniently};
use crate::skill::lint::{Intake, lint};
use crate::skill::package::PackageFiles;
use crate::skill::python::{Requirement, Specifiers, inline_of};
use crate::skill::schema::Validator;
use crate::store::Labels;

pub(super) const JSON: &[&str] = &[
    "```json\n",
    "```\n",
    "~~~",
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "\"",
    "“",
    "”",
    "‘",
    "’",
    "\\",
    "\\u",
    "null",
    "true",
    "__SKILL_DONE__",
    "\"__SKILL_DONE__\": true",
    "\u{feff}",
    "\n\n",
    "//",
    "/*",
    "*/",
    "1e400",
    "-0",
    "\u{2028}",
    "'",
];
pub(super) const YAML: &[&str] = &[
    "<ASK_USER_YAML>",
    "</ASK_USER_YAML>",
    "---\n",
    "kind: ",
    "prompt: ",
    "options:\n",
    "- label: ",
    "value: ",
    "required_fields: ",
    "ui_hints: ",
    "default_decision_policy: ",
    "context: ",
    "choose_one",
    "confirm",
    "fill_fields",
    "open_text",
    "risk_ack",
    "name: ",
    "description: ",
    "metadata:\n  ",
    "license: ",
    "allowed-tools: ",
    "|\n  ",
    ">\n",
    "&a ",
    "*a",
    "!!binary ",
    "%YAML 1.2\n",
    "? ",
    "{",
    "}",
    "[",
    "]",
    "\t",
    "~",
    "'",
    "\"",
    "<<: ",
    "\u{feff}",
];
pub(super) const MANIFEST: &[&str] = &[
    "\"id\":",
    "\"version\":",
    "\"engines\":",
    "\"execution_modes\":",
    "\"auto\"",
    "\"interactive\"",
    "\"entrypoint\":",
    "\"type\":",
    "\"script\"",
    "\"prompt\"",
    "\"hybrid\"",
    "\"command\":",
    "\"schemas\":",
    "\"input\":",
    "\"output\":",
    "\"artifacts\":",
    "\"pattern\":",
    "\"required\":",
    "\"max_attempt\":",
    "\"automation\":",
    "\"normalizer\":",
    "\"fallback\":",
    "\"engine_configs\":",
    "\"runtime\":",
    "\"template\":",
    "\"result_file\":",
    "\"../x\"",
    "null",
    "-1",
    "4294967296",
    "1e99",
    "[]",
    "{}",
    "\"\"",
];
pub(super) const SCHEMA: &[&str] = &[
    "\"$ref\":",
    "\"#\"",
    "\"#/$defs/a\"",
    "\"$defs\":",
    "\"$dynamicRef\":",
    "\"$anchor\":",
    "\"$id\":",
    "\"type\":",
    "\"object\"",
    "\"array\"",
    "\"properties\":",
    "\"items\":",
    "\"prefixItems\":",
    "\"allOf\":",
    "\"anyOf\":",
    "\"oneOf\":",
    "\"not\":",
    "\"if\":",
    "\"then\":",
    "\"else\":",
    "\"pattern\":",
    "\"patternProperties\":",
    "\"additionalProperties\":",
    "\"unevaluatedProperties\":",
    "\"dependentSchemas\":",
    "\"contains\":",
    "\"enum\":",
    "\"const\":",
    "\"required\":",
    "\"minimum\":",
    "\"multipleOf\":",
    "\"(a+)+$\"",
    "\"^(?=a)\"",
    "true",
    "false",
    "\"$schema\":",
    "\"http://json-schema.org/draft-07/schema#\"",
    "{}",
    "[]",
    "1e308",
    "\"format\":",
    "\"uniqueItems\":true",
];
pub(super) const TEMPLATE: &[&str] = &[
    "{{",
    "}}",
    "{%",
    "%}",
    "{#",
    "#}",
    "if ",
    "elif ",
    "else",
    "endif",
    "for x in ",
    "endfor",
    "|",
    ".",
    "not ",
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    "+",
    "**",
    "~",
    "\"",
    "'",
    "set ",
    "macro ",
    "input.",
    "parameter.",
    "raw",
    "endraw",
    "-%}",
];
pub(super) const PYTHON: &[&str] = &[
    "# /// script\n",
    "# ///\n",
    "# dependencies = [",
    "# requires-python = ",
    "[",
    "]",
    "\"",
    ">=",
    "==",
    "~=",
    ".*",
    " @ ",
    "https://",
    "./",
    "run.py",
    ";",
    " #",
    " --hash=",
    "-r ",
    "(",
    ")",
    ",",
    "3.10",
];
pub(super) const GLOB: &[&str] = &["*", "**", "?", "[", "]", "{", "}", ",", "/", "\\", "!", "a-z", "..", "artifacts/"];
pub(super) const LOG: &[&str] = &[
    "\"type\":",
    "\"data\":",
    "\"seq\":",
    "\"ts\":",
    "\"run_id\":",
    "\"protocol_version\":",
    "\"raw_ref\":",
    "\"meta\":",
    "\"attempt\":",
    "\"local_seq\":",
    "\"kind\":",
    "\"conversation.completed\"",
    "\"conversation.state.changed\"",
    "\"user.input.required\"",
    "\"byte_from\":",
    "18446744073709551615",
    "-1",
    "null",
    "\n",
];

/// Longest text that is tried: no line and no message is longer by much, and time counts.
const TEXT_MAX: usize = 64 * 1024;

pub(super) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes.get(..TEXT_MAX).unwrap_or(bytes)).into_owned()
}

pub(super) fn json_repair(bytes: &[u8]) -> u64 {
    let text = text(bytes);
    let parsed = parse(&text);
    if let Some(value) = &parsed.value {
        // What was read once is read the same again.
        assert_eq!(parse(&value.to_string()).value.as_ref(), Some(value), "{text:?}");
    }
    let steps: Vec<String> = parsed.steps.iter().map(|step| format!("{:?}", (step.step, step.ok))).collect();
    way((steps, parsed.value.as_ref().map(std::mem::discriminant)))
}

static OUTPUT: LazyLock<Validator> = LazyLock::new(|| {
    let schema = json!({"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]});
    Validator::new(&schema).unwrap()
});

pub(super) fn ask_block(bytes: &[u8]) -> u64 {
    // Several messages, between zero bytes.
    let messages: Vec<String> = text(bytes).split('\0').map(str::to_owned).collect();
    let attempts = || Attempts { attempt: 1, max_attempt: Some(3) };
    let words = |structured| TurnWords { messages: &messages, structured, result_file: None };
    let verdict = judge_turn(&words(None), &OUTPUT, attempts());
    let from_structured = judge_turn(&words(messages.first().map(String::as_str)), &OUTPUT, attempts());
    let said = judge_words(&messages, attempts());
    if let WordsVerdict::Ask(question) = &said {
        // A question is a part of a row, which is written with every event, and somebody can answer it.
        let stored = serde_json::to_string(&question.interaction).unwrap();
        assert!(stored.len() < 256 * 1024, "a question of {} bytes", stored.len());
        assert!(!question.interaction.prompt.is_empty());
        let read: crate::domain::interaction::Interaction = serde_json::from_str(&stored).unwrap();
        assert_eq!(read, question.interaction);
        let _ = question.interaction.flaws(&Value::Null);
    }
    let kind = match &said {
        WordsVerdict::Ask(question) => {
            let asked = &question.interaction;
            let lengths = (about(asked.options.len()), about(asked.required_fields.len()));
            format!("{:?} {lengths:?} {}", asked.kind, question.warning.is_some())
        }
        WordsVerdict::Done(_) | WordsVerdict::AttemptsUsedUp | WordsVerdict::Silent => String::new(),
    };
    way((std::mem::discriminant(&verdict), std::mem::discriminant(&from_structured), kind))
}

pub(super) fn front_matter(bytes: &[u8]) -> u64 {
    let text = text(bytes);
    let read = split(&text);
    if let Ok((head, body)) = &read {
        assert!(head.is_object() && text.ends_with(body));
    }
    let leniently = split_leniently(&text);
    if let Ok((head, body, keys)) = &leniently {
        assert!(head.is_object() && text.ends_with(body) && keys.is_empty() == read.is_ok());
    }
    way((
        read.as_ref().map(|(head, body)| (head.as_object().map(|head| about(head.len())), body.is_empty())).ok(),
        read.as_ref().err().map(std::mem::discriminant),
        leniently.map(|(_, _, keys)| about(keys.len())).ok(),
        linted(&text, RUNNER, OBJECT),
    ))
}

const HEAD: &str = "---\nname: demo\ndescription: A test.\n---\nDoes it.\n";
const RUNNER: &str = r#"{"id":"demo","version":"1.0.0","execution_modes":["auto"],"schemas":{"output":"assets/output.schema.json"},
    "entrypoint":{"type":"script","script":{"command":"sh scripts/run.sh"}}}"#;
const OBJECT: &str = r#"{"type":"object"}"#;

/// The codes of what is wrong with a package.
fn linted(head: &str, runner: &str, output: &str) -> Vec<String> {
    let mut files = PackageFiles::new();
    for (path, text) in [
        ("SKILL.md", head),
        ("assets/runner.json", runner),
        ("assets/output.schema.json", output),
        ("assets/input.schema.json", OBJECT),
        ("assets/parameter.schema.json", OBJECT),
        ("assets/prompt.j2", "{{ input.x }}"),
        ("scripts/run.sh", ""),
    ] {
        files.insert(path, text.as_bytes().to_vec());
    }
    let found = [Intake::New, Intake::Installed].map(|intake| lint("demo", &files, intake));
    let [new, _] = found;
    let findings = match new {
        Ok(skill) => {
            let _ = skill.artifact_contract();
            skill.findings
        }
        Err(findings) => findings,
    };
    let mut codes: Vec<String> = findings.iter().map(|finding| format!("{:?}", finding.code)).collect();
    codes.sort();
    codes.dedup();
    codes
}

pub(super) fn runner_json(bytes: &[u8]) -> u64 {
    way(linted(HEAD, &text(bytes), OBJECT))
}

/// A schema and, behind a zero byte, a value.
pub(super) fn schema(bytes: &[u8]) -> u64 {
    let text = text(bytes);
    let (schema, value) = text.split_once('\0').unwrap_or((&text, "{\"a\":[1,{\"a\":\"b\"}]}"));
    let Ok(schema) = serde_json::from_str::<Value>(schema) else { return 0 };
    let checked = Validator::new(&schema).map(|validator| {
        let value = serde_json::from_str::<Value>(value).unwrap_or(Value::Null);
        validator.errors(&value).map(|errors| about(errors.len()))
    });
    let codes = linted(HEAD, RUNNER, &schema.to_string());
    way((
        checked
            .map_err(|error| error.message.split(' ').take(3).collect::<String>())
            .map(|checked| checked.map_err(|costly| costly.to_string())),
        codes,
    ))
}

pub(super) fn template(bytes: &[u8]) -> u64 {
    let fault = bounded::template::fault(&text(bytes));
    way(fault.map(|fault| fault.split_whitespace().take(5).map(str::to_owned).collect::<Vec<_>>()))
}

pub(super) fn python_packages(bytes: &[u8]) -> u64 {
    let text = text(bytes);
    let mut files = PackageFiles::new();
    files.insert("run.py", text.clone().into_bytes());
    let head = inline_of("python3 run.py", &files).map(|(_, found)| found.map_err(|fault| about(fault.reason.len())));
    let lines: Vec<_> = text.lines().take(100).map(|line| Requirement::parse(line, &files).map_err(drop)).collect();
    for requirement in lines.iter().flatten() {
        // What was read once is read the same again, and one line stays one.
        assert_eq!(Requirement::parse(requirement.text(), &files).as_ref(), Ok(requirement), "{text:?}");
        assert!(!requirement.text().contains(['\n', '\r']), "{text:?}");
    }
    way((
        head.map(|found| found.is_ok()),
        lines.iter().map(Result::is_ok).collect::<Vec<_>>(),
        Specifiers::parse(&text).is_ok(),
    ))
}

pub(super) fn glob(bytes: &[u8]) -> u64 {
    let text = text(bytes);
    let compiled = bounded::glob::glob(&text);
    let matches = compiled.map(|glob| {
        let matcher = glob.compile_matcher();
        ["a", "artifacts/a.txt", "a/b/c", "", "é", "{a}"].map(|path| matcher.is_match(path))
    });
    way(matches)
}

pub(super) fn log_line(bytes: &[u8]) -> u64 {
    let mut auditor = Auditor::default();
    let mut ways = Vec::new();
    for line in bytes.split(|byte| *byte == b'\n').take(20) {
        let read = read_envelope(line);
        if let Ok(envelope) = &read
            && let Some(event) = &envelope.event
        {
            let mut data = Vec::new();
            event.write_data(&mut data).unwrap();
        }
        ways.push(read.map(|envelope| envelope.event.map(|event| event.type_name())).map_err(|_| ()));
        auditor.push(line);
    }
    let violations = auditor.finish(&Default::default(), Expect::Any);
    let mut rules: Vec<&str> = violations.iter().map(|violation| violation.rule).collect();
    rules.sort_unstable();
    rules.dedup();
    way((ways, rules))
}

/// A row of the store: what is read of it is written and read the same again.
pub(super) fn run_row(bytes: &[u8]) -> u64 {
    let read = LogHead::from_row(bytes).ok();
    if let Some(head) = &read {
        let written = head.to_row().unwrap();
        assert_eq!(LogHead::from_row(&written).as_ref().ok(), Some(head));
        assert!(Labels::of_row(&written).is_some());
    }
    way((read.map(|head| (head.state.status(), head.state.turns)), Labels::of_row(bytes).map(|labels| labels.status)))
}

/// A result, a pointer into it and the raw output that it came from, with zero bytes between.
pub(super) fn places(bytes: &[u8]) -> u64 {
    let text = text(bytes);
    let mut parts = text.splitn(3, '\0');
    let [result, pointer, raw] = [(); 3].map(|()| parts.next().unwrap_or_default());
    let (Ok(value), Ok(pointer)) = (serde_json::from_str::<Value>(result), Pointer::parse(pointer)) else { return 0 };
    let found = places_of(raw, &value, &pointer, &mut Work::default());
    for place in &found {
        assert!(raw.get(place.clone()).is_some(), "{place:?}");
    }
    way((span(result, &pointer).is_some(), about(found.len())))
}
