//! A program that poses as codex: it keeps sessions, notes what it is told, and plays prepared turns.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

const SCRIPT: &str = r#"#!/bin/sh
here=FOLDER
[ "$1" = --version ] && { echo 'codex-cli 9.9.9'; exit 0; }
thread= before=
for word in "$@"; do [ "$before" = resume ] && thread=$word; before=$word; done
if [ -z "$thread" ]; then
  thread=$(cat /proc/sys/kernel/random/uuid)
  mkdir -p "$here/sessions/$thread" && cp -r "$here/plan" "$here/sessions/$thread/plan"
fi
session=$here/sessions/$thread
if [ ! -d "$session" ]; then
  echo "Error: thread/resume: thread/resume failed: no rollout found for thread id $thread (code -32600)" >&2
  exit 1
fi
cat > "$session/reading.$$"
[ -s "$session/reading.$$" ] || { echo 'No prompt provided via stdin.' >&2; exit 1; }
turn=1
while [ -e "$session/told-$turn" ]; do turn=$((turn + 1)); done
mv "$session/reading.$$" "$session/told-$turn"
printf '%s\n' "$@" > "$session/argv-$turn"
env | sort > "$session/env-$turn"
pwd > "$session/cwd-$turn"
sed "s/THREAD/$thread/" "$session/plan/$turn"
[ -e "$session/plan/$turn.sh" ] && . "$session/plan/$turn.sh"
exit 0
"#;

/// The posing program and its sessions.
pub struct Pose {
    folder: tempfile::TempDir,
}

impl Pose {
    pub fn new() -> Pose {
        let pose = Pose { folder: tempfile::tempdir().unwrap() };
        fs::create_dir(pose.folder.path().join("plan")).unwrap();
        fs::create_dir(pose.folder.path().join("sessions")).unwrap();
        let path = pose.folder.path().join("codex");
        fs::write(&path, SCRIPT.replace("FOLDER", pose.folder.path().to_str().unwrap())).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        pose
    }

    /// Where it keeps its notes.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub fn command(&self) -> String {
        self.folder.path().join("codex").to_str().unwrap().to_owned()
    }

    /// Sessions that begin from now on play these turns.
    pub fn plays(&self, turns: &[String]) {
        for (at, turn) in turns.iter().enumerate() {
            fs::write(self.folder.path().join(format!("plan/{}", at + 1)), turn).unwrap();
        }
    }

    /// Sessions that begin from now on run this in their turn of this number, behind its words.
    pub fn runs_after(&self, turn: usize, sh: &str) {
        fs::write(self.folder.path().join(format!("plan/{turn}.sh")), sh).unwrap();
    }

    pub fn sessions(&self) -> PathBuf {
        self.folder.path().join("sessions")
    }

    /// What a session was told, turn by turn.
    pub fn told(&self, session: &str) -> Vec<String> {
        self.noted(session, "told")
    }

    /// What was noted of a session, turn by turn.
    pub fn noted(&self, session: &str, what: &str) -> Vec<String> {
        let place = self.sessions().join(session);
        (1..).map_while(|turn| fs::read_to_string(place.join(format!("{what}-{turn}"))).ok()).collect()
    }
}

fn lines(items: &[Value]) -> String {
    let thread = json!({"type": "thread.started", "thread_id": "THREAD"});
    let usage = json!({"input_tokens": 100, "cached_input_tokens": 0, "output_tokens": 20});
    let end = json!({"type": "turn.completed", "usage": usage});
    let all = [thread, json!({"type": "turn.started"})].into_iter().chain(items.iter().cloned()).chain([end]);
    all.map(|line| format!("{line}\n")).collect()
}

fn message(text: &str) -> Value {
    json!({"type": "item.completed", "item": {"id": "item_1", "type": "agent_message", "text": text}})
}

/// A turn that says this and ends.
pub fn says(text: &str) -> String {
    lines(&[message(text)])
}

/// A turn that runs a command with this output, says something and ends.
pub fn says_after_command(output: &str, text: &str) -> String {
    let item = json!({"id": "item_0", "type": "command_execution", "command": "cat x", "aggregated_output": output,
        "exit_code": 0, "status": "completed"});
    lines(&[json!({"type": "item.completed", "item": item}), message(text)])
}

/// A turn that answers and says that it is done.
pub fn done() -> String {
    says("{\"name\": \"Ann\"}\n__SKILL_DONE__")
}

/// A turn that says something in another session than it was asked to.
pub fn says_elsewhere(text: &str) -> String {
    says(text).replace("THREAD", "0192f0c1-2d3e-7f40-8a51-6b7c8d9e0f11")
}

/// A prompt skill for interactive and other runs, whose output is a name.
pub fn skill(skills: &Path, id: &str, max_attempt: Option<u32>) {
    let dir = skills.join(id);
    fs::create_dir_all(dir.join("assets")).unwrap();
    fs::write(dir.join("SKILL.md"), format!("---\nname: {id}\ndescription: Asks.\n---\n\nAsk for a name.\n")).unwrap();
    let mut runner = json!({"id": id, "version": "1.0.0", "execution_modes": ["auto", "interactive"],
        "entrypoint": {"type": "prompt"}, "schemas": {"output": "assets/output.schema.json"}});
    if let Some(max_attempt) = max_attempt {
        runner["max_attempt"] = json!(max_attempt);
    }
    fs::write(dir.join("assets/runner.json"), runner.to_string()).unwrap();
    let output = json!({"type": "object", "additionalProperties": false, "required": ["name"],
        "properties": {"name": {"type": "string"}}});
    fs::write(dir.join("assets/output.schema.json"), output.to_string()).unwrap();
}
