//! How fast a message of an agent CLI, whose standard output is a file that is followed, reaches a reader.

use std::io::Write;
use std::time::Duration;

use serde_json::{Value, json};

use crate::figure::Figure;
use crate::lines::{now_nanos, paced, to_reader};
use crate::setup::Setup;
use crate::skills;

/// As `live`, with a program that poses as claude and says when it wrote each of its messages.
pub fn followed(setup: &Setup<'_>) -> Vec<Figure> {
    skills::package(&setup.folder.join("skills"), "speak", &["auto"], json!({"type": "prompt"}));
    let engine = setup.folder.join("claude");
    let version = "[ \"$1\" = --version ] && { echo '9.9.9 (Claude Code)'; exit 0; }";
    let speaker = std::env::current_exe().unwrap();
    let speak = format!("exec '{}' {} {}", speaker.display(), crate::SPEAK, paced(setup));
    skills::executable(&engine, &format!("#!/bin/sh\n{version}\ncat > /dev/null\n{speak}\n"));
    let service = setup.serve(&[("claude_bin", engine.to_str().unwrap())]);
    let body = json!({"skill_id": "speak", "engine": "claude", "runtime_options": {"no_cache": true}});
    let names = ["line of a followed file to reader, p50", "line of a followed file to reader, p95"];
    to_reader(setup, &service, &body, names, [5.0, 20.0])
}

/// What the engine runs: a message each 20 ms that tells when it was written.
pub fn speak(messages: usize) {
    let session = "00000000-0000-4000-8000-000000000001";
    say(&json!({"type": "system", "subtype": "init", "session_id": session}));
    for at in 0..messages {
        std::thread::sleep(Duration::from_millis(20));
        let text = json!([{"type": "text", "text": format!("sent {};", now_nanos())}]);
        let message = json!({"id": format!("msg_{at}"), "role": "assistant", "content": text});
        say(&json!({"type": "assistant", "message": message, "session_id": session}));
    }
    say(&json!({"type": "result", "subtype": "success", "is_error": false, "result": "{}", "session_id": session}));
}

/// One write, so that it arrives as one line.
fn say(message: &Value) {
    std::io::stdout().write_all(format!("{message}\n").as_bytes()).unwrap();
}
