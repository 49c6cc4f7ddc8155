//! A first package for authors: small, complete, with tests of its own, and easy to change.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::manifest;
use crate::domain::codes::ErrorCode;
use crate::domain::engine::Engine;
use crate::engine::sample_turn;

/// What kind of package.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Starter {
    /// A script that keeps the protocol.
    Script(Language),
    /// Instructions for an engine.
    Prompt,
    /// Instructions for an engine, and a script that makes the result of what it said.
    Hybrid(Language),
    /// Instructions for an engine that asks the user.
    Interactive,
}

/// What a script is written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Language {
    Python,
    Bash,
    Node,
}

impl Language {
    /// The program that runs scripts, and the ending of their names.
    fn program(self) -> (&'static str, &'static str) {
        match self {
            Self::Python => ("python3", "py"),
            Self::Bash => ("bash", "sh"),
            Self::Node => ("node", "mjs"),
        }
    }

    fn script(self) -> &'static str {
        match self {
            Self::Python => include_str!("run.py"),
            Self::Bash => include_str!("run.sh"),
            Self::Node => include_str!("run.mjs"),
        }
    }

    fn hybrid_script(self) -> &'static str {
        match self {
            Self::Python => include_str!("hybrid.py"),
            Self::Bash => include_str!("hybrid.sh"),
            Self::Node => include_str!("hybrid.mjs"),
        }
    }

    fn command(self) -> String {
        format!("{} {}", self.program().0, self.path())
    }

    fn path(self) -> String {
        format!("scripts/run.{}", self.program().1)
    }
}

/// The parts in which kinds of packages differ.
struct Parts {
    description: &'static str,
    /// The instructions, behind their heading.
    body: String,
    modes: Value,
    entrypoint: Value,
    input: Value,
    output: Value,
    tests: Value,
    /// Other files: path and text.
    more: Vec<(String, String)>,
}

impl Starter {
    /// The script of the package, if it has one.
    pub(crate) fn script(self) -> Option<String> {
        match self {
            Self::Script(language) | Self::Hybrid(language) => Some(language.path()),
            Self::Prompt | Self::Interactive => None,
        }
    }

    /// What follows `skill-runner run ./<id>`.
    pub(crate) fn run_flags(self) -> &'static str {
        match self {
            Self::Script(_) | Self::Prompt | Self::Hybrid(_) => "--input text='to be or not to be'",
            Self::Interactive => "--interactive",
        }
    }

    fn parts(self) -> Parts {
        match self {
            Self::Script(language) => Parts {
                description: "Counts the words of a text.",
                body: format!("Counts the words of a text. The work is done in `{}`.", language.path()),
                modes: json!(["auto"]),
                entrypoint: json!({ "type": "script", "script": { "command": language.command() } }),
                input: text_input(),
                output: words_output(),
                tests: json!([counts_words(None), needs_text(None)]),
                more: vec![(language.path(), language.script().to_owned())],
            },
            Self::Prompt => Parts {
                description: "Counts the words of a text.",
                body: "Count the words of the text in the input. Answer with the text as it is and the number of its words."
                    .to_owned(),
                modes: json!(["auto"]),
                entrypoint: json!({ "type": "prompt" }),
                input: text_input(),
                output: words_output(),
                tests: json!([counts_words(Some("recorded/counted.jsonl")), needs_text(Some("recorded/counted.jsonl"))]),
                more: vec![recorded("counted", r#"{"text": "to be or not to be", "words": 6}"#)],
            },
            Self::Hybrid(language) => Parts {
                description: "Sums up a text and counts its words.",
                body: format!(
                    "Sum up the text in the input in one plain sentence, and say nothing else. `{}` then makes the result of \
                     that sentence.",
                    language.path()
                ),
                modes: json!(["auto"]),
                entrypoint: json!({ "type": "hybrid", "script": { "command": language.command() } }),
                input: text_input(),
                output: object(json!({
                    "words": { "type": "integer", "minimum": 0, "description": "How many words the text has." },
                    "summary": { "type": "string", "description": "The text in one sentence." }
                })),
                tests: json!([{
                    "name": "the script makes the result of what the engine said",
                    "input": { "text": "to be or not to be" },
                    "engine": recorded_engine(),
                    "recording": "recorded/summed-up.jsonl",
                    "expect": { "output": { "words": 6, "summary": "Somebody weighs life against death." } }
                }]),
                more: vec![
                    (language.path(), language.hybrid_script().to_owned()),
                    recorded("summed-up", "Somebody weighs life against death."),
                ],
            },
            Self::Interactive => Parts {
                description: "Asks for a name and greets.",
                body: "Ask the user for their name. When you know it, answer with the name and a greeting.".to_owned(),
                modes: json!(["interactive"]),
                entrypoint: json!({ "type": "prompt" }),
                input: json!({ "type": "object", "properties": {}, "additionalProperties": false }),
                output: object(json!({
                    "name": { "type": "string", "description": "The user's name." },
                    "greeting": { "type": "string", "description": "What to say to them." }
                })),
                tests: json!([{
                    "name": "asks for the name, then greets",
                    "execution_mode": "interactive",
                    "engine": recorded_engine(),
                    "recording": ["recorded/asks.jsonl", "recorded/greets.jsonl"],
                    "replies": ["Ann"],
                    "expect": { "output": { "name": "Ann", "greeting": "Hello, Ann!" } }
                }]),
                more: vec![
                    recorded("asks", "<ASK_USER_YAML>\nkind: open_text\nprompt: What is your name?\n</ASK_USER_YAML>"),
                    recorded("greets", "{\"name\": \"Ann\", \"greeting\": \"Hello, Ann!\", \"__SKILL_DONE__\": true}"),
                ],
            },
        }
    }
}

/// Every file of a new package of this id, by its path.
pub(crate) fn files(id: &str, kind: Starter) -> BTreeMap<String, String> {
    let Parts { description, body, modes, entrypoint, input, output, tests, more } = kind.parts();
    let runner = json!({
        "id": id,
        "version": "0.1.0",
        "execution_modes": modes,
        "entrypoint": entrypoint,
        "schemas": {
            "input": "assets/input.schema.json",
            "parameter": "assets/parameter.schema.json",
            "output": "assets/output.schema.json"
        },
        "automation": { "timeout_sec": 300 }
    });
    let parameter = json!({ "type": "object", "properties": {}, "additionalProperties": false });
    let skill_md = format!(
        "---\nname: {id}\ndescription: {description} Say here what it does and when to use it.\n---\n\n# {id}\n\n{body}\n\n\
         ```sh\nskill-runner run ./{id} {}\nskill-runner skill test ./{id}\n```\n",
        kind.run_flags()
    );
    let fixed = [
        ("SKILL.md".to_owned(), skill_md),
        (manifest::PATH.to_owned(), pretty(&runner)),
        ("assets/input.schema.json".to_owned(), pretty(&input)),
        ("assets/parameter.schema.json".to_owned(), pretty(&parameter)),
        ("assets/output.schema.json".to_owned(), pretty(&output)),
        (format!("tests/{id}.json"), pretty(&tests)),
    ];
    fixed.into_iter().chain(more).collect()
}

fn text_input() -> Value {
    json!({
        "type": "object",
        "properties": { "text": { "type": "string", "x-input-source": "inline", "description": "The text to count." } },
        "required": ["text"],
        "additionalProperties": false
    })
}

fn words_output() -> Value {
    object(json!({
        "text": { "type": "string", "description": "The text as it was given." },
        "words": { "type": "integer", "minimum": 0, "description": "How many words it has." }
    }))
}

/// An object of which every field is required.
fn object(properties: Value) -> Value {
    let required: Vec<&String> = properties.as_object().into_iter().flatten().map(|(name, _)| name).collect();
    json!({ "type": "object", "required": required, "additionalProperties": false, "properties": properties })
}

fn counts_words(recording: Option<&str>) -> Value {
    let expect = json!({ "output": { "text": "to be or not to be", "words": 6 } });
    let input = json!({ "text": "to be or not to be" });
    test("counts the words of a text", input, recording, expect)
}

fn needs_text(recording: Option<&str>) -> Value {
    test("input without a text is refused", json!({}), recording, json!({ "error": ErrorCode::InputValidationFailed }))
}

fn test(name: &str, input: Value, recording: Option<&str>, expect: Value) -> Value {
    match recording {
        None => json!({ "name": name, "input": input, "expect": expect }),
        Some(recording) => {
            json!({ "name": name, "input": input, "engine": recorded_engine(), "recording": recording, "expect": expect })
        }
    }
}

/// The recorded turn of an engine that says this.
fn recorded(name: &str, says: &str) -> (String, String) {
    (format!("tests/recorded/{name}.jsonl"), sample_turn(says).1)
}

/// The engine of the recorded turns.
fn recorded_engine() -> Engine {
    sample_turn("").0
}

fn pretty(value: &Value) -> String {
    format!("{value:#}\n")
}

#[cfg(test)]
mod tests {
    use super::super::own_tests;
    use super::super::{Intake, PackageFiles, lint};
    use super::*;

    #[test]
    fn a_new_package_of_every_kind_lints_without_a_word_and_brings_tests() {
        let languages = [Language::Python, Language::Bash, Language::Node];
        let kinds = [Starter::Prompt, Starter::Interactive].into_iter();
        let kinds = kinds.chain(languages.map(Starter::Script)).chain(languages.map(Starter::Hybrid));
        for kind in kinds {
            let mut package = PackageFiles::new();
            files("my-skill", kind).into_iter().for_each(|(path, text)| package.insert(path, text.into_bytes()));
            assert_eq!(lint("my-skill", &package, Intake::New).unwrap().findings, [], "{kind:?}");
            let tests = own_tests::read(package.text("tests/my-skill.json").unwrap()).unwrap();
            let recordings = tests.iter().flat_map(|test| &test.recording);
            for recording in recordings {
                assert!(package.contains(&format!("tests/{recording}")), "{kind:?}: {recording}");
            }
        }
    }
}
