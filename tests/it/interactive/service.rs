//! A real service process with a pose as its codex.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use serde_json::{Value, json};
use skill_runner::domain::cache_key::sha256_hex;
use skill_runner::domain::fact::Stream;
use skill_runner::domain::outcome::StreamProof;
use skill_runner::fcmp::audit::{Auditor, Expect};

use super::pose::{self, Pose};
use crate::support::{Answer, Call, Sse, program};

/// A service; killed when dropped.
pub struct Service {
    child: Child,
    pub address: SocketAddr,
    folder: PathBuf,
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Service {
    /// Starts a service in a folder that holds its data and the skill `ask`.
    pub fn start(folder: &Path, pose: &Pose) -> Service {
        Service::set(folder, pose, &[])
    }

    /// The same, with these variables besides.
    pub fn set(folder: &Path, pose: &Pose, variables: &[(&str, &str)]) -> Service {
        pose::skill(&folder.join("skills"), "ask", None);
        let mut child = program()
            .args(["serve", "--port", "0", "--data-dir", "data", "--skills-dir", "skills"])
            .env("SKILL_RUNNER_CODEX_BIN", pose.command())
            .env("SKILL_RUNNER_SANDBOX_WRITE", pose.folder())
            .env("SKILL_RUNNER_MIN_FREE_BYTES", "0")
            .env("LOG_LEVEL", "error")
            .envs(variables.iter().copied())
            .current_dir(folder)
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        while !line.contains("http://") {
            line.clear();
            assert_ne!(output.read_line(&mut line).unwrap(), 0, "the service ended");
        }
        let address = line.split("http://").nth(1).unwrap().trim().trim_end_matches('/').parse().unwrap();
        Service { child, address, folder: folder.to_owned() }
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Kills it with -9.
    pub fn kill(self) {
        drop(self);
    }

    pub fn get(&self, path: &str) -> Value {
        Call::new(self.address, "GET", path).send().json()
    }

    pub fn post(&self, path: &str, body: &Value) -> Answer {
        Call::new(self.address, "POST", path).json(body).send()
    }

    /// Creates an interactive run; its id.
    pub fn create(&self, options: Value) -> String {
        let mut options = options;
        options["execution_mode"] = json!("interactive");
        let created = self.post("/v1/jobs", &json!({"skill_id": "ask", "engine": "codex", "runtime_options": options}));
        assert_eq!(created.status, 201, "{}", created.text());
        created.json()["run_id"].as_str().unwrap().to_owned()
    }

    pub fn reply(&self, run: &str, number: u64, response: Value) -> Answer {
        let body = json!({"interaction_id": number, "response": response});
        self.post(&format!("/v1/jobs/{run}/interaction/reply"), &body)
    }

    /// Waits until the run waits with this question; the event that says so.
    pub fn question(&self, run: &str, number: u64) -> Value {
        let mut events = Sse::open(self.address, &format!("/v1/jobs/{run}/events"), &[]);
        loop {
            let event = events.next_chat().unwrap_or_else(|| panic!("run {run} ended without question {number}"));
            if event["data"]["to"] == "waiting_user" && event["data"]["pending_interaction_id"] == number {
                return event;
            }
        }
    }

    /// Waits for the end of a run, which must be this; its job.
    pub fn ends(&self, run: &str, status: &str) -> Value {
        Sse::open(self.address, &format!("/v1/jobs/{run}/events"), &[]).until_end();
        let job = self.get(&format!("/v1/jobs/{run}"));
        assert_eq!(job["status"], status, "{job}");
        job
    }

    pub fn history(&self, run: &str) -> Vec<Value> {
        self.lines(run).iter().map(|line| serde_json::from_slice(line).unwrap()).collect()
    }

    fn lines(&self, run: &str) -> Vec<Vec<u8>> {
        let path = format!("/v1/jobs/{run}/events/history");
        let answer = Call::new(self.address, "GET", &path).header("accept", "application/x-ndjson").send();
        answer.body.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).map(<[u8]>::to_vec).collect()
    }

    /// Checks the log of a run that is over.
    pub fn audit(&self, run: &str) {
        let mut auditor = Auditor::default();
        self.lines(run).iter().for_each(|event| auditor.push(event));
        let logs = self.folder.join("data/runs").join(run).join("logs");
        let proof = |name: &str| {
            let bytes = fs::read(logs.join(name)).unwrap_or_default();
            StreamProof { bytes: bytes.len() as u64, sha256: sha256_hex(&bytes) }
        };
        let files = BTreeMap::from([(Stream::Stdout, proof("stdout.txt")), (Stream::Stderr, proof("stderr.txt"))]);
        assert_eq!(auditor.finish(&files, Expect::Final), vec![], "run {run}");
    }
}
