//! Exports that somebody made up, sent to be audited: the service takes little memory and time for each, and says what is wrong in a
//! short answer.

use std::io::Write;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::parsers::Service;
use crate::support::skill::HELLO;
use crate::support::{Answer, Call, script_skill};

const COMMENT: &[u8] = b"skill-runner-export/1 sha256 ";
const LIST: &str = "export.json";

/// The bytes of an export that holds these files, sealed as the service would seal them.
fn sealed(files: &[(Vec<u8>, Vec<u8>)]) -> Vec<u8> {
    let (mut zip, mut directory) = (Vec::new(), Vec::new());
    for (name, content) in files {
        let (size, at) = (content.len() as u32, zip.len() as u32);
        let mut common = vec![0, 8, 0, 0, 0, 0, 0x21, 0];
        common.extend(crc32fast::hash(content).to_le_bytes());
        common.extend(size.to_le_bytes());
        common.extend(size.to_le_bytes());
        common.extend((name.len() as u16).to_le_bytes());
        common.extend([0, 0]);
        zip.extend(*b"PK\x03\x04\x14\x00");
        zip.extend(&common);
        zip.extend(name);
        zip.extend(content);
        directory.extend(*b"PK\x01\x02\x2d\x03\x14\x00");
        directory.extend(&common);
        directory.extend([0; 6]);
        directory.extend((0o100_644_u32 << 16).to_le_bytes());
        directory.extend(at.to_le_bytes());
        directory.extend(name);
    }
    let (count, central_at, central) = (files.len() as u64, zip.len() as u64, directory.len() as u64);
    zip.extend(directory);
    if count >= u64::from(u16::MAX) {
        zip.extend(*b"PK\x06\x06");
        zip.extend(44_u64.to_le_bytes());
        zip.extend([45, 3, 45, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        [count, count, central, central_at].iter().for_each(|number| zip.extend(number.to_le_bytes()));
        zip.extend(*b"PK\x06\x07\x00\x00\x00\x00");
        zip.extend((central_at + central).to_le_bytes());
        zip.extend(1_u32.to_le_bytes());
    }
    let short = u16::try_from(count).unwrap_or(u16::MAX).to_le_bytes();
    zip.extend(*b"PK\x05\x06\x00\x00\x00\x00");
    zip.extend(short);
    zip.extend(short);
    zip.extend((central as u32).to_le_bytes());
    zip.extend((central_at as u32).to_le_bytes());
    zip.extend((COMMENT.len() as u16 + 64).to_le_bytes());
    zip.extend(COMMENT);
    let seal = hex::encode(Sha256::digest(&zip));
    zip.extend(seal.into_bytes());
    zip
}

/// A true export, whose files are then changed.
pub struct Made(Vec<(Vec<u8>, Vec<u8>)>);

impl Made {
    pub fn of(export: &[u8]) -> Self {
        let mut zip = zip::ZipArchive::new(std::io::Cursor::new(export)).unwrap();
        let mut files = Vec::new();
        for at in 0..zip.len() {
            let mut file = zip.by_index(at).unwrap();
            let mut content = Vec::new();
            std::io::copy(&mut file, &mut content).unwrap();
            files.push((file.name().unwrap().into_owned().into_bytes(), content));
        }
        Self(files)
    }

    fn content(&self, name: &str) -> &[u8] {
        &self.0.iter().find(|(other, _)| other == name.as_bytes()).unwrap().1
    }

    fn with(&self, name: &str, content: Vec<u8>) -> Vec<u8> {
        let mut files = self.0.clone();
        files.iter_mut().find(|(other, _)| other == name.as_bytes()).unwrap().1 = content;
        sealed(&files)
    }

    /// The same, and the list of files tells of that content.
    pub fn listed_with(mut self, name: &str, content: Vec<u8>) -> Vec<u8> {
        let mut list: Value = serde_json::from_slice(self.content(LIST)).unwrap();
        let file = list["files"].as_array_mut().unwrap().iter_mut().find(|file| file["path"] == name).unwrap();
        (file["size"], file["sha256"]) = (json!(content.len()), json!(hex::encode(Sha256::digest(&content))));
        self.0.iter_mut().find(|(other, _)| other == LIST.as_bytes()).unwrap().1 = format!("{list:#}\n").into_bytes();
        self.with(name, content)
    }
}

fn audit(service: &Service, export: &[u8]) -> Call {
    service.call("POST", "/v1/management/audit").parts(&[("file", export)])
}

/// Numbers of one digit, which take fifty times their bytes in memory.
fn many_values(megabytes: usize) -> Vec<u8> {
    let mut text = b"[0".to_vec();
    text.extend(b",0".repeat(megabytes << 19));
    text.push(b']');
    text
}

#[test]
fn an_export_that_somebody_made_up_is_audited_in_little_memory_and_told_about_in_few_words() {
    let mut service = Service::start(|skills| script_skill(skills, "hello", HELLO, json!({})));
    let run = service.call("POST", "/v1/jobs?wait=60").json(&json!({"skill_id": "hello"})).send().json();
    let id = run["request_id"].as_str().unwrap().to_owned();
    let export = service.call("GET", &format!("/v1/jobs/{id}/export")).send();
    assert_eq!(export.status, 200, "{}", export.text());
    let made = Made::of(&export.body);
    assert_eq!(sealed(&made.0), export.body, "the test writes exports as the service does");
    let told = audit(&service, &export.body).send().json();
    assert_eq!((&told["ok"], &told["violations"]), (&json!(true), &json!([])), "{told}");
    let before = service.peak_megabytes();

    let long_name = |number: usize| format!("{}{number}", "\u{1}".repeat(40_000)).into_bytes();
    let listed = json!({"path": "a", "size": 0, "sha256": ""});
    let mut list: Value = serde_json::from_slice(made.content(LIST)).unwrap();
    list["files"] = vec![listed; 300_000].into();
    let event = br#"{"data":"#.iter().copied().chain(many_values(2)).chain(*b"}\n").collect::<Vec<u8>>();
    for (what, export) in [
        ("a result of many values", made.with("result/result.json", many_values(30))),
        ("a validation of many values", made.with("result/validation.json", many_values(30))),
        ("a log of empty lines", made.with("logs/events.jsonl", vec![b'\n'; 60 << 20])),
        ("events of many values", made.with("logs/events.jsonl", event.repeat(14))),
        (
            "many files",
            sealed(&(0..300_000).map(|number| (format!("\u{1}{number}").into(), Vec::new())).collect::<Vec<_>>()),
        ),
        ("long names", sealed(&(0..300).map(|number| (long_name(number), Vec::new())).collect::<Vec<_>>())),
        ("a long list", made.with(LIST, list.to_string().into_bytes())),
    ] {
        let answer = audit(&service, &export).send();
        let told = answer.json();
        assert_eq!((answer.status, &told["ok"]), (200, &json!(false)), "{what}");
        assert!(answer.body.len() < 1 << 20, "{what}: the report has {} bytes", answer.body.len());
        let peak = service.peak_megabytes();
        // The body itself is on the disk.
        assert!(peak < before + 400, "{what}: {before} MB before, {peak} MB now");
        service.lives();
    }
}

/// Each event could name the whole stream as its own, and everything was compared with everything.
#[test]
fn a_log_that_somebody_made_up_is_audited_in_a_time_by_its_length() {
    let mut service = Service::start(|skills| script_skill(skills, "hello", HELLO, json!({})));
    let run = service.call("POST", "/v1/jobs?wait=60").json(&json!({"skill_id": "hello"})).send().json();
    let id = run["request_id"].as_str().unwrap().to_owned();
    let made = Made::of(&service.call("GET", &format!("/v1/jobs/{id}/export")).send().body);
    let log = made.content("logs/events.jsonl").split_inclusive(|byte| *byte == b'\n').collect::<Vec<_>>();
    let last: Value = serde_json::from_slice(log.last().unwrap()).unwrap();
    let event = |seq: usize, kind: &str, data: Value, raw: Value| {
        let mut event = last.clone();
        (event["seq"], event["type"], event["data"], event["raw_ref"]) = (json!(seq), json!(kind), data, raw);
        event["meta"]["local_seq"] = json!(seq);
        format!("{event}\n")
    };
    let stream =
        json!({"attempt_number": 1, "stream": "stdout", "byte_from": 0, "byte_to": 30 << 20, "encoding": "utf-8"});
    let artifact = |number: usize| {
        json!({
            "role": "output", "path_rel": format!("artifacts/{number}"), "filename": "a", "mime": "", "size": 0,
            "sha256": "", "required": false,
        })
    };
    let mut files = made.0.clone();
    let mut set = |name: &str, content: Vec<u8>| {
        files.retain(|(other, _)| other != name.as_bytes());
        files.push((name.into(), content));
    };
    let mut text: Vec<u8> = log[..log.len() - 1].concat();
    for number in 0..20_000 {
        let raw = event(number, "raw.stdout", json!({"text": "x"}), stream.clone());
        let indexed = event(number, "artifact.indexed", artifact(number), Value::Null);
        text.write_all((raw + &indexed).as_bytes()).unwrap();
    }
    text.extend(*log.last().unwrap());
    set("logs/events.jsonl", text);
    set("logs/stdout.txt", vec![b'x'; 30 << 20]);
    let artifacts: Vec<Value> = (20_000..60_000).map(artifact).collect();
    set("manifest.json", json!({"artifacts": artifacts}).to_string().into_bytes());
    files.sort();
    let at = files.iter().position(|(name, _)| name == LIST.as_bytes()).unwrap();
    let list = files.remove(at);
    files.push(list);
    let began = Instant::now();
    let told = audit(&service, &sealed(&files)).send().json();
    assert_eq!(told["ok"], false, "{told}");
    assert!(began.elapsed() < Duration::from_secs(60), "it took {:?}", began.elapsed());
    service.lives();
}

/// What clients send to be looked at waits for its turn: were all looked at together, they would take all memory and threads.
#[test]
fn many_exports_are_audited_a_few_at_a_time() {
    let mut service = Service::start(|skills| script_skill(skills, "hello", HELLO, json!({})));
    let run = service.call("POST", "/v1/jobs?wait=60").json(&json!({"skill_id": "hello"})).send().json();
    let id = run["request_id"].as_str().unwrap().to_owned();
    let made = Made::of(&service.call("GET", &format!("/v1/jobs/{id}/export")).send().body);
    let before = service.peak_megabytes();
    // As many as are read at all: each takes some hundred megabytes.
    let export = made.with("result/result.json", many_values(3));
    let answers: Vec<Answer> = std::thread::scope(|scope| {
        let asked: Vec<_> = (0..24).map(|_| scope.spawn(|| audit(&service, &export).send())).collect();
        asked.into_iter().map(|asked| asked.join().unwrap()).collect()
    });
    assert!(answers.iter().all(|answer| [200, 503].contains(&answer.status)));
    assert!(answers.iter().any(|answer| answer.status == 200));
    let peak = service.peak_megabytes();
    assert!(peak < before + 1500, "{before} MB before, {peak} MB now");
    service.lives();
}
