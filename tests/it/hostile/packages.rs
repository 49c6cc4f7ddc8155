//! Packages made to stop whoever reads them, and what each is refused with.

use std::fs;
use std::path::Path;

use serde_json::{Map, Value, json};

use crate::support::script_skill;

/// One file of a sound package is replaced.
pub struct Hostile {
    pub id: &'static str,
    /// The path of the file, and its text.
    file: (&'static str, String),
    /// What lint says of it.
    pub code: &'static str,
}

/// One for each parser and each way to make it work without end.
pub fn all() -> Vec<Hostile> {
    let mut all = templates();
    all.extend(schemas());
    let head = |yaml: String| format!("---\nname: x\ndescription: x\nmetadata: {yaml}\n---\nbody\n");
    all.extend(
        [
            ("yaml-brackets", "SKILL.md", head("[".repeat(100_000)), "FRONT_MATTER_INVALID"),
            ("yaml-braces", "SKILL.md", head("{".repeat(50_000)), "FRONT_MATTER_INVALID"),
            ("yaml-dashes", "SKILL.md", head(format!("\n{}", "- ".repeat(30_000))), "FRONT_MATTER_INVALID"),
            ("yaml-long", "SKILL.md", head("x".repeat(900_000)), "FRONT_MATTER_INVALID"),
            ("yaml-aliases", "SKILL.md", head(aliases()), "FRONT_MATTER_INVALID"),
            ("json-deep", "assets/runner.json", "[".repeat(900_000), "INVALID_JSON"),
            ("json-keys", "assets/output.schema.json", "{\"a\":".repeat(100_000), "INVALID_JSON"),
            ("json-texts", "assets/runner.json", nested_texts(250), "INVALID_JSON"),
            ("json-unknown", "assets/runner.json", unknown_keys(), "SHAPE_INVALID"),
            ("yaml-texts", "SKILL.md", head(format!("[{}]", in_yaml(5))), "FRONT_MATTER_INVALID"),
            ("toml-texts", "assets/codex_config.toml", format!("a = {}", in_toml(250)), "CONFIG_INVALID"),
            ("toml-deep", "assets/codex_config.toml", format!("a={}", "[".repeat(500_000)), "CONFIG_INVALID"),
            ("toml-dots", "assets/codex_config.toml", format!("a{}=1", ".a".repeat(250_000)), "CONFIG_INVALID"),
            ("glob-braces", "assets/output.schema.json", artifact("{".repeat(200_000)), "ARTIFACT_PATTERN_INVALID"),
            ("glob-long", "assets/output.schema.json", artifact("*a".repeat(200_000)), "ARTIFACT_PATTERN_INVALID"),
        ]
        .map(|(id, path, text, code)| Hostile { id, file: (path, text), code }),
    );
    all
}

impl Hostile {
    /// Writes the package below this folder.
    pub fn write(&self, folder: &Path) {
        let runner = json!({
            "execution_modes": ["auto"], "engine_configs": {"codex": "assets/codex_config.toml"},
            "entrypoint": {"type": "prompt", "prompt": {"template": "assets/prompt.md"}},
        });
        script_skill(folder, self.id, "", json!({"runner": runner}));
        let package = folder.join(self.id);
        fs::write(package.join("assets/prompt.md"), "Do it.").unwrap();
        fs::write(package.join("assets/codex_config.toml"), "").unwrap();
        let (path, text) = &self.file;
        fs::write(package.join(path), text.replace("name: x\n", &format!("name: {}\n", self.id))).unwrap();
    }
}

fn templates() -> Vec<Hostile> {
    let n = 10_000;
    [
        ("template-sum", format!("{{{{ 1{} }}}}", "+1".repeat(n))),
        ("template-not", format!("{{{{ {}x }}}}", "not ".repeat(n))),
        ("template-minus", format!("{{{{ {}1 }}}}", "-".repeat(n))),
        ("template-names", format!("{{{{ x{} }}}}", ".b".repeat(n))),
        ("template-filters", format!("{{{{ x{} }}}}", "|abs".repeat(n))),
        ("template-else", format!("{{{{ 1{} }}}}", " if x else 1".repeat(n))),
        ("template-elif", format!("{{% if x %}}{}{{% endif %}}", "{% elif x %}".repeat(n))),
        ("template-brackets", format!("{{{{ {}x{} }}}}", "(".repeat(n), ")".repeat(n))),
        ("template-targets", format!("{{% set {}x{} = 1 %}}", "(".repeat(n), ")".repeat(n))),
        ("template-blocks", format!("{}{}", "{% if x %}".repeat(n), "{% endif %}".repeat(n))),
    ]
    .map(|(id, text)| Hostile { id, file: ("assets/prompt.md", text), code: "TEMPLATE_INVALID" })
    .into()
}

/// The name by which the library for JSON tells itself that the text behind it is to be read as JSON.
const TEXT: &str = "$serde_json::private::RawValue";

/// JSON that is deep only to a reader that takes that name for its own: each text in a text begins its nesting anew.
pub fn nested_texts(levels: usize) -> String {
    let quote = |level: usize| match level {
        0 => "\"".to_owned(),
        _ => format!("\\{}u0022", "u005c".repeat(level - 1)),
    };
    let (mut begins, mut ends) = (String::new(), String::new());
    for level in 0..levels {
        begins += &format!("{}{{{q}{TEXT}{q}:{q}", "[".repeat(100), q = quote(level));
        ends = format!("{}}}{}", quote(level), "]".repeat(100)) + &ends;
    }
    format!("{begins}1{ends}")
}

/// The same behind the name in YAML and in TOML.
fn in_yaml(levels: usize) -> String {
    format!("{{\"\\x24{}\": '{}'}}", &TEXT[1..], nested_texts(levels))
}

fn in_toml(levels: usize) -> String {
    format!("{{ {TEXT:?} = '{}' }}", nested_texts(levels))
}

/// Schemas whose references double forty times, written in every way, and other schemas without measure.
fn schemas() -> Vec<Hostile> {
    let chain = |refer: &dyn Fn(usize) -> String, key: &str, name: &dyn Fn(usize) -> String| {
        let level = |number: usize| {
            let next = json!({"$ref": refer(number + 1)});
            let mut level =
                if number < 40 { json!({"allOf": [next.clone(), next]}) } else { json!({"type": "object"}) };
            level[key] = json!(name(number));
            level
        };
        let defs: Map<String, Value> = (0..=40).map(|number| (format!("a{number}"), level(number))).collect();
        json!({"type": "object", "$ref": refer(0), "$defs": defs})
    };
    let plain: &dyn Fn(usize) -> String = &|number| format!("level {number}");
    let url: &dyn Fn(usize) -> String = &|number| format!("http://example.com/a{number}");
    let dollar = chain(&|number| format!("#/%24defs/a{number}"), "title", plain);
    let letter = chain(&|number| format!("#/$defs/%61{number}"), "title", plain);
    let ids = chain(url, "$id", url);
    let anchors = chain(&|number| format!("#x{number}"), "$anchor", &|number| format!("x{number}"));
    let nested = (0..60).fold(json!({}), |inner, _| json!({"items": {"not": inner}}));
    let nested = json!({"type": "object", "additionalProperties": nested});
    let pattern = json!({"type": "object", "properties": {"a": {"pattern": "((a{90}){90}){90}"}}});
    let itself = json!({"type": "object", "allOf": [{"$ref": "#"}]});
    let names = json!({"properties": {("n".repeat(400_000)): {"allOf": vec![json!({"type": "string"}); 5000]}}});
    let alike = (0..20_000).map(|number| format!("1{number:040}")).collect::<Vec<_>>().join(",");
    let alike = format!(r#"{{"$schema":"http://json-schema.org/draft-04/schema#","enum":[{alike}]}}"#);
    let digits = format!(r#"{{"type":"object","properties":{{"a":{{"minimum":{}}}}}}}"#, "9".repeat(900_000));
    let [alike, digits] = [alike, digits].map(|text| serde_json::from_str(&text).unwrap());
    let parts = json!({"type": "object", "$defs": {"a": {"allOf": vec![json!({}); 100_000]}}});
    [
        ("schema-dollar", dollar),
        ("schema-letter", letter),
        ("schema-ids", ids),
        ("schema-anchors", anchors),
        ("schema-nested", nested),
        ("schema-pattern", pattern),
        ("schema-itself", itself),
        ("schema-parts", parts),
        ("schema-names", names),
        ("schema-alike", alike),
        ("schema-digits", digits),
    ]
    .map(|(id, schema)| Hostile { id, file: ("assets/output.schema.json", schema.to_string()), code: "SCHEMA_INVALID" })
    .into()
}

/// A few lines that stand for 10^12 values.
fn aliases() -> String {
    let mut yaml = String::from("\n  a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for level in 1..12 {
        let last = level - 1;
        yaml += &format!("  a{level}: &a{level} [{}]\n", vec![format!("*a{last}"); 10].join(", "));
    }
    yaml
}

/// A manifest with more keys that mean nothing than anybody would read about, and one that is wrong.
fn unknown_keys() -> String {
    let mut keys: Map<String, Value> = (0..60_000).map(|number| (format!("key{number}"), json!(1))).collect();
    keys.insert("execution_modes".to_owned(), json!(5));
    Value::Object(keys).to_string()
}

fn artifact(pattern: String) -> String {
    let field: Map<String, Value> = Map::from_iter([
        ("x-type".to_owned(), json!("artifact")),
        ("x-filename".to_owned(), json!(pattern)),
        ("type".to_owned(), json!("string")),
    ]);
    json!({"type": "object", "properties": {"file": field}}).to_string()
}
