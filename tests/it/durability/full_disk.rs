//! The disk is filled to its last byte at the moment of one call, and the floor of free space is switched off.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};
use skill_runner::domain::ids::Seq;
use skill_runner::store::{Error, EventStore, SledStore, contract};

use super::{DATABASE, Watched};
use crate::cli::place::Place;
use crate::support::disk::Disk;
use crate::support::file_calls::{Deed, FileCall, Judgement, Watch};
use crate::support::zips::{deflated, zip_folder};
use crate::support::{Answer, Call, LONG, script_skill};

const DISK_BYTES: u64 = 160 << 20;

/// Fills the disk when a call comes for which `at` holds, before it is made.
fn fill_at(watch: &Watch, disk: &Disk, at: fn(&FileCall) -> bool) -> Arc<AtomicBool> {
    let (filled, mount_point) = (Arc::new(AtomicBool::new(false)), disk.mount_point.clone());
    let told = filled.clone();
    watch.judge(move |call| {
        if at(call) && !told.swap(true, Ordering::Relaxed) {
            Disk::fill(&mount_point);
        }
        Judgement::Pass
    });
    filled
}

fn make_room(disk: &Disk) {
    std::fs::remove_file(disk.mount_point.join("filler")).unwrap();
}

struct Service<'a> {
    watched: Watched,
    disk: &'a Disk,
}

impl Service<'_> {
    fn post(&self, path: &str, body: &Value) -> Answer {
        Call::new(self.watched.address, "POST", path).json(body).send()
    }

    fn upload(&self, run: &str) -> Answer {
        let zip = deflated(&[("doc", b"some text".as_slice())]);
        Call::new(self.watched.address, "POST", &format!("/v1/jobs/{run}/upload")).parts(&[("file", &zip)]).send()
    }

    /// Nothing new is taken, with the cause, and what is there can be read.
    fn refuses(&self) {
        let refused = self.post("/v1/jobs", &json!({"skill_id": "tiny", "runtime_options": {"no_cache": true}}));
        assert_eq!(refused.refusal(), (507, "INSUFFICIENT_STORAGE".into()));
        assert_eq!(self.watched.get("/healthz"), json!({"status": "ok"}));
        assert!(!self.watched.get("/v1/jobs")["jobs"].as_array().unwrap().is_empty());
    }

    /// There is room again: the run ends as it must, and the next one is like any other.
    fn recovers(&self, run: &str, fails: bool) {
        make_room(self.disk);
        self.watched.watch.let_pass();
        let job = self.watched.ended(run);
        if fails {
            assert_eq!(
                (&job["status"], &job["error"]["code"]),
                (&json!("failed"), &json!("INSUFFICIENT_STORAGE")),
                "{job}"
            );
        } else {
            assert_eq!(job["status"], "succeeded", "{job}");
        }
        let next = self.watched.create("tiny");
        assert_eq!(self.watched.ended(&next)["status"], "succeeded");
    }

    /// Runs `tiny` with the disk filled at a call of its turn.
    fn fills_in_a_run(&self, at: fn(&FileCall) -> bool, fails: bool) {
        let filled = fill_at(&self.watched.watch, self.disk, at);
        let run = self.watched.create("tiny");
        until_set(&filled);
        self.refuses();
        self.recovers(&run, fails);
    }
}

fn until_set(filled: &AtomicBool) {
    let limit = std::time::Instant::now() + LONG;
    while !filled.load(Ordering::Relaxed) {
        assert!(std::time::Instant::now() < limit, "the call never came");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

#[test]
fn a_disk_that_is_full_at_any_moment_ends_what_needs_room_and_the_service_goes_on_when_there_is_some() {
    let folder = tempfile::tempdir().unwrap();
    let Some(disk) = Disk::make(folder.path(), DISK_BYTES) else { return };
    let place = Place::inside(&disk.mount_point);
    let input = json!({"type": "object", "properties": {"doc": {"type": "string"}}, "required": ["doc"]});
    let reads = "cat >/dev/null\ncat uploads/doc >&2\necho '{\"success\":true,\"data\":{}}'\n";
    script_skill(&place.path().join("skills"), "reads", reads, json!({"input": input}));
    let settings = [("SKILL_RUNNER_SEAL_GRACE_SECONDS", "0")];
    let Some(watched) = Watched::serve(&place, &settings) else { return };
    let service = Service { watched, disk: &disk };
    let first = service.watched.create("tiny");
    assert_eq!(service.watched.ended(&first)["status"], "succeeded");

    // The raw log.
    service.fills_in_a_run(|call| call.deed == Deed::Write && call.path.ends_with("logs/stderr.txt"), true);
    // An append to the event store: room was set aside for it.
    service.fills_in_a_run(|call| call.deed == Deed::Write && call.path == DATABASE, true);
    // The result.
    service.fills_in_a_run(|call| call.deed == Deed::Create && call.path.contains("/result/"), true);
    // The sealed log: the run is over, and its events stay in the store until there is room.
    service.fills_in_a_run(|call| call.deed == Deed::Create && call.path.contains("/.events-"), false);

    // The copy of a skill that no run has used yet.
    place.skill("fresh", crate::cli::place::TINY);
    let filled = fill_at(&service.watched.watch, &disk, |call| call.path.contains("skill-copies/"));
    let body = json!({"skill_id": "fresh"});
    let refused = service.post("/v1/jobs", &body);
    until_set(&filled);
    assert_eq!(refused.refusal(), (507, "INSUFFICIENT_STORAGE".into()));
    make_room(&disk);
    service.watched.watch.let_pass();
    let run = service.post("/v1/jobs", &body).json()["run_id"].as_str().unwrap().to_owned();
    assert_eq!(service.watched.ended(&run)["status"], "succeeded");

    // An upload while it is received, and while it is unpacked.
    for at in
        [(|call| call.path.contains("tmp/upload-")) as fn(&FileCall) -> bool, |call| call.path.contains("/.unpacking-")]
    {
        let body = json!({"skill_id": "reads", "runtime_options": {"no_cache": true}});
        let run = service.post("/v1/jobs", &body).json()["run_id"].as_str().unwrap().to_owned();
        let filled = fill_at(&service.watched.watch, &disk, at);
        assert_eq!(service.upload(&run).refusal(), (507, "INSUFFICIENT_STORAGE".into()));
        until_set(&filled);
        assert_eq!(service.watched.get(&format!("/v1/jobs/{run}"))["awaiting_upload"], true);
        make_room(&disk);
        service.watched.watch.let_pass();
        assert_eq!(service.upload(&run).status, 200);
        assert_eq!(service.watched.ended(&run)["status"], "succeeded");
    }

    // A bundle, which is made when it is asked for.
    let filled = fill_at(&service.watched.watch, &disk, |call| call.path.contains("/bundles"));
    let bundle = || Call::new(service.watched.address, "GET", &format!("/v1/jobs/{first}/bundle")).send();
    assert_eq!(bundle().refusal(), (507, "INSUFFICIENT_STORAGE".into()));
    until_set(&filled);
    make_room(&disk);
    service.watched.watch.let_pass();
    assert_eq!(bundle().status, 200);

    // An installation.
    let filled = fill_at(&service.watched.watch, &disk, |call| call.path.contains("skills/.install-"));
    let install = || {
        let folder = tempfile::tempdir().unwrap();
        script_skill(folder.path(), "demo", "echo {}\n", json!({}));
        let zip = zip_folder(&folder.path().join("demo"));
        Call::new(service.watched.address, "POST", "/v1/skill-packages/install?wait=60").parts(&[("file", &zip)]).send()
    };
    let answer = install();
    until_set(&filled);
    let told = answer.json();
    // Refused, or taken and failed.
    assert_eq!(told["error"]["code"], "INSUFFICIENT_STORAGE", "{} {told}", answer.status);
    assert!(!place.path().join("skills/demo").exists());
    make_room(&disk);
    service.watched.watch.let_pass();
    let installed = install().json();
    assert_eq!(installed["status"], "succeeded", "{installed}");

    // Nothing acknowledged is gone, and every run is whole.
    let listed = service.watched.get("/v1/jobs?limit=100");
    let runs = listed["jobs"].as_array().unwrap().iter().map(|job| job["run_id"].as_str().unwrap().to_owned());
    let runs: Vec<String> = runs.collect();
    service.watched.running.signal(rustix::process::Signal::TERM);
    let Watched { running, watch, .. } = service.watched;
    assert_eq!(running.end().code, Some(0), "it is the same process all the time");
    drop(watch);
    for run in &runs {
        let audit = place.run(&["audit", run]);
        assert_eq!(audit.code, Some(0), "{audit:?}");
    }
}

#[test]
fn an_append_is_written_though_the_disk_is_filled_behind_its_back_and_the_next_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let Some(disk) = Disk::make(folder.path(), DISK_BYTES) else { return };
    let data = disk.mount_point.join("data");
    let opened = Watch::thread(&disk.mount_point, move || SledStore::open(&data, |error| panic!("{error:?}")).unwrap());
    let Some((store, watch)) = opened else { return };
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let run = contract::run(1);
    runtime.block_on(store.append(contract::events(run, Seq(0), 3))).unwrap();
    fill_at(&watch, &disk, |call| call.deed == Deed::Write && call.path == DATABASE);
    assert_eq!(runtime.block_on(store.append(contract::events(run, Seq(3), 300))).unwrap(), Seq(303));
    let refused = runtime.block_on(store.append(contract::events(run, Seq(303), 1)));
    assert!(matches!(refused, Err(Error::Full { .. })), "{refused:?}");
    runtime.block_on(store.delete_events(&contract::run(2))).unwrap();
    make_room(&disk);
    assert_eq!(runtime.block_on(store.append(contract::events(run, Seq(303), 1))).unwrap(), Seq(304));
    assert_eq!(runtime.block_on(contract::holds_whole_log(&store, run)).unwrap(), Seq(304));
    drop(store);
}
