//! Packages as large as they may be, and files as many as they may be: few are looked at together, and no more of them is held in memory
//! than is needed.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};

use super::parsers::Service;
use crate::support::random::Random;
use crate::support::skill::HELLO;
use crate::support::zips::{deflated, zip_folder};
use crate::support::{Answer, script_skill};

/// A file of this length is compared line by line, and each of its characters takes six in an answer.
const TEXT_BYTES: usize = 255 * 1024;
const TEXTS: usize = 400;

/// Bytes that cannot be packed.
fn noise(bytes: usize) -> Vec<u8> {
    let mut random = Random::seeded();
    std::iter::repeat_with(|| random.below(256) as u8).take(bytes).collect()
}

/// The zip of a package of a hundred megabytes, most of which is text without lines.
fn large_package(version: &str) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let runner = json!({"version": version});
    script_skill(folder.path(), "large", HELLO, json!({"runner": runner}));
    let texts = folder.path().join("large/references");
    fs::create_dir(&texts).unwrap();
    for number in 0..TEXTS {
        fs::write(texts.join(format!("{number}.txt")), format!("{}{version}{number}", "\u{1}".repeat(TEXT_BYTES)))
            .unwrap();
    }
    // A zip that holds very much in few bytes is refused.
    fs::write(texts.join("noise.bin"), noise(700_000)).unwrap();
    zip_folder(&folder.path().join("large"))
}

fn install(service: &Service, zip: &[u8]) {
    let installed = service.call("POST", "/v1/skill-packages/install?wait=60").parts(&[("file", zip)]).send().json();
    assert_eq!(installed["status"], "succeeded", "{installed}");
}

fn at_once(times: usize, ask: impl Fn() -> Answer + Sync) -> Vec<Answer> {
    std::thread::scope(|scope| {
        let asked: Vec<_> = (0..times).map(|_| scope.spawn(&ask)).collect();
        asked.into_iter().map(|asked| asked.join().unwrap()).collect()
    })
}

#[test]
fn large_packages_are_compared_checked_and_shown_in_little_memory_however_many_ask_at_once() {
    let mut service = Service::start(|_| {});
    let (first, second) = (large_package("1.0.0"), large_package("1.1.0"));
    let before = service.peak_megabytes();
    let in_bounds = |what: &str, answers: &[Answer]| {
        let statuses: Vec<u16> = answers.iter().map(|answer| answer.status).collect();
        assert!(
            statuses.contains(&200) && statuses.iter().all(|status| [200, 503].contains(status)),
            "{what}: {statuses:?}"
        );
        let longest = answers.iter().map(|answer| answer.body.len()).max().unwrap();
        assert!(longest < 16 << 20, "{what}: an answer has {longest} bytes");
        let peak = service.peak_megabytes();
        assert!(peak < before + 500, "{what}: {before} MB before, {peak} MB now");
    };
    let check = || service.call("POST", "/v1/skill-packages/check").parts(&[("file", &first)]).send();
    in_bounds("a check", &[check()]);
    in_bounds("checks", &at_once(12, check));
    install(&service, &first);
    install(&service, &second);
    let get = |path: &str| service.call("GET", &format!("/v1/management/skills/large/{path}")).send();
    let changes = get("changes?from=1.0.0");
    let told: Value = changes.json();
    assert_eq!(told["changes"].as_array().unwrap().len(), TEXTS + 1, "every file that differs is told");
    in_bounds("changes", &at_once(12, || get("changes?from=1.0.0")));
    in_bounds("a file of an earlier version", &at_once(24, || get("file?path=SKILL.md&version=1.0.0")));
    service.lives();
}

/// How many folders with such a name are there now.
fn folders(place: &Path, prefix: &str) -> usize {
    let entries = fs::read_dir(place).into_iter().flatten().flatten();
    entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(prefix)).count()
}

#[test]
fn few_uploads_are_unpacked_together_and_few_files_copied_for_reruns() {
    const UPLOADS: usize = 24;
    let file = json!({"type": "string"});
    let input = json!({"type": "object", "properties": {"paper": file}, "required": ["paper"]});
    let mut service = Service::start(|skills| script_skill(skills, "reader", HELLO, json!({"input": input})));
    // Long enough that many are being unpacked at once, if they may be. The noise is for no input: a zip that holds very much in few
    // bytes is refused.
    let zip = deflated(&[("paper", &vec![b'x'; 40 << 20]), ("noise", &noise(300_000))]);
    let create = || {
        let created = service.call("POST", "/v1/jobs").json(&json!({"skill_id": "reader"})).send().json();
        created["request_id"].as_str().unwrap().to_owned()
    };
    let give = |id: &str| service.call("POST", &format!("/v1/jobs/{id}/upload")).parts(&[("file", &zip)]).send();
    let done = create();
    assert_eq!(give(&done).status, 200);
    let waiting: Vec<String> = (0..UPLOADS).map(|_| create()).collect();
    let (requests, tmp) = (service.data().join("requests"), service.data().join("tmp"));
    let over = AtomicBool::new(false);
    // Looks as often as it can while others ask; the most that was there at once.
    let most = |look: &(dyn Fn() -> usize + Sync), ask: &(dyn Fn() + Sync)| {
        over.store(false, Ordering::Relaxed);
        std::thread::scope(|scope| {
            let looking = scope.spawn(|| {
                let mut most = 0;
                while !over.load(Ordering::Relaxed) {
                    most = most.max(look());
                }
                most
            });
            ask();
            over.store(true, Ordering::Relaxed);
            looking.join().unwrap()
        })
    };
    let unpacking = || {
        let runs = fs::read_dir(&requests).into_iter().flatten().flatten();
        runs.map(|run| folders(&run.path(), ".unpacking-")).sum()
    };
    let upload = || {
        std::thread::scope(|scope| {
            for id in &waiting {
                scope.spawn(|| {
                    let answer = give(id);
                    assert!([200, 503].contains(&answer.status), "{}", answer.text());
                });
            }
        });
    };
    let unpacked = most(&unpacking, &upload);
    assert!((1..=4).contains(&unpacked), "{unpacked} uploads were being unpacked at once");
    let rerun = || {
        at_once(UPLOADS, || {
            let answer = service.call("POST", &format!("/v1/jobs/{done}/rerun")).send();
            assert!([201, 503].contains(&answer.status), "{}", answer.text());
            answer
        });
    };
    let copied = most(&|| folders(&tmp, "rerun-"), &rerun);
    assert!((1..=4).contains(&copied), "the files of {copied} runs were copied at once");
    service.lives();
}
