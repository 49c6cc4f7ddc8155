//! Several services on one PostgreSQL store and one place for files, as real processes: whoever is asked, whoever works, whoever dies.

mod access;
mod chaos;
mod cleanup;
mod compose;
mod faults;
mod nodes;
mod objects;
mod skills;
mod work;

use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use crate::support::client::{Answer, Call, Sse};
use crate::support::postgres::{self, fresh};
use crate::support::{program, script_skill};

/// The shortest lease there is.
pub const LEASE_SECONDS: u64 = 5;

/// The services of one test: a schema of the test's database, a folder for shared files, a folder of skills for each.
pub struct Services {
    place: tempfile::TempDir,
    url: String,
    /// The schema with the tables; empty where a test has a database of its own.
    pub schema: String,
    /// Variables of one service, or of all if the name is empty; the later ones win.
    variables: Vec<(String, String, OsString)>,
}

/// One service; it is killed when this is dropped.
pub struct Service {
    pub child: Child,
    pub address: Option<SocketAddr>,
    pub data: PathBuf,
}

impl Services {
    pub fn new() -> Self {
        let schema = fresh();
        Self { schema: schema.clone(), ..Self::on(postgres::shared().url(&schema)) }
    }

    /// On this database.
    pub fn on(url: String) -> Self {
        let place = tempfile::tempdir().unwrap();
        // A folder that is not there may be a file system that is not mounted, so none is made.
        std::fs::create_dir(place.path().join("blobs")).unwrap();
        Self { place, url, schema: String::new(), variables: Vec::new() }
    }

    /// Sets a variable of one service, or of all if the name is empty.
    pub fn set(&mut self, name: &str, variable: &str, value: impl Into<OsString>) {
        self.variables.push((name.to_owned(), variable.to_owned(), value.into()));
    }

    /// The folder of shared files.
    pub fn blobs(&self) -> PathBuf {
        self.data("blobs")
    }

    /// The folder of skills.
    pub fn skills(&self) -> PathBuf {
        self.data("skills")
    }

    /// The skill is on every service.
    pub fn skill(&self, id: &str, sh: &str, extras: Value) {
        script_skill(&self.place.path().join("skills"), id, sh, extras);
    }

    pub fn command(&self, name: &str, args: &[&str]) -> Command {
        let at = |folder: &str| self.place.path().join(folder);
        let mut command = program();
        if !args.contains(&"--skills-dir") {
            command.arg("--skills-dir").arg(at("skills"));
        }
        command
            .args(args)
            .arg("--data-dir")
            .arg(at(name))
            .env("SKILL_RUNNER_STORE", &self.url)
            .env("SKILL_RUNNER_BLOBS", at("blobs"))
            .env("SKILL_RUNNER_NODE_NAME", name)
            .env("SKILL_RUNNER_LEASE_SECONDS", LEASE_SECONDS.to_string())
            .env("SKILL_RUNNER_SEAL_GRACE_SECONDS", "0")
            .env("SKILL_RUNNER_AGENT_HOME", at(&format!("{name}-home")))
            .current_dir(self.place.path());
        let own = self.variables.iter().filter(|(whose, ..)| whose.is_empty() || whose == name);
        command.envs(own.map(|(_, variable, value)| (variable, value)));
        command
    }

    /// A service that answers requests and works.
    pub fn serve(&self, name: &str) -> Service {
        self.start(name, &["serve", "--port", "0"])
    }

    /// One that answers requests only.
    pub fn api(&self, name: &str) -> Service {
        self.start(name, &["serve", "--port", "0", "--no-work"])
    }

    /// One that works only.
    pub fn worker(&self, name: &str) -> Service {
        self.start(name, &["worker"])
    }

    pub fn start(&self, name: &str, args: &[&str]) -> Service {
        self.begin(name, self.command(name, args))
    }

    /// The service that this command starts.
    pub fn begin(&self, name: &str, mut command: Command) -> Service {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("listening on http://").map(|address| address.parse().unwrap());
        assert!(address.is_some() || line.starts_with("working on"), "{name} said {line:?}");
        Service { child, address, data: self.data(name) }
    }

    pub fn data(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }
}

impl Service {
    pub fn address(&self) -> SocketAddr {
        self.address.expect("it has an API")
    }

    pub fn get(&self, path: &str) -> Answer {
        Call::new(self.address(), "GET", path).send()
    }

    pub fn post(&self, path: &str, body: &Value) -> Answer {
        Call::new(self.address(), "POST", path).json(body).send()
    }

    /// The run id of a new run that shares no result with others.
    pub fn create(&self, skill: &str) -> String {
        self.create_with(&json!({"skill_id": skill, "runtime_options": {"no_cache": true}}))
    }

    pub fn create_with(&self, body: &Value) -> String {
        let answer = self.post("/v1/jobs", body);
        assert_eq!(answer.status, 201, "{}", answer.text());
        answer.json()["run_id"].as_str().unwrap().to_owned()
    }

    /// All events of the run, to its end.
    pub fn finish(&self, run: &str) -> Vec<Value> {
        Sse::open(self.address(), &format!("/v1/jobs/{run}/events"), &[]).until_end()
    }

    pub fn follow(&self, run: &str) -> Sse {
        Sse::open(self.address(), &format!("/v1/jobs/{run}/events"), &[])
    }

    pub fn job(&self, run: &str) -> Value {
        self.get(&format!("/v1/jobs/{run}")).json()
    }

    pub fn pid(&self) -> rustix::process::Pid {
        rustix::process::Pid::from_child(&self.child)
    }

    pub fn kill_9(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Every run of the service is audited as ok, by a service that may have none of its files.
pub fn audited(service: &Service, runs: &[String]) {
    for run in runs {
        let report = service.get(&format!("/v1/jobs/{run}/audit"));
        assert_eq!((report.status, &report.json()["ok"]), (200, &json!(true)), "{run}: {}", report.text());
    }
}
