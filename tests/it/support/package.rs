//! Tiny script skills.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

/// Write a script skill that runs `sh`. `extras` may hold `input`, `parameter` and `output` (schemas) and `runner`
/// (members of the manifest).
pub fn script_skill(skills: &Path, id: &str, sh: &str, extras: Value) {
    let dir = skills.join(id);
    fs::create_dir_all(dir.join("assets")).unwrap();
    fs::create_dir_all(dir.join("scripts")).unwrap();
    let mut runner = json!({
        "id": id, "version": "1.2.3", "execution_modes": ["auto"],
        "entrypoint": {"type": "script", "script": {"command": "sh scripts/run.sh"}},
        "schemas": {},
    });
    for (key, value) in extras["runner"].as_object().into_iter().flatten() {
        runner[key] = value.clone();
    }
    for kind in ["input", "parameter", "output"] {
        let schema = extras.get(kind).cloned().unwrap_or(json!({"type": "object"}));
        fs::write(dir.join(format!("assets/{kind}.schema.json")), schema.to_string()).unwrap();
        runner["schemas"][kind] = json!(format!("assets/{kind}.schema.json"));
    }
    fs::write(dir.join("assets/runner.json"), runner.to_string()).unwrap();
    fs::write(dir.join("SKILL.md"), format!("---\nname: {id}\ndescription: A test skill.\n---\nDoes it.\n")).unwrap();
    fs::write(dir.join("scripts/run.sh"), sh).unwrap();
}
