//! The skills that are measured. As the measured part must be the runner's, the scripts use nothing but the shell and awk.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

const ANSWER: &str = r#"printf '{"success":true,"data":{}}\n'"#;

/// Writes a script skill; `script` runs before its answer.
pub fn script(skills: &Path, id: &str, script: &str) {
    let entrypoint = json!({"type": "script", "script": {"command": "sh scripts/run.sh"}});
    let folder = package(skills, id, &["auto"], entrypoint);
    fs::create_dir_all(folder.join("scripts")).unwrap();
    executable(&folder.join("scripts/run.sh"), &format!("#!/bin/sh\n{script}\n{ANSWER}\n"));
}

/// A script that writes lines to standard error; `line` is a format of awk that takes the percentage and the number.
pub fn lines(count: usize, line: &str) -> String {
    format!("awk 'BEGIN{{for(i=0;i<{count};i++) printf \"{line}\\n\", i*100/{count}, i}}' >&2")
}

/// Writes a skill that asks a question, and a program that poses as its engine; the program.
pub fn asking(folder: &Path) -> PathBuf {
    package(&folder.join("skills"), "ask", &["interactive"], json!({"type": "prompt"}));
    let says = |text: &str| {
        let item = json!({"id": "item_1", "type": "agent_message", "text": text});
        json!({"type": "item.completed", "item": item}).to_string()
    };
    let (question, answer) = (says("What is your name?"), says("{\"name\": \"Ann\"}\n__SKILL_DONE__"));
    let usage = json!({"type": "turn.completed", "usage": {"input_tokens": 100, "cached_input_tokens": 0, "output_tokens": 20}});
    let engine = folder.join("codex");
    // Builtins of the shell alone: a question costs one process.
    let script = format!(
        r#"#!/bin/sh
[ "$1" = --version ] && {{ echo 'codex-cli 9.9.9'; exit 0; }}
thread= before=
for word in "$@"; do [ "$before" = resume ] && thread=$word; before=$word; done
words='{answer}'
[ -z "$thread" ] && read -r thread < /proc/sys/kernel/random/uuid && words='{question}'
while read -r line; do :; done
printf '%s\n' "{{\"type\":\"thread.started\",\"thread_id\":\"$thread\"}}" '{{"type":"turn.started"}}' "$words" '{usage}'
"#
    );
    executable(&engine, &script);
    engine
}

/// Writes a package; its folder.
pub fn package(skills: &Path, id: &str, modes: &[&str], entrypoint: Value) -> PathBuf {
    let folder = skills.join(id);
    fs::create_dir_all(folder.join("assets")).unwrap();
    let front = format!("---\nname: {id}\ndescription: A skill for measuring.\n---\n\nMeasures the runner.\n");
    fs::write(folder.join("SKILL.md"), front).unwrap();
    let runner = json!({"id": id, "version": "1.0.0", "execution_modes": modes, "entrypoint": entrypoint,
        "schemas": {"output": "assets/output.schema.json"}});
    fs::write(folder.join("assets/runner.json"), runner.to_string()).unwrap();
    fs::write(folder.join("assets/output.schema.json"), r#"{"type":"object"}"#).unwrap();
    folder
}

pub fn executable(path: &Path, text: &str) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}
