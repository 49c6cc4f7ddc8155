//! A first package for authors: small, complete, and easy to change.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::manifest;

const SCRIPT: &str = include_str!("run.py");

/// What kind of package.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Starter {
    /// A Python script that keeps the protocol.
    Script,
    /// Instructions for an engine.
    Prompt,
}

/// Every file of a new package of this id, by its path.
pub(crate) fn files(id: &str, kind: Starter) -> BTreeMap<String, String> {
    let (entrypoint, body) = match kind {
        Starter::Script => (
            json!({ "type": "script", "script": { "command": "python3 scripts/run.py" } }),
            format!(
                "# {id}\n\nCounts the words of a text. The work is done in `scripts/run.py`.\n\n\
                 ```sh\nskill-runner run ./{id} --input text='to be or not to be'\n```\n"
            ),
        ),
        Starter::Prompt => (
            json!({ "type": "prompt" }),
            format!(
                "# {id}\n\nCount the words of the text in the input. Answer with the text as it is and the number of its \
                 words.\n\n```sh\nskill-runner run ./{id} --input text='to be or not to be'\n```\n"
            ),
        ),
    };
    let runner = json!({
        "id": id,
        "version": "0.1.0",
        "execution_modes": ["auto"],
        "entrypoint": entrypoint,
        "schemas": {
            "input": "assets/input.schema.json",
            "parameter": "assets/parameter.schema.json",
            "output": "assets/output.schema.json"
        },
        "automation": { "timeout_sec": 300 }
    });
    let input = json!({
        "type": "object",
        "properties": { "text": { "type": "string", "x-input-source": "inline", "description": "The text to count." } },
        "required": ["text"],
        "additionalProperties": false
    });
    let parameter = json!({ "type": "object", "properties": {}, "additionalProperties": false });
    let output = json!({
        "type": "object",
        "properties": { "text": { "type": "string" }, "words": { "type": "integer", "minimum": 0 } },
        "required": ["text", "words"],
        "additionalProperties": false
    });
    let head = format!(
        "---\nname: {id}\ndescription: Counts the words of a text. Say here what it does and when to use it.\n---\n"
    );
    let mut files = BTreeMap::from([
        ("SKILL.md".into(), format!("{head}\n{body}")),
        (manifest::PATH.into(), pretty(&runner)),
        ("assets/input.schema.json".into(), pretty(&input)),
        ("assets/parameter.schema.json".into(), pretty(&parameter)),
        ("assets/output.schema.json".into(), pretty(&output)),
    ]);
    match kind {
        Starter::Script => files.insert("scripts/run.py".into(), SCRIPT.into()),
        Starter::Prompt => None,
    };
    files
}

fn pretty(value: &Value) -> String {
    format!("{value:#}\n")
}

#[cfg(test)]
mod tests {
    use super::super::{Intake, PackageFiles, lint};
    use super::*;

    #[test]
    fn a_new_package_of_either_kind_lints_without_a_word() {
        for kind in [Starter::Script, Starter::Prompt] {
            let mut package = PackageFiles::new();
            files("my-skill", kind).into_iter().for_each(|(path, text)| package.insert(path, text.into_bytes()));
            assert_eq!(lint("my-skill", &package, Intake::New).unwrap().findings, []);
        }
    }
}
