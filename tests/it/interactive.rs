//! Interactive runs: a scripted codex asks, the run waits, somebody answers, the same session goes on.

mod asking;
mod crash;
mod crowd;
mod hostile;
mod long;
mod past;
pub mod pose;
mod replying;
pub mod service;
mod terminal;
mod waiting;

use serde_json::{Value, json};

use crate::support::{Answer, Server, of_type};
use pose::{Pose, done, says};

/// A server whose codex is a pose.
struct Scene {
    pose: Pose,
    server: Server,
}

impl Scene {
    fn new() -> Scene {
        Scene::with(&[])
    }

    fn with(flags: &[(&str, &str)]) -> Scene {
        let pose = Pose::new();
        let mut all = vec![("engines.codex.command", pose.command())];
        all.extend(flags.iter().map(|(key, value)| (*key, (*value).to_owned())));
        let flags: Vec<(&str, &str)> = all.iter().map(|(key, value)| (*key, value.as_str())).collect();
        let server = Server::with(&flags);
        pose::skill(&server.folder.path().join("skills"), "ask", Some(3));
        Scene { pose, server }
    }

    /// Creates a run whose engine plays these turns; its run id.
    fn begin(&self, turns: &[String]) -> String {
        self.begin_with(turns, json!({}))
    }

    fn begin_with(&self, turns: &[String], options: Value) -> String {
        self.pose.plays(turns);
        let mut options = options;
        options["execution_mode"] = json!("interactive");
        self.server.create_with(&json!({"skill_id": "ask", "engine": "codex", "runtime_options": options})).1
    }

    /// Waits for the question; its data.
    fn question(&self, run: &str, number: u64) -> Value {
        let mut events = self.server.events(run, 0);
        let mut asked = Value::Null;
        loop {
            let event = events.next_chat().unwrap_or_else(|| panic!("run {run} ended without question {number}"));
            if event["type"] == "user.input.required" && event["data"]["interaction_id"] == number {
                asked = event["data"].clone();
            } else if event["data"]["to"] == "waiting_user" && !asked.is_null() {
                return asked;
            }
        }
    }

    /// Creates a run and waits for its first question; its run id.
    fn waiting(&self, turns: &[String]) -> String {
        let run = self.begin(turns);
        self.question(&run, 1);
        run
    }

    fn reply(&self, run: &str, number: u64, response: Value) -> Answer {
        self.reply_with(run, json!({"interaction_id": number, "response": response}))
    }

    fn reply_with(&self, run: &str, body: Value) -> Answer {
        self.server.post(&format!("/v1/jobs/{run}/interaction/reply"), &body)
    }

    fn job(&self, run: &str) -> Value {
        self.server.get(&format!("/v1/jobs/{run}")).json()
    }

    /// Waits for the end; status, error code and events.
    fn end(&self, run: &str) -> (Value, Value, Vec<Value>) {
        let events = self.server.finish(run);
        let job = self.job(run);
        (job["status"].clone(), job["error"]["code"].clone(), events)
    }
}

/// Asks for a name, then is done with it.
fn one_question() -> Vec<String> {
    vec![says("What is your name?"), done()]
}
