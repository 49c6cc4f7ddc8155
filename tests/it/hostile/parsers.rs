//! No package stops the service that reads it, wherever it comes from: each is refused, and the service answers on.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::packages;
use crate::crash;
use crate::support::skill::HELLO;
use crate::support::zips::zip_folder;
use crate::support::{Answer, Call, LONG, program, script_skill};

/// The program as a service with a folder of skills; it must be the same process at the end.
pub struct Service {
    server: crash::Server,
    folder: tempfile::TempDir,
}

impl Service {
    pub fn start(write_skills: impl FnOnce(&Path)) -> Service {
        let folder = tempfile::tempdir().unwrap();
        let skills = folder.path().join("skills");
        fs::create_dir(&skills).unwrap();
        script_skill(&skills, "sound", HELLO, json!({}));
        write_skills(&skills);
        Service { server: crash::Server::start(folder.path(), "fail"), folder }
    }

    pub fn call(&self, method: &str, path: &str) -> Call {
        Call::new(self.address(), method, path)
    }

    /// Sends a request; while it is under way, the service must answer others.
    fn send_watched(&self, call: Call) -> Answer {
        std::thread::scope(|scope| {
            let answer = scope.spawn(|| call.send());
            while !answer.is_finished() {
                self.answers();
            }
            answer.join().unwrap()
        })
    }

    /// The service answers, and soon.
    fn answers(&self) {
        let asked = Instant::now();
        assert_eq!(self.call("GET", "/healthz").send().status, 200);
        assert!(asked.elapsed() < Duration::from_secs(10), "/healthz took {:?}", asked.elapsed());
    }

    pub fn address(&self) -> SocketAddr {
        self.server.address.parse().unwrap()
    }

    /// Its data folder.
    pub fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// The most memory that it has had so far.
    pub fn peak_megabytes(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.server.child.id())).unwrap();
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.strip_suffix("kB")).unwrap();
        peak.trim().parse::<u64>().unwrap() / 1024
    }

    /// The process that was started still runs.
    pub fn lives(&mut self) {
        self.answers();
        assert!(self.server.child.try_wait().unwrap().is_none(), "the service has ended");
    }
}

fn codes(findings: &Value) -> Vec<&str> {
    findings.as_array().unwrap().iter().map(|finding| finding["code"].as_str().unwrap()).collect()
}

#[test]
fn a_folder_of_hostile_skills_is_listed() {
    let mut service = Service::start(|skills| packages::all().iter().for_each(|package| package.write(skills)));
    let began = Instant::now();
    let listed = service.send_watched(service.call("GET", "/v1/skills"));
    assert_eq!(listed.status, 200, "{}", listed.text());
    assert!(listed.text().contains("\"sound\""));
    assert!(began.elapsed() < LONG, "listing took {:?}", began.elapsed());
    for package in packages::all() {
        let shown = service.send_watched(service.call("GET", &format!("/v1/skills/{}", package.id)));
        assert!(shown.status < 500, "{}: {}", package.id, shown.text());
    }
    service.lives();
    let run = service.call("POST", "/v1/jobs?wait=60").json(&json!({"skill_id": "sound"})).send();
    assert!(run.status < 300, "{}", run.text());
}

/// Each beginning of such a head was read to the end of all comments, and each name of a script read the script again.
#[test]
fn scripts_whose_heads_do_not_end_are_read_once() {
    let mut service = Service::start(|skills| {
        let script = json!({"command": "python3 scripts/heads.py".to_owned() + &" scripts/heads.py".repeat(10_000)});
        let runner = json!({"execution_modes": ["auto"], "entrypoint": {"type": "script", "script": script}});
        script_skill(skills, "heads", "", json!({"runner": runner}));
        fs::write(skills.join("heads/scripts/heads.py"), "# /// script\n".repeat(75_000)).unwrap();
    });
    let began = Instant::now();
    let listed = service.send_watched(service.call("GET", "/v1/skills")).text();
    assert!(listed.contains("\"heads\"") && began.elapsed() < LONG, "{:?}: {listed}", began.elapsed());
    service.lives();
}

#[test]
fn a_hostile_package_is_told_what_is_wrong_with_it_by_lint_installation_and_upload() {
    let mut service = Service::start(|_| {});
    let drafts = service.folder.path().join("drafts");
    fs::create_dir(&drafts).unwrap();
    for package in packages::all() {
        package.write(&drafts);
        let linted = program().args(["skill", "lint", "--json"]).arg(drafts.join(package.id)).output().unwrap();
        let said: Value =
            serde_json::from_slice(&linted.stdout).unwrap_or_else(|_| panic!("{}: {linted:?}", package.id));
        assert!(codes(&said["findings"]).contains(&package.code), "{}: {said}", package.id);

        let zip = zip_folder(&drafts.join(package.id));
        let call = service.call("POST", "/v1/skill-packages/install?wait=60").parts(&[("file", &zip)]);
        let installed = service.send_watched(call).json();
        assert_eq!(installed["status"], "failed", "{}: {installed}", package.id);
        assert!(installed.to_string().contains(package.code), "{}: {installed}", package.id);

        let created = service.call("POST", "/v1/temp-skill-runs").json(&json!({"engine": "codex"})).send().json();
        let place = format!("/v1/temp-skill-runs/{}/upload", created["request_id"].as_str().unwrap());
        let uploaded = service.send_watched(service.call("POST", &place).parts(&[("skill_package", &zip)]));
        assert_eq!(uploaded.status / 100, 4, "{}: {}", package.id, uploaded.text());
        assert!(uploaded.text().contains(package.code), "{}: {}", package.id, uploaded.text());
        service.lives();
    }
}
