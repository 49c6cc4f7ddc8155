//! Skills that services share: installed on one, there on all.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Signal, kill_process};
use serde_json::{Value, json};
use skill_runner::registry::load_dir;
use skill_runner::skill::Intake;

use super::{Service, Services};
use crate::support::client::{Answer, Call};
use crate::support::postgres::{Proxy, When};
use crate::support::random::Random;
use crate::support::skill::HELLO;
use crate::support::zips::zip_folder;
use crate::support::{postgres, script_skill};

/// Enough files for a kill to find one in the making.
const FILES: usize = 20;

/// The zip of a package whose every file knows its version, and whose run says it.
fn package(version: &str) -> Vec<u8> {
    let place = tempfile::tempdir().unwrap();
    let sh = format!("cat >/dev/null\necho '{{\"success\":true,\"data\":{{\"version\":\"{version}\"}}}}'\n");
    script_skill(place.path(), "demo", &sh, json!({"runner": {"version": version}}));
    for number in 0..FILES {
        let file = place.path().join(format!("demo/references/part-{number}/{number}.md"));
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, version).unwrap();
    }
    zip_folder(&place.path().join("demo"))
}

fn send(service: &Service, version: &str) -> Answer {
    let path = "/v1/skill-packages/install?wait=60";
    Call::new(service.address(), "POST", path).parts(&[("file", &package(version))]).send()
}

#[track_caller]
fn install(service: &Service, version: &str) {
    let answer = send(service, version).json();
    assert_eq!((&answer["status"], &answer["version"]), (&json!("succeeded"), &json!(version)), "{answer}");
}

/// The version that a run gets that is created now.
#[track_caller]
fn runs(service: &Service) -> Value {
    let body = json!({"skill_id": "demo", "runtime_options": {"no_cache": true}});
    let answer = service.post("/v1/jobs?wait=60", &body).json();
    assert_eq!(answer["status"], "succeeded", "{answer}");
    answer["result"]["data"]["version"].clone()
}

fn shown(service: &Service) -> Value {
    service.get("/v1/skills/demo").json()["version"].clone()
}

/// The versions of the skill with whether they are in place, without fingerprints.
fn versions(service: &Service) -> Value {
    let answer = service.get("/v1/skills/demo/versions").json();
    let told = |kept: &Value| json!([kept["version"], kept["current"], kept["since"]]);
    answer["versions"].as_array().map_or(answer.clone(), |all| all.iter().map(told).collect())
}

fn rollback(service: &Service, version: &str) -> Answer {
    service.post("/v1/skills/demo/rollback", &json!({"version": version}))
}

fn uninstall(service: &Service) -> Answer {
    Call::new(service.address(), "DELETE", "/v1/skills/demo").send()
}

/// A service with a skills folder of its own.
fn own_skills(services: &Services, name: &str) -> Service {
    services.start(name, &["serve", "--port", "0", "--skills-dir", skills_of(services, name).to_str().unwrap()])
}

fn skills_of(services: &Services, name: &str) -> PathBuf {
    services.data(&format!("{name}-skills"))
}

/// The version in place, if its every file is of that version.
#[track_caller]
fn whole(skills: &Path) -> Option<String> {
    let dir = skills.join("demo");
    if !dir.exists() {
        return None;
    }
    let found = load_dir(&dir, Intake::New).unwrap_or_else(|findings| panic!("{}: {findings:?}", dir.display()));
    let version = found.skill.version.to_string();
    for number in 0..FILES {
        let text = fs::read_to_string(dir.join(format!("references/part-{number}/{number}.md"))).unwrap();
        assert_eq!(text, version, "{}", dir.display());
    }
    Some(version)
}

#[test]
fn a_package_is_installed_at_once_also_if_its_file_was_removed_just_before() {
    if !postgres::installed("a package is installed at once also if its file was removed just before") {
        return;
    }
    let database = postgres::shared();
    let known = Services::new();
    install(&known.serve("one"), "1.0.0");
    let file = database.sql(&format!("select encode(sha256, 'hex') from {}.record_files", known.schema));
    // On another store the same content was removed, a moment ago.
    let services = Services::new();
    let one = services.serve("one");
    database.sql(&format!(
        "insert into {0}.file_removals values (decode('{file}', 'hex'), gen_random_uuid(), clock_timestamp(), 1); \
         update {0}.file_clean_up set removals = 1",
        services.schema
    ));
    install(&one, "1.0.0");
    assert_eq!(runs(&one), "1.0.0");
}

#[test]
fn a_skill_that_is_changed_on_one_service_is_changed_on_all_at_once() {
    if !postgres::installed("a skill that is changed on one service is changed on all") {
        return;
    }
    let services = Services::new();
    let (one, two) = (own_skills(&services, "one"), own_skills(&services, "two"));
    assert_eq!(two.get("/v1/skills/demo").status, 404);
    install(&one, "1.0.0");
    assert_eq!((runs(&two), shown(&one)), (json!("1.0.0"), json!("1.0.0")));
    install(&two, "1.1.0");
    assert_eq!((runs(&one), runs(&two)), (json!("1.1.0"), json!("1.1.0")));
    // Both know the same versions, also one that never had the older one in place.
    let three = own_skills(&services, "three");
    let known = versions(&one);
    assert_eq!((versions(&two), versions(&three)), (known.clone(), known.clone()));
    assert_eq!(
        known.as_array().unwrap().iter().map(|kept| kept[0].clone()).collect::<Value>(),
        json!(["1.1.0", "1.0.0"])
    );
    let changes = three.get("/v1/management/skills/demo/changes?from=1.0.0").json();
    assert_eq!(changes["changes"].as_array().map(Vec::len), Some(FILES + 2), "{changes}");
    let refused = send(&one, "1.1.0");
    assert_eq!(refused.refusal(), (409, "VERSION_NOT_NEWER".into()));
    let back = rollback(&three, "1.0.0");
    assert_eq!((back.status, &back.json()["action"]), (200, &json!("rollback")), "{}", back.text());
    assert_eq!((runs(&one), runs(&two), runs(&three)), (json!("1.0.0"), json!("1.0.0"), json!("1.0.0")));
    assert_eq!(rollback(&two, "1.0.0").refusal(), (409, "SKILL_VERSION_IN_PLACE".into()));
    assert_eq!(rollback(&two, "3.0.0").refusal(), (404, "SKILL_VERSION_NOT_FOUND".into()));
    // Whoever sent a package may ask any service about it.
    let done = back.json()["request_id"].as_str().unwrap().to_owned();
    assert_eq!(two.get(&format!("/v1/skill-packages/{done}")).json(), back.json());
    assert_eq!(uninstall(&two).status, 200);
    for service in [&one, &two, &three] {
        assert_eq!(service.get("/v1/skills/demo").status, 404);
        assert_eq!(service.post("/v1/jobs", &json!({"skill_id": "demo"})).refusal(), (404, "SKILL_NOT_FOUND".into()));
    }
    assert_eq!(uninstall(&one).refusal().0, 404);
    assert_eq!(rollback(&one, "1.1.0").status, 200);
    assert_eq!((runs(&two), runs(&three)), (json!("1.1.0"), json!("1.1.0")));
}

#[test]
fn of_packages_sent_to_two_services_at_once_the_newest_is_in_place_and_nothing_is_lost() {
    if !postgres::installed("of packages sent to two services at once the newest is in place") {
        return;
    }
    let services = Services::new();
    let both = [own_skills(&services, "one"), own_skills(&services, "two")];
    for round in 1..=3 {
        let sent: Vec<(String, Value)> = std::thread::scope(|scope| {
            let sending = [0, 1].map(|at| {
                let (service, version) = (&both[at], format!("1.{round}.{at}"));
                scope.spawn(move || (version.clone(), send(service, &version).json()))
            });
            sending.into_iter().map(|sent| sent.join().unwrap()).collect()
        });
        let newest = format!("1.{round}.1");
        for (version, answer) in &sent {
            match answer["status"].as_str().unwrap() {
                "succeeded" => {}
                "failed" => {
                    assert_eq!(answer["error"]["code"], "VERSION_NOT_NEWER", "{answer}");
                    assert_ne!(*version, newest, "{answer}");
                }
                other => panic!("{other}: {answer}"),
            }
        }
        assert_eq!([shown(&both[0]), shown(&both[1])], [json!(newest), json!(newest)]);
        let archived: BTreeSet<String> =
            versions(&both[0]).as_array().unwrap().iter().map(|kept| kept[0].as_str().unwrap().to_owned()).collect();
        for (version, _) in sent.iter().filter(|(_, answer)| answer["status"] == "succeeded") {
            assert!(archived.contains(version), "{version} is not among {archived:?}");
        }
        assert_eq!(versions(&both[0]), versions(&both[1]));
    }
}

#[test]
fn a_service_that_was_away_or_lost_its_disk_catches_up_before_it_answers() {
    if !postgres::installed("a service that was away or lost its disk has the skills of all") {
        return;
    }
    let services = Services::new();
    let (one, mut two) = (own_skills(&services, "one"), own_skills(&services, "two"));
    install(&two, "1.0.0");
    two.kill_9();
    install(&one, "1.1.0");
    let mut two = own_skills(&services, "two");
    assert_eq!(whole(&skills_of(&services, "two")).as_deref(), Some("1.1.0"), "before anybody asked");
    assert_eq!(runs(&two), "1.1.0");
    two.kill_9();
    assert_eq!(uninstall(&one).status, 200);
    let mut two = own_skills(&services, "two");
    assert_eq!(two.get("/v1/skills/demo").status, 404);
    two.kill_9();
    assert_eq!(rollback(&one, "1.0.0").status, 200);
    for folder in [services.data("two"), skills_of(&services, "two")] {
        fs::remove_dir_all(folder).unwrap();
    }
    let two = own_skills(&services, "two");
    assert_eq!((runs(&two), versions(&two)), (json!("1.0.0"), versions(&one)));
}

#[test]
fn a_skill_that_was_laid_into_one_folder_stays_there_until_it_is_shared() {
    if !postgres::installed("a skill that was laid into one folder stays there") {
        return;
    }
    let services = Services::new();
    let two_has = skills_of(&services, "two");
    let sh = "cat >/dev/null\necho '{\"success\":true,\"data\":{\"version\":\"by hand\"}}'\n";
    script_skill(&two_has, "demo", sh, json!({"runner": {"version": "2.0.0"}}));
    script_skill(&two_has, "own", sh, json!({}));
    let (one, two) = (own_skills(&services, "one"), own_skills(&services, "two"));
    assert_eq!((runs(&two), one.get("/v1/skills/demo").status), (json!("by hand"), 404));
    assert_eq!(send(&two, "1.0.0").refusal(), (409, "VERSION_NOT_NEWER".into()));
    // What is shared comes before it, and it is kept.
    install(&one, "1.0.0");
    assert_eq!(runs(&two), "1.0.0");
    let kept = fs::read_to_string(two_has.join(".archive/demo/2.0.0/scripts/run.sh")).unwrap();
    assert_eq!(kept, sh);
    assert_eq!(versions(&two), versions(&one));
    assert_eq!((two.get("/v1/skills/own").status, one.get("/v1/skills/own").status), (200, 404));
    let own = Call::new(two.address(), "DELETE", "/v1/skills/own").send();
    assert_eq!((own.status, two.get("/v1/skills/own").status), (200, 404));
}

#[test]
fn a_service_that_was_not_told_yet_that_a_skill_is_gone_says_that_it_is_gone() {
    if !postgres::installed("a service that was not told yet that a skill is gone says so") {
        return;
    }
    let services = Services::new();
    let (one, two) = (own_skills(&services, "one"), own_skills(&services, "two"));
    install(&one, "1.0.0");
    assert_eq!(runs(&two), "1.0.0");
    kill_process(two.pid(), Signal::STOP).unwrap();
    assert_eq!(uninstall(&one).status, 200);
    // It finds the request and the news when it goes on.
    let mut asked = TcpStream::connect(two.address()).unwrap();
    write!(asked, "DELETE /v1/skills/demo HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n\r\n", two.address()).unwrap();
    kill_process(two.pid(), Signal::CONT).unwrap();
    let mut answer = String::new();
    asked.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 404 ") && answer.contains("\"SKILL_NOT_FOUND\""), "{answer}");
}

#[test]
fn a_lock_that_a_script_holds_on_the_skills_folder_holds_up_no_run_of_others() {
    if !postgres::installed("a held lock of the skills folder holds up no run") {
        return;
    }
    let services = Services::new();
    for name in ["a", "b"] {
        script_skill(&skills_of(&services, name), "own", HELLO, json!({}));
    }
    let (a, b) = (own_skills(&services, "a"), own_skills(&services, "b"));
    // As a script can as long as it runs, also in the sandbox: it may read the folder.
    let held = fs::File::open(skills_of(&services, "b")).unwrap();
    held.lock().unwrap();
    install(&a, "1.0.0");
    let began = Instant::now();
    let created = b.post("/v1/jobs", &json!({"skill_id": "own", "runtime_options": {"no_cache": true}}));
    assert_eq!(created.status, 201, "{}", created.text());
    assert!(began.elapsed() < Duration::from_secs(30), "it waited {:?} for the lock", began.elapsed());
    let refused = b.post("/v1/jobs", &json!({"skill_id": "demo"}));
    assert_ne!(refused.status, 201, "what could not be put in place is not run: {}", refused.text());
    drop(held);
    crate::crash::until("the new skill is there", || b.post("/v1/jobs", &json!({"skill_id": "demo"})).status == 201);
}

#[test]
fn a_service_without_the_package_says_so_and_does_not_run_the_old_one() {
    if !postgres::installed("a service without the package of a skill says so") {
        return;
    }
    let services = Services::new();
    let (one, mut two) = (own_skills(&services, "one"), own_skills(&services, "two"));
    install(&one, "1.0.0");
    assert_eq!(runs(&two), "1.0.0");
    two.kill_9();
    install(&one, "1.1.0");
    let (shared, away) = (services.data("blobs"), services.data("away"));
    fs::rename(&shared, &away).unwrap();
    fs::create_dir(&shared).unwrap();
    let two = own_skills(&services, "two");
    let refused = two.post("/v1/jobs", &json!({"skill_id": "demo"}));
    assert_eq!(refused.refusal(), (503, "STORE_UNREACHABLE".to_owned()), "it can be sent again: {}", refused.text());
    let listed = two.get("/v1/skills").json();
    assert_eq!((&listed["skills"], &listed["invalid"][0]["folder"]), (&json!([]), &json!("demo")), "{listed}");
    fs::remove_dir_all(&shared).unwrap();
    fs::rename(&away, &shared).unwrap();
    crate::crash::until("the package is there", || shown(&two) == "1.1.0");
    assert_eq!(runs(&two), "1.1.0");
}

#[test]
fn kill_9_while_packages_are_installed_leaves_one_whole_version_everywhere() {
    if !postgres::installed("kill -9 while packages are installed leaves one version everywhere") {
        return;
    }
    let services = Services::new();
    let two = own_skills(&services, "two");
    install(&two, "1.0.0");
    let mut random = Random::seeded();
    let mut acknowledged: BTreeSet<String> = BTreeSet::from(["1.0.0".to_owned()]);
    for round in 1..=4 {
        let mut one = own_skills(&services, "one");
        let address = one.address();
        let versions: Vec<String> = (1..=20).map(|patch| format!("1.{round}.{patch}")).collect();
        std::thread::scope(|scope| {
            let sending = scope.spawn(|| {
                let mut done = Vec::new();
                for version in &versions {
                    let call = Call::new(address, "POST", "/v1/skill-packages/install?wait=60");
                    let Some(answer) = call.parts(&[("file", &package(version))]).try_send() else { break };
                    if answer.json()["status"] == "succeeded" {
                        done.push(version.clone());
                    }
                }
                done
            });
            // The moment of the kill is the random part of the test, not a wait for something.
            std::thread::sleep(Duration::from_millis(random.below(400)));
            one.kill_9();
            acknowledged.extend(sending.join().unwrap());
        });
        let now = shown(&two);
        assert_eq!(whole(&skills_of(&services, "two")), now.as_str().map(str::to_owned), "round {round}");
        let known = versions_known(&two);
        assert!(acknowledged.is_subset(&known), "{acknowledged:?} are not all in {known:?}");
        let number = |text: &str| semver::Version::parse(text).unwrap();
        let newest = acknowledged.iter().map(|one| number(one)).max().unwrap();
        assert!(number(now.as_str().unwrap()) >= newest, "{now} is older than {newest}");
        let one = own_skills(&services, "one");
        assert_eq!(whole(&skills_of(&services, "one")), now.as_str().map(str::to_owned), "round {round}");
        assert_eq!(shown(&one), now);
        let left: Vec<String> = fs::read_dir(skills_of(&services, "one"))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| name != "demo" && name != ".archive")
            .collect();
        assert_eq!(left, Vec::<String>::new(), "round {round}");
    }
    eprintln!("{} versions were acknowledged", acknowledged.len());
}

fn versions_known(service: &Service) -> BTreeSet<String> {
    let all = versions(service);
    all.as_array().unwrap().iter().map(|kept| kept[0].as_str().unwrap().to_owned()).collect()
}

/// A place on a service's way to the database where what it says first with these words is held up.
struct Gate {
    _proxy: Proxy,
    held: Arc<Held>,
}

#[derive(Default)]
struct Held {
    reached: AtomicBool,
    lost: AtomicBool,
    open: AtomicBool,
}

impl Gate {
    fn before(services: &mut Services, name: &str, words: &'static [&'static str]) -> Gate {
        let held: Arc<Held> = Arc::default();
        let seen = held.clone();
        let contains = |bytes: &[u8], word: &str| bytes.windows(word.len()).any(|window| window == word.as_bytes());
        let proxy = Proxy::to(postgres::shared().address(), move |bytes| {
            if !words.iter().all(|word| contains(bytes, word)) || seen.reached.swap(true, Ordering::SeqCst) {
                return When::Pass;
            }
            while !seen.open.load(Ordering::SeqCst) {
                std::thread::sleep(Duration::from_millis(5));
            }
            if seen.lost.load(Ordering::SeqCst) { When::Before } else { When::Pass }
        });
        let url = postgres::shared().url_at(proxy.address, &services.schema);
        services.set(name, "SKILL_RUNNER_STORE", url);
        Gate { _proxy: proxy, held }
    }

    /// Sends a package and waits until its installation is held up; its id.
    #[track_caller]
    fn install(&self, service: &Service, version: &str) -> String {
        let path = "/v1/skill-packages/install";
        let sent = Call::new(service.address(), "POST", path).parts(&[("file", &package(version))]).send();
        assert_eq!(sent.status, 202, "{}", sent.text());
        until("the installation is held up", || self.held.reached.load(Ordering::SeqCst));
        sent.json()["request_id"].as_str().unwrap().to_owned()
    }

    /// It never arrives.
    fn loses_it(&self) {
        self.held.lost.store(true, Ordering::SeqCst);
        self.opens();
    }

    /// It arrives.
    fn opens(&self) {
        self.held.open.store(true, Ordering::SeqCst);
    }
}

/// What asks for the change of a skill.
const CHANGE: &[&str] = &["as lease"];
/// What tells of the end of an installation.
const END: &[&str] = &["skill_install", "\"status\":\"succeeded\""];

fn until(what: &str, is_so: impl FnMut() -> bool) {
    crate::crash::until(what, is_so);
}

fn told(service: &Service, id: &str) -> Value {
    service.get(&format!("/v1/skill-packages/{id}")).json()
}

#[track_caller]
fn is_interrupted(told: &Value) {
    assert_eq!(
        (&told["status"], &told["error"]["code"]),
        (&json!("failed"), &json!("ORCHESTRATOR_RESTART_INTERRUPTED"))
    );
}

#[test]
fn an_installation_whose_service_was_killed_is_ended_by_another_one_or_by_itself_when_it_is_back() {
    if !postgres::installed("an installation whose service was killed is ended") {
        return;
    }
    let mut services = Services::new();
    let (first, again) = (Gate::before(&mut services, "one", CHANGE), Gate::before(&mut services, "three", CHANGE));
    let (mut one, two) = (own_skills(&services, "one"), own_skills(&services, "two"));
    let id = first.install(&one, "1.0.0");
    assert_eq!(told(&two, &id)["status"], "queued");
    one.kill_9();
    first.loses_it();
    until("another service has ended it", || told(&two, &id)["status"] != "queued");
    let ended = told(&two, &id);
    is_interrupted(&ended);
    assert_eq!(two.get("/v1/skills/demo").status, 404);
    let one = own_skills(&services, "one");
    assert_eq!(told(&one, &id), ended);
    // Nobody asks another one before it is back.
    let mut three = own_skills(&services, "three");
    let id = again.install(&three, "1.0.0");
    three.kill_9();
    again.loses_it();
    let three = own_skills(&services, "three");
    is_interrupted(&told(&three, &id));
    assert_eq!(told(&two, &id), told(&three, &id));
    install(&two, "1.0.0");
    assert_eq!((runs(&one), runs(&three)), (json!("1.0.0"), json!("1.0.0")));
}

#[test]
fn an_installation_that_was_made_before_its_service_was_killed_is_told_as_made_for_good() {
    if !postgres::installed("an installation that was made before its service was killed is told as made") {
        return;
    }
    let mut services = Services::new();
    let gate = Gate::before(&mut services, "one", END);
    let (mut one, two) = (own_skills(&services, "one"), own_skills(&services, "two"));
    let id = gate.install(&one, "1.0.0");
    assert_eq!((shown(&two), &told(&two, &id)["status"]), (json!("1.0.0"), &json!("succeeded")));
    one.kill_9();
    gate.loses_it();
    let status = format!(
        "select convert_from(value, 'utf8')::json ->> 'status' from {}.records where kind = 'skill_install' and key = '{id}'",
        services.schema
    );
    until("its record is ended", || {
        assert_eq!(told(&two, &id)["status"], "succeeded");
        postgres::shared().sql(&status) == "succeeded"
    });
    // More changes than a skill remembers.
    for _ in 0..9 {
        assert_eq!((uninstall(&two).status, rollback(&two, "1.0.0").status), (200, 200));
    }
    let one = own_skills(&services, "one");
    let ended = told(&one, &id);
    assert_eq!((&ended["status"], &ended["version"]), (&json!("succeeded"), &json!("1.0.0")), "{ended}");
    assert_eq!(told(&two, &id), ended);
}

#[test]
fn a_service_that_is_paused_past_its_lease_installs_nothing_that_others_have_said_is_not() {
    if !postgres::installed("a service that is paused past its lease installs nothing") {
        return;
    }
    let mut services = Services::new();
    let gate = Gate::before(&mut services, "one", CHANGE);
    let (one, two) = (own_skills(&services, "one"), own_skills(&services, "two"));
    let id = gate.install(&one, "1.0.0");
    kill_process(one.pid(), Signal::STOP).unwrap();
    until("another service has ended it", || told(&two, &id)["status"] != "queued");
    is_interrupted(&told(&two, &id));
    // Now it arrives.
    gate.opens();
    kill_process(one.pid(), Signal::CONT).unwrap();
    until("it knows", || told(&one, &id)["status"] == "failed");
    assert_eq!(told(&one, &id), told(&two, &id));
    assert_eq!((one.get("/v1/skills/demo").status, two.get("/v1/skills/demo").status), (404, 404));
    // It has a lease again; what it is sent now is installed.
    install(&one, "1.0.0");
    assert_eq!(runs(&two), "1.0.0");
}
