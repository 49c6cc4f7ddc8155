//! On disk before it is visible: in which order the service changes files, and what readers see meanwhile.

mod faults;
mod full_disk;
mod generations;
mod leftovers;
mod lost_rows;
mod order;
mod power;
mod visible;

use std::net::SocketAddr;

use serde_json::{Value, json};

use crate::cli::place::{Place, Running};
use crate::support::file_calls::{Deed, FileCall, Watch};
use crate::support::{Call, LONG, Sse};

/// Where the store's one generation is.
const DATABASE: &str = "data/store/generation-1/db";

/// A service whose calls on files are watched; `None` where they cannot be.
pub struct Watched {
    pub watch: Watch,
    pub running: Running,
    pub address: SocketAddr,
}

impl Watched {
    pub fn serve(place: &Place, settings: &[(&str, &str)]) -> Option<Watched> {
        let mut command = place.command(&["serve", "--port", "0"]);
        command.env("SKILL_RUNNER_MIN_FREE_BYTES", "0").env("SKILL_RUNNER_MAX_RUNNING_JOBS", "2");
        command.envs(settings.iter().copied());
        let (watch, child) = Watch::spawn(place.path(), &mut command)?;
        let (running, line) = Place::attached(child, "listening on ");
        let address = line.strip_prefix("listening on http://").unwrap().parse().unwrap();
        Some(Watched { watch, running, address })
    }

    pub fn get(&self, path: &str) -> Value {
        let answer = Call::new(self.address, "GET", path).send();
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.json()
    }

    /// Creates a run that is never taken from an equal one; its run id.
    pub fn create(&self, skill: &str) -> String {
        let body = json!({"skill_id": skill, "runtime_options": {"no_cache": true}});
        let answer = Call::new(self.address, "POST", "/v1/jobs").json(&body).send();
        assert_eq!(answer.status, 201, "{}", answer.text());
        answer.json()["run_id"].as_str().unwrap().to_owned()
    }

    /// Waits until the run is over; the job.
    pub fn ended(&self, run: &str) -> Value {
        Sse::open(self.address, &format!("/v1/jobs/{run}/events"), &[]).until_end();
        self.get(&format!("/v1/jobs/{run}"))
    }
}

/// Set in a process that runs one test alone.
const ALONE: &str = "SKILL_RUNNER_TEST_ALONE";

/// Whether this process runs this test alone; if not, it has passed in a process of its own. sled's threads are shared by a
/// whole process: those that another test started are not watched.
pub fn is_alone(name: &str) -> bool {
    let alone = std::env::var_os(ALONE).is_some();
    if !alone {
        let mut test = std::process::Command::new(std::env::current_exe().unwrap());
        test.args([&format!("durability::{name}"), "--exact", "--nocapture"]).env(ALONE, "1");
        assert!(test.status().unwrap().success());
    }
    alone
}

/// Waits until a run is over; the job. None if the service ends before.
pub fn ended(address: SocketAddr, run: &str) -> Option<Value> {
    comes_to(address, run, &["succeeded", "failed", "canceled"])
}

/// Waits until a run has one of these states; the job. None if the service ends before.
pub fn comes_to(address: SocketAddr, run: &str, states: &[&str]) -> Option<Value> {
    let limit = std::time::Instant::now() + LONG;
    loop {
        let job = Call::new(address, "GET", &format!("/v1/jobs/{run}")).try_send()?.json();
        if states.contains(&job["status"].as_str().unwrap()) {
            return Some(job);
        }
        assert!(std::time::Instant::now() < limit, "{job}");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}

/// Collects calls until some of them are as wanted.
pub fn until(watch: &Watch, mut enough: impl FnMut(&[FileCall]) -> bool) -> Vec<FileCall> {
    let limit = std::time::Instant::now() + LONG;
    let mut calls = watch.take();
    while !enough(&calls) {
        assert!(std::time::Instant::now() < limit, "in vain: {calls:#?}");
        calls.extend(watch.take_some());
    }
    calls
}

/// Where the first such call is, at or after `from`.
pub fn first(calls: &[FileCall], from: usize, wanted: impl Fn(&FileCall) -> bool) -> usize {
    let found = calls.iter().skip(from).position(wanted);
    from + found.unwrap_or_else(|| panic!("no such call from {from} on in {calls:#?}"))
}

pub fn writes_database(call: &FileCall) -> bool {
    call.deed == Deed::Write && call.path == DATABASE
}

/// What these calls have changed below a folder or in a file and not made durable: content and names.
pub fn not_durable(calls: &[FileCall], below: &str) -> Vec<(&'static str, String)> {
    let mut dirty: Vec<(&'static str, String)> = Vec::new();
    let is_in = |path: &str, folder: &str| {
        path == folder || path.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'))
    };
    let parent = |path: &str| path.rsplit_once('/').map_or("", |(parent, _)| parent).to_owned();
    for call in calls {
        let path = call.path.as_str();
        match (call.deed, call.to.as_deref()) {
            (Deed::Create, _) => dirty.extend([("content", path.to_owned()), ("name", path.to_owned())]),
            (Deed::Write | Deed::Share | Deed::Cut, _) => dirty.push(("content", path.to_owned())),
            (Deed::Folder, _) => dirty.push(("name", path.to_owned())),
            (Deed::Remove, _) => dirty.retain(|(_, changed)| !is_in(changed, path)),
            (Deed::Rename | Deed::Exchange, Some(to)) => {
                let exchanged = call.deed == Deed::Exchange;
                for (_, changed) in &mut dirty {
                    if is_in(changed, path) {
                        *changed = format!("{to}{}", &changed[path.len()..]);
                    } else if exchanged && is_in(changed, to) {
                        *changed = format!("{path}{}", &changed[to.len()..]);
                    }
                }
                dirty.push(("name", to.to_owned()));
            }
            (Deed::Link, to) => dirty.push(("name", to.unwrap_or(path).to_owned())),
            (Deed::Sync, _) => dirty.retain(|(what, changed)| match *what {
                "content" => changed != path,
                _ => parent(changed) != path,
            }),
            (Deed::SyncFileSystem, _) => dirty.clear(),
            (Deed::Rename | Deed::Exchange, None) => {}
        }
    }
    dirty.retain(|(_, changed)| is_in(changed, below));
    dirty.sort();
    dirty.dedup();
    dirty
}

#[test]
fn what_is_not_durable_is_found_in_a_list_of_calls() {
    let call = |deed, path: &str, to: Option<&str>| FileCall { deed, path: path.into(), to: to.map(str::to_owned) };
    let whole = [
        call(Deed::Create, "a/.new", None),
        call(Deed::Write, "a/.new", None),
        call(Deed::Sync, "a/.new", None),
        call(Deed::Rename, "a/.new", Some("a/file")),
        call(Deed::Sync, "a", None),
    ];
    assert_eq!(not_durable(&whole, "a"), []);
    assert_eq!(not_durable(&whole[..4], "a"), [("name", "a/file".to_owned())]);
    let content = [&whole[..2], &whole[3..]].concat();
    assert_eq!(not_durable(&content, "a/file"), [("content", "a/file".to_owned())]);
    assert_eq!(not_durable(&content, "b"), []);
    let synced = [&content[..3], &[call(Deed::SyncFileSystem, "", None)]].concat();
    assert_eq!(not_durable(&synced, "a"), []);
    let exchanged = [call(Deed::Write, "new/x", None), call(Deed::Exchange, "new", Some("old"))];
    assert_eq!(not_durable(&exchanged, "old"), [("content", "old/x".to_owned()), ("name", "old".to_owned())]);
}
