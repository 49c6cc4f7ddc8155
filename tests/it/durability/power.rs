//! The power of the whole service fails under load, again and again: nothing that clients were told is gone.
//!
//! `POWER_CUTS=100 cargo test --test it power_of_the_whole -- --nocapture` is the long run; it needs root and loop devices.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use semver::Version;
use serde_json::{Value, json};

use crate::interactive::pose::{Pose, done, says};
use crate::interactive::service::Service;
use crate::support::disk::{Disk, has_own_mounts};
use crate::support::random::Random;
use crate::support::zips::zip_folder;
use crate::support::{Answer, Call, LONG, program, script_skill};

/// Cuts of a usual test run.
const CUTS: u64 = 10;
const SETTINGS: [(&str, &str); 4] = [
    ("SKILL_RUNNER_SEAL_GRACE_SECONDS", "0"),
    ("SKILL_RUNNER_MAX_RUNNING_JOBS", "3"),
    ("SKILL_RUNNER_RESTART_QUEUED", "requeue"),
    ("LOG_LEVEL", "error"),
];
/// Files of the package that is installed again and again.
const FILES: usize = 20;

/// What clients were told.
#[derive(Default)]
struct Told {
    /// Runs that were taken, and whether a clean-up may have deleted them since.
    runs: BTreeMap<String, bool>,
    /// Results of runs that were over.
    results: BTreeMap<String, Value>,
    /// Runs whose answer was accepted.
    replied: BTreeSet<String>,
    /// Runs whose upload was taken.
    uploaded: BTreeSet<String>,
    /// The newest version whose installation had succeeded.
    installed: Option<Version>,
}

struct Load<'a> {
    address: std::net::SocketAddr,
    told: &'a Mutex<Told>,
    stop: &'a AtomicBool,
    versions: &'a AtomicU64,
}

impl Load<'_> {
    /// Does this until the power fails.
    fn again(&self, work: impl Fn(&Self) -> Option<()>) {
        while !self.stop.load(Ordering::Relaxed) && work(self).is_some() {}
    }

    fn call(&self, method: &str, path: &str) -> Call {
        Call::new(self.address, method, path)
    }

    fn taken(&self, answer: &Answer) -> Option<String> {
        let run = answer.json()["run_id"].as_str()?.to_owned();
        self.told.lock().unwrap().runs.insert(run.clone(), false);
        Some(run)
    }

    fn over(&self, run: &str) -> Option<()> {
        let job = super::ended(self.address, run)?;
        if job["status"] == "succeeded" {
            let result = self.call("GET", &format!("/v1/jobs/{run}/result")).try_send()?;
            if result.status == 200 {
                self.told.lock().unwrap().results.insert(run.to_owned(), result.json()["result"].clone());
            }
        }
        Some(())
    }

    fn script(&self) -> Option<()> {
        let body = json!({"skill_id": "writes", "runtime_options": {"no_cache": true}});
        let run = self.taken(&self.call("POST", "/v1/jobs").json(&body).try_send()?)?;
        self.over(&run)
    }

    fn conversation(&self) -> Option<()> {
        let options = json!({"execution_mode": "interactive"});
        let body = json!({"skill_id": "ask", "engine": "codex", "runtime_options": options});
        let run = self.taken(&self.call("POST", "/v1/jobs").json(&body).try_send()?)?;
        let limit = Instant::now() + LONG;
        loop {
            let job = self.call("GET", &format!("/v1/jobs/{run}")).try_send()?.json();
            match job["status"].as_str().unwrap_or("in an answer that is no job") {
                "waiting_user" => break,
                // A run whose files can no longer be written fails.
                _ if self.stop.load(Ordering::Relaxed) => return None,
                "queued" | "running" if Instant::now() < limit => std::thread::sleep(Duration::from_millis(5)),
                other => panic!("{run} is {other}"),
            }
        }
        let reply = json!({"interaction_id": 1, "response": format!("answer of {run}")});
        let path = format!("/v1/jobs/{run}/interaction/reply");
        if self.call("POST", &path).json(&reply).try_send()?.status == 200 {
            self.told.lock().unwrap().replied.insert(run.clone());
        }
        self.over(&run)
    }

    fn own_skill(&self) -> Option<()> {
        let answer = self.call("POST", "/v1/temp-skill-runs").json(&json!({})).try_send()?;
        let run = self.taken(&answer)?;
        let package = zipped(|folder| script_skill(folder, "own", WRITES, json!({})), "own");
        let upload =
            self.call("POST", &format!("/v1/temp-skill-runs/{run}/upload")).parts(&[("skill_package", &package)]);
        if upload.try_send()?.status == 200 {
            self.told.lock().unwrap().uploaded.insert(run.clone());
        }
        self.over(&run)
    }

    fn install(&self) -> Option<()> {
        let version = Version::new(1, 0, self.versions.fetch_add(1, Ordering::Relaxed));
        let zip = zipped(|folder| package(folder, &version.to_string()), "demo");
        let answer = self.call("POST", "/v1/skill-packages/install?wait=20").parts(&[("file", &zip)]).try_send()?;
        if answer.json()["status"] == "succeeded" {
            self.told.lock().unwrap().installed = Some(version);
        }
        Some(())
    }

    fn clean_up(&self) -> Option<()> {
        // From here on what is over may be gone.
        self.told.lock().unwrap().runs.values_mut().for_each(|deletable| *deletable = true);
        self.call("POST", "/v1/jobs/cleanup").json(&json!({"keep_last": 30})).try_send()?;
        Some(())
    }
}

const WRITES: &str = "cat >/dev/null\ni=0\nwhile [ $i -lt 200 ]; do echo \"$SKILL_RUNNER_RUN_ID line $i\"; i=$((i+1)); done > artifacts/lines.txt\n\
    echo '50% half' >&2\necho '{\"success\":true,\"data\":{}}'\n";

fn zipped(write: impl FnOnce(&Path), name: &str) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path());
    zip_folder(&folder.path().join(name))
}

fn package(folder: &Path, version: &str) {
    script_skill(folder, "demo", version, json!({"runner": {"version": version}}));
    for number in 0..FILES {
        fs::create_dir_all(folder.join("demo/references")).unwrap();
        fs::write(folder.join(format!("demo/references/{number}.md")), version).unwrap();
    }
}

#[test]
fn the_power_of_the_whole_service_fails_at_any_moment_and_nothing_acknowledged_is_lost() {
    const NAME: &str = "the_power_of_the_whole_service_fails_at_any_moment_and_nothing_acknowledged_is_lost";
    if !has_own_mounts(&format!("durability::power::{NAME}")) {
        return;
    }
    let cuts = std::env::var("POWER_CUTS").map_or(CUTS, |text| text.parse().expect("POWER_CUTS is a number"));
    let folder = tempfile::tempdir().unwrap();
    let Some(mut disk) = Disk::make(folder.path(), 2 << 30) else { return };
    let place = disk.mount_point.join("place");
    fs::create_dir(&place).unwrap();
    script_skill(&place.join("skills"), "writes", WRITES, json!({}));
    let pose = Pose::new();
    pose.plays(&[says("What is your name?"), done()]);
    let mut random = Random::seeded();
    let (told, versions) = (Mutex::new(Told::default()), AtomicU64::new(1));
    let mut service = Service::set(&place, &pose, &SETTINGS);
    assert!(std::process::Command::new("sync").arg("-f").arg(&place).status().unwrap().success());
    for cut in 0..cuts {
        let stop = AtomicBool::new(false);
        let load = Load { address: service.address, told: &told, stop: &stop, versions: &versions };
        let before = told.lock().unwrap().runs.len();
        let delay = Duration::from_millis(random.below(900));
        let tidies = random.below(3) == 0;
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| load.again(Load::script));
            }
            scope.spawn(|| load.again(Load::conversation));
            scope.spawn(|| load.again(Load::own_skill));
            scope.spawn(|| load.again(Load::install));
            if tidies {
                scope.spawn(|| load.clean_up());
            }
            let limit = Instant::now() + LONG;
            while told.lock().unwrap().runs.len() < before + 3 {
                assert!(Instant::now() < limit, "there is load");
                std::thread::sleep(Duration::from_millis(2));
            }
            // The moment of the cut is the random part of the test, not a wait for something.
            std::thread::sleep(delay);
            // Before the cut: from then on runs fail, and nobody wonders.
            stop.store(true, Ordering::Relaxed);
            disk.cut_power();
            service.kill();
        });
        disk.restore_power();
        service = Service::set(&place, &pose, &SETTINGS);
        check(&service, &told.lock().unwrap(), &place, cut);
    }
    let runs = all_over(&service);
    let told = told.into_inner().unwrap();
    eprintln!(
        "{cuts} cuts, {} runs taken, {} results and {} answers told, {} runs left, newest version {:?}",
        told.runs.len(),
        told.results.len(),
        told.replied.len(),
        runs.len(),
        told.installed
    );
    // The service is stopped in order, so that the store can be opened by others.
    service.kill();
    for run in runs {
        let audit = program().args(["audit", &run, "--data-dir", "data"]).current_dir(&place).output().unwrap();
        let lines = fs::read(place.join(format!("data/runs/{run}/artifacts/lines.txt"))).unwrap_or_default();
        let begin = String::from_utf8_lossy(&lines).chars().take(120).collect::<String>();
        let zeros = lines.iter().filter(|byte| **byte == 0).count();
        let told = String::from_utf8_lossy(&audit.stdout);
        assert_eq!(
            audit.status.code(),
            Some(0),
            "{told}\nits artifact begins with {begin:?} and has {zeros} zero bytes"
        );
    }
}

fn check(service: &Service, told: &Told, place: &Path, cut: u64) {
    let found = |run: &str| {
        let answer = Call::new(service.address, "GET", &format!("/v1/jobs/{run}")).send();
        (answer.status == 200).then(|| answer.json())
    };
    for (run, deletable) in &told.runs {
        let Some(job) = found(run) else {
            assert!(deletable, "cut {cut}: {run} was taken and is gone");
            continue;
        };
        if let Some(result) = told.results.get(run) {
            let now = service.get(&format!("/v1/jobs/{run}/result"));
            assert_eq!(&now["result"], result, "cut {cut}: the result of {run}");
        }
        if told.uploaded.contains(run) {
            assert_eq!(job["awaiting_upload"], false, "cut {cut}: the upload of {run}");
        }
        if told.replied.contains(run) {
            let accepted =
                service.history(run).into_iter().filter(|event| event["type"] == "interaction.reply.accepted");
            let answers: Vec<Value> = accepted.map(|event| event["data"]["response"].clone()).collect();
            assert_eq!(answers, [json!(format!("answer of {run}"))], "cut {cut}: the answer to {run}");
        }
    }
    let skills = place.join("skills");
    let left: Vec<String> =
        fs::read_dir(&skills).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    assert!(!left.iter().any(|name| name.starts_with(".install-") || name == ".invalid"), "cut {cut}: {left:?}");
    if let Some(version) = &told.installed {
        let text = |file: &str| fs::read_to_string(skills.join("demo").join(file)).unwrap();
        let now: Version = text("scripts/run.sh").parse().unwrap();
        assert!(now >= *version, "cut {cut}: {now} is there, and {version} was installed");
        for number in 0..FILES {
            assert_eq!(text(&format!("references/{number}.md")), now.to_string(), "cut {cut}: half a package");
        }
    }
}

/// Waits until no run is under way; those that are over.
fn all_over(service: &Service) -> Vec<String> {
    let limit = Instant::now() + LONG;
    loop {
        let jobs = service.get("/v1/jobs?limit=500")["jobs"].as_array().unwrap().clone();
        let is = |job: &&Value, wanted: &[&str]| wanted.contains(&job["status"].as_str().unwrap());
        if !jobs.iter().any(|job| is(&job, &["running"]) || is(&job, &["queued"]) && job["awaiting_upload"] != true) {
            let over = jobs.iter().filter(|job| is(job, &["succeeded", "failed", "canceled"]));
            return over.map(|job| job["run_id"].as_str().unwrap().to_owned()).collect();
        }
        assert!(Instant::now() < limit, "every run comes to its end");
        std::thread::sleep(Duration::from_millis(50));
    }
}
