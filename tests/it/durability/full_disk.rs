//! The disk is filled to its last byte at the moment of one call, and the floor of free space is switched off.

use std::sync::mpsc::{Receiver, channel};

use serde_json::{Value, json};
use skill_runner::domain::ids::Seq;
use skill_runner::store::{Append, Error, EventStore, IndexChange, IndexKey, SledStore, contract};

use super::{DATABASE, Watched};
use crate::cli::place::Place;
use crate::store::LITTLE;
use crate::support::disk::Disk;
use crate::support::file_calls::{Deed, FileCall, Judgement, Watch};
use crate::support::random::Random;
use crate::support::zips::{deflated, zip_folder};
use crate::support::{Answer, Call, LONG, script_skill};

const DISK_BYTES: u64 = 160 << 20;

/// Leaves so much in each place that no block that a full disk may still have is enough: output, artifact and result.
const NOISY: &str = "cat >/dev/null\nnoise=$(head -c 200000 /dev/urandom | base64 -w0)\necho \"$noise\" >&2\n\
    head -c 200000 /dev/urandom > artifacts/noise.bin\n\
    printf '{\"success\":true,\"data\":{\"noise\":\"%s\"}}\\n' \"$noise\"\n";

/// As much, and not to be compressed.
fn noise() -> Vec<u8> {
    let mut random = Random::seeded();
    (0..200_000).map(|_| random.below(256) as u8).collect()
}

/// Fills the disk when a call comes for which `at` holds, before it is made, and keeps it full.
fn fill_at(watch: &Watch, disk: &Disk, mut at: impl FnMut(&FileCall) -> bool + Send + 'static) -> Receiver<()> {
    let (told, filled) = channel();
    let mount_point = disk.mount_point.clone();
    let mut full = false;
    watch.judge(move |call| {
        if full || at(call) {
            Disk::fill(&mount_point);
            if !full {
                full = true;
                // Nobody may wait for it any more.
                let _ = told.send(());
            }
        }
        Judgement::Pass
    });
    filled
}

fn make_room(watch: &Watch, disk: &Disk) {
    watch.let_pass();
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
        let zip = deflated(&[("doc", noise().as_slice())]);
        Call::new(self.watched.address, "POST", &format!("/v1/jobs/{run}/upload")).parts(&[("file", &zip)]).send()
    }

    /// Nothing new is taken, with the cause, and what is there can be read.
    fn refuses(&self) {
        let refused = self.post("/v1/jobs", &json!({"skill_id": "tiny", "runtime_options": {"no_cache": true}}));
        assert_eq!(refused.refusal(), (507, "INSUFFICIENT_STORAGE".into()));
        assert_eq!(self.watched.get("/healthz"), json!({"status": "ok"}));
        assert!(!self.watched.get("/v1/jobs")["jobs"].as_array().unwrap().is_empty());
    }

    /// Whether the service has an engine: each is below a process of this name.
    fn has_engines(&self) -> bool {
        let parent = self.watched.running.pid().as_raw_nonzero().get();
        let processes = std::fs::read_dir("/proc").unwrap().flatten();
        let mut stats = processes.filter_map(|entry| std::fs::read_to_string(entry.path().join("stat")).ok());
        // `pid (name) state parent …`
        stats.any(|stat| stat.contains("(skill-run-shim)") && of_parent(&stat, parent))
    }

    /// There is room again: the run ends as it must, and the next one is like any other.
    fn recovers(&self, run: &str, fails: bool) {
        make_room(&self.watched.watch, self.disk);
        let job = self.watched.ended(run);
        if fails {
            assert_eq!(
                (&job["status"], &job["error"]["code"]),
                (&json!("failed"), &json!("INSUFFICIENT_STORAGE")),
                "{job}"
            );
            let mounted = self.disk.mount_point.canonicalize().unwrap();
            assert_eq!(job["error"]["details"]["file_system"], json!(mounted), "{job}");
            let told = format!("the file system at {}", mounted.display());
            assert!(job["error"]["message"].as_str().unwrap().contains(&told), "{job}");
        } else {
            assert_eq!(job["status"], "succeeded", "{job}");
        }
        let next = self.watched.create("tiny");
        assert_eq!(self.watched.ended(&next)["status"], "succeeded");
    }

    /// The runs there are, by their ids in order.
    fn listed(&self) -> Vec<String> {
        let listed = self.watched.get("/v1/jobs?limit=100");
        let mut runs: Vec<String> =
            listed["jobs"].as_array().unwrap().iter().map(|job| job["run_id"].as_str().unwrap().to_owned()).collect();
        runs.sort();
        runs
    }

    /// Runs `noisy` with the disk filled at a call of its turn, or behind it; the run.
    fn fills_in_a_run(&self, at: fn(&FileCall) -> bool, fails: bool) -> String {
        // Runs before it may still be sealed, and so leave the store.
        let mut folder = None;
        let filled = fill_at(&self.watched.watch, self.disk, move |call| {
            if call.deed == Deed::Create && folder.is_none() {
                folder = call.path.strip_suffix("logs/stderr.txt").map(str::to_owned);
            }
            let own = |folder: &String| is_database(call) || call.path.starts_with(folder);
            folder.as_ref().is_some_and(own) && at(call)
        });
        let run = self.watched.create("noisy");
        until_filled(&filled);
        self.refuses();
        // A slow engine may not have written yet: it is to meet the full disk.
        until(|| !self.has_engines());
        self.recovers(&run, fails);
        run
    }
}

fn of_parent(stat: &str, parent: i32) -> bool {
    let behind = stat.rsplit_once(") ").map(|(_, rest)| rest).unwrap_or_default();
    behind.split(' ').nth(1).and_then(|word| word.parse().ok()) == Some(parent)
}

/// Whether it is a generation of the store. When nothing happens for a second, a new one may begin.
fn is_database(call: &FileCall) -> bool {
    call.path.starts_with("data/store/generation-") && call.path.ends_with("/db")
}

fn until_filled(filled: &Receiver<()>) {
    filled.recv_timeout(LONG).expect("the call at which the disk is filled");
}

fn until(mut so: impl FnMut() -> bool) {
    let limit = std::time::Instant::now() + LONG;
    while !so() {
        assert!(std::time::Instant::now() < limit, "it never came to that");
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
    place.skill("noisy", NOISY);
    let Some(watched) = Watched::serve(&place, &settings) else { return };
    let service = Service { watched, disk: &disk };
    let first = service.watched.create("noisy");
    assert_eq!(service.watched.ended(&first)["status"], "succeeded");

    // The raw log.
    service.fills_in_a_run(|call| call.deed == Deed::Write && call.path.ends_with("logs/stderr.txt"), true);
    // An append to the event store: room was set aside for it.
    service.fills_in_a_run(|call| call.deed == Deed::Write && is_database(call), true);
    // The result.
    service.fills_in_a_run(|call| call.deed == Deed::Create && call.path.contains("/result/"), true);
    // The sealed log: the run is over, its events stay in the store until there is room, and then it is sealed.
    let run = service.fills_in_a_run(|call| call.deed == Deed::Create && call.path.contains("/.events-"), false);
    until(|| place.run_folder(&run).join("logs/events.jsonl").exists());

    // The copy of a skill that no run has used yet.
    std::fs::write(place.skill("fresh", crate::cli::place::TINY).join("noise"), noise()).unwrap();
    let filled = fill_at(&service.watched.watch, &disk, |call| call.path.contains("skill-copies/"));
    let body = json!({"skill_id": "fresh"});
    let refused = service.post("/v1/jobs", &body);
    until_filled(&filled);
    assert_eq!(refused.refusal(), (507, "INSUFFICIENT_STORAGE".into()));
    assert_eq!(place.folders("data/runs"), service.listed(), "nothing is left of what was refused");
    make_room(&service.watched.watch, &disk);
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
        until_filled(&filled);
        assert_eq!(service.watched.get(&format!("/v1/jobs/{run}"))["awaiting_upload"], true);
        make_room(&service.watched.watch, &disk);
        assert_eq!(service.upload(&run).status, 200);
        assert_eq!(service.watched.ended(&run)["status"], "succeeded");
    }

    // A bundle, which is made when it is asked for.
    let filled = fill_at(&service.watched.watch, &disk, |call| call.path.contains("/bundle"));
    let bundle = || Call::new(service.watched.address, "GET", &format!("/v1/jobs/{first}/bundle")).send();
    assert_eq!(bundle().refusal(), (507, "INSUFFICIENT_STORAGE".into()));
    until_filled(&filled);
    make_room(&service.watched.watch, &disk);
    assert_eq!(bundle().status, 200);

    // An installation.
    let filled = fill_at(&service.watched.watch, &disk, |call| call.path.contains("skills/.install-"));
    let install = || {
        let folder = tempfile::tempdir().unwrap();
        script_skill(folder.path(), "demo", "echo {}\n", json!({}));
        std::fs::write(folder.path().join("demo/noise"), noise()).unwrap();
        let zip = zip_folder(&folder.path().join("demo"));
        Call::new(service.watched.address, "POST", "/v1/skill-packages/install?wait=60").parts(&[("file", &zip)]).send()
    };
    let answer = install();
    until_filled(&filled);
    let told = answer.json();
    // Refused, or taken and failed.
    assert_eq!(told["error"]["code"], "INSUFFICIENT_STORAGE", "{} {told}", answer.status);
    assert!(!place.path().join("skills/demo").exists());
    make_room(&service.watched.watch, &disk);
    let installed = install().json();
    assert_eq!(installed["status"], "succeeded", "{installed}");

    // Nothing acknowledged is gone: the first run, two for each of four fills, one of the fresh skill, two with uploads.
    assert_eq!(service.listed().len(), 1 + 2 * 4 + 1 + 2);

    // A clean-up works where nothing else does, and makes room.
    Disk::fill(&disk.mount_point);
    service.refuses();
    let cleaned = service.post("/v1/jobs/cleanup", &json!({"keep_last": 8}));
    assert_eq!(cleaned.status, 200, "{}", cleaned.text());
    assert!(cleaned.json()["runs_deleted"].as_u64().unwrap() > 0, "{}", cleaned.text());
    until(|| place.folders("data/runs") == service.listed());
    make_room(&service.watched.watch, &disk);

    // Every run is whole.
    let runs = service.listed();
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
    let name = "full_disk::an_append_is_written_though_the_disk_is_filled_behind_its_back_and_the_next_is_refused";
    if !super::is_alone(name) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let Some(disk) = Disk::make(folder.path(), DISK_BYTES) else { return };
    let data = disk.mount_point.join("data");
    let opened = Watch::thread(&disk.mount_point, move || SledStore::open(&data, |error| panic!("{error:?}")).unwrap());
    let Some((store, watch)) = opened else { return };
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let run = contract::run(1);
    runtime.block_on(store.append(contract::events(run, Seq(0), 3))).unwrap();
    let filled = fill_at(&watch, &disk, |call| call.deed == Deed::Write && call.path == DATABASE);
    assert_eq!(runtime.block_on(store.append(contract::events(run, Seq(3), 300))).unwrap(), Seq(303));
    until_filled(&filled);
    let refused = runtime.block_on(store.append(contract::events(run, Seq(303), 1)));
    assert!(matches!(refused, Err(Error::Full { .. })), "{refused:?}");
    runtime.block_on(store.delete_events(&contract::run(2))).unwrap();
    make_room(&watch, &disk);
    assert_eq!(runtime.block_on(store.append(contract::events(run, Seq(303), 1))).unwrap(), Seq(304));
    assert_eq!(runtime.block_on(contract::holds_whole_log(&store, run)).unwrap(), Seq(304));
    drop(store);
}

#[test]
fn a_disk_that_is_filled_while_the_store_gets_smaller_ends_nothing_and_later_it_gets_smaller() {
    let name = "full_disk::a_disk_that_is_filled_while_the_store_gets_smaller_ends_nothing_and_later_it_gets_smaller";
    if !super::is_alone(name) {
        return;
    }
    let moments: [fn(&FileCall) -> bool; 3] = [
        // Rows are moved to the index.
        |call| call.deed == Deed::Write && call.path == "data/store/index-1/db",
        // The next generation is made.
        |call| call.deed == Deed::Create && call.path.starts_with("data/store/generation-2"),
        // The index is written anew.
        |call| call.deed == Deed::Write && call.path.starts_with("data/store/index-2.new"),
    ];
    for at in moments {
        let folder = tempfile::tempdir().unwrap();
        let Some(disk) = Disk::make(folder.path(), DISK_BYTES) else { return };
        let data = disk.mount_point.join("data");
        let open = move || SledStore::open_with(&data, LITTLE, |error| panic!("{error:?}")).unwrap();
        let Some((store, watch)) = Watch::thread(&disk.mount_point, open) else { return };
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let row = IndexKey::Run;
        // A run comes with its row, and an older one goes with its own.
        let mut last = 1;
        let mut come_and_go = || {
            last += 1;
            let run = contract::run(last);
            let index = vec![IndexChange::Put(row(run), vec![b'r'; 30_000].into())];
            runtime.block_on(store.append(Append { index, ..contract::events(run, Seq(0), 20) }))?;
            let gone = contract::run(last.saturating_sub(6).max(2));
            runtime.block_on(store.delete_run(&gone, vec![row(gone)]))
        };
        let kept = contract::run(1);
        runtime.block_on(store.append(contract::events(kept, Seq(0), 3))).unwrap();
        let filled = fill_at(&watch, &disk, at);
        let refused = loop {
            if let Err(error) = come_and_go() {
                break error;
            }
        };
        assert!(matches!(refused, Error::Full { .. }), "{refused:?}");
        until_filled(&filled);
        make_room(&watch, &disk);
        let oldest = disk.mount_point.join("data/store/generation-1");
        until(|| match come_and_go() {
            Ok(()) => !oldest.exists(),
            // The disk was being filled once more at that moment.
            Err(Error::Full { .. }) => false,
            Err(error) => panic!("{error:?}"),
        });
        assert_eq!(runtime.block_on(contract::holds_whole_log(&store, kept)).unwrap(), Seq(3));
        assert_eq!(store.trouble(), None);
        drop(store);
    }
}
