//! Three services under load, and one fault after the other: services are killed and paused, their connections are cut and stalled,
//! the database crashes, data folders and the shared folder are gone.
//!
//! `SEVERAL_FAULTS=200 cargo test --locked --test it several::chaos -- --nocapture` tries more of them.

mod follow;
mod judge;
mod load;
mod strike;

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::json;

use super::Services;
use crate::interactive::pose::{self, Pose, done, says};
use crate::support::client::Call;
use crate::support::postgres::{self, Proxy, Server as Postgres, When};
use crate::support::random::Random;

const NODES: usize = 3;
const CLIENTS: usize = 2;
const FOLLOWERS: usize = 6;
/// How long a client waits for one service before it asks another one.
const PATIENCE: Duration = Duration::from_secs(4);
const SCHEMA: &str = "chaos";

/// What a run is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    /// Works for a moment, and leaves a file.
    Short,
    /// Created with a key, more than once.
    Keyed,
    /// Shares its result with three others.
    Equal,
    /// Works until it is canceled.
    Endless,
    /// Waits for a file.
    Copy,
    /// Asks, and is answered.
    Ask,
    /// Asks, and is answered when all is over.
    AskLate,
}

/// What clients were told of a run.
struct Told {
    kind: Kind,
    /// A cancel of it was accepted.
    canceled: bool,
    /// Its file was taken.
    uploaded: bool,
    /// An answer to its question was taken.
    answered: bool,
    /// The events that its follower got, one after the other.
    seen: Vec<Vec<u8>>,
    /// Its follower was told that nothing follows.
    ended: bool,
}

/// The services, what they stand on, and what everybody knows.
struct World {
    services: Services,
    database: Postgres,
    proxies: Vec<Proxy>,
    addresses: Mutex<Vec<SocketAddr>>,
    pose: Pose,
    /// Scripts write their run's id here when they begin.
    begun: PathBuf,
    runs: Mutex<BTreeMap<String, Told>>,
    to_follow: Mutex<VecDeque<String>>,
    created: AtomicUsize,
    hops: AtomicUsize,
    /// There is no more load.
    over: AtomicBool,
    /// Followers may stop.
    followed: AtomicBool,
    wrong: Mutex<Vec<String>>,
}

fn name(at: usize) -> String {
    format!("n{at}")
}

impl World {
    fn new() -> World {
        let database = Postgres::start(&[]);
        let mut services = Services::on(database.url(SCHEMA));
        let proxies: Vec<Proxy> = (0..NODES).map(|_| Proxy::to(database.address(), |_| When::Pass)).collect();
        for (at, proxy) in proxies.iter().enumerate() {
            services.set(&name(at), "SKILL_RUNNER_STORE", database.url_at(proxy.address, SCHEMA));
        }
        let pose = Pose::new();
        pose.plays(&[says("What is your name?"), done()]);
        let begun = pose.folder().join("begun");
        services.set("", "SKILL_RUNNER_CODEX_BIN", pose.command());
        services.set("", "SKILL_RUNNER_SANDBOX_WRITE", pose.folder());
        services.set("", "SKILL_RUNNER_MIN_FREE_BYTES", "0");
        services.set("", "SKILL_RUNNER_MAX_RUNNING_JOBS", "4");
        services.set("", "LOG_LEVEL", "error");
        load::skills(&services, &begun);
        pose::skill(&services.skills(), "ask", None);
        World {
            services,
            database,
            proxies,
            addresses: Mutex::default(),
            pose,
            begun,
            runs: Mutex::default(),
            to_follow: Mutex::default(),
            created: AtomicUsize::new(0),
            hops: AtomicUsize::new(0),
            over: AtomicBool::new(false),
            followed: AtomicBool::new(false),
            wrong: Mutex::default(),
        }
    }

    fn address(&self, at: usize) -> SocketAddr {
        self.addresses.lock().unwrap()[at]
    }

    /// A request to one of the services, which may not answer.
    fn call(&self, at: usize, method: &str, path: &str) -> Call {
        Call::new(self.address(at), method, path).within(PATIENCE)
    }

    fn wrong(&self, what: String) {
        eprintln!("WRONG: {what}");
        self.wrong.lock().unwrap().push(what);
    }

    /// Changes what is known of a run.
    fn told(&self, run: &str, change: impl FnOnce(&mut Told)) {
        if let Some(told) = self.runs.lock().unwrap().get_mut(run) {
            change(told);
        }
    }

    /// A run was acknowledged.
    fn acknowledged(&self, run: &str, kind: Kind) {
        let new = Told { kind, canceled: false, uploaded: false, answered: false, seen: Vec::new(), ended: false };
        if self.runs.lock().unwrap().insert(run.to_owned(), new).is_none() {
            self.created.fetch_add(1, Ordering::Relaxed);
            self.to_follow.lock().unwrap().push_back(run.to_owned());
        }
    }

    /// Answers the run's question through one of the services.
    fn answer(&self, at: usize, run: &str) -> bool {
        let body = json!({"interaction_id": 1, "response": "Ann"});
        let answer = self.call(at, "POST", &format!("/v1/jobs/{run}/interaction/reply")).json(&body).try_send();
        let taken = answer.is_some_and(|answer| answer.status == 200);
        if taken {
            self.told(run, |told| told.answered = true);
        }
        taken
    }
}

#[test]
fn whatever_dies_stops_or_is_cut_off_no_run_is_lost_doubled_or_left_behind() {
    if !postgres::installed("three services under load survive faults") {
        return;
    }
    let asked = std::env::var("SEVERAL_FAULTS").ok().map(|count| count.parse::<usize>().expect("a number of faults"));
    let world = World::new();
    let mut dice = Random::seeded();
    let struck = std::thread::scope(|scope| {
        let mut nodes: Vec<_> = (0..NODES).map(|at| world.services.serve(&name(at))).collect();
        *world.addresses.lock().unwrap() = nodes.iter().map(|node| node.address()).collect();
        for client in 0..CLIENTS {
            let (world, seed) = (&world, dice.below(u64::MAX));
            scope.spawn(move || load::client(world, client, Random::of(seed)));
        }
        for _ in 0..FOLLOWERS {
            let (world, seed) = (&world, dice.below(u64::MAX));
            scope.spawn(move || follow::follower(world, Random::of(seed)));
        }
        // Whatever goes wrong here, the others must end, or the test never would.
        let struck = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let struck = strike::all(&world, &mut nodes, &mut dice, asked);
            world.over.store(true, Ordering::Relaxed);
            judge::complete(&world);
            struck
        }));
        world.over.store(true, Ordering::Relaxed);
        world.followed.store(true, Ordering::Relaxed);
        let struck = struck.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        judge::judge(&world);
        struck
    });
    struck.print();
    let wrong = world.wrong.lock().unwrap();
    assert!(wrong.is_empty(), "{} things are wrong:\n{}", wrong.len(), wrong.join("\n"));
    struck.settled_in_time();
}
