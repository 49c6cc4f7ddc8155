//! More files than anybody wants: those that a run leaves, and those that a request brings.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::json;

use super::parsers;
use crate::interactive::pose::Pose;
use crate::interactive::service::Service;
use crate::support::{LONG, Server, script_skill};

/// Each path was held, and 200 000 of them take a gigabyte.
#[test]
fn files_with_long_paths_are_left_out_and_take_little_memory() {
    let deep = "import os\nos.chdir('artifacts')\nfor _ in range(13):\n    os.mkdir('d' * 240)\n    os.chdir('d' * 240)\n\
        for number in range(60000):\n    os.close(os.open(f'{number:0200}', os.O_CREAT | os.O_WRONLY))\n\
        print('{\"success\": true, \"data\": {}}')\n";
    let script = format!("cat > /dev/null\nexec python3 - <<'END'\n{deep}END\n");
    let mut service = parsers::Service::start(|skills| script_skill(skills, "deep", &script, json!({})));
    let before = service.peak_megabytes();
    let run = service.call("POST", "/v1/jobs?wait=60").json(&json!({"skill_id": "deep"})).send().json();
    assert_eq!(run["status"], "succeeded", "{run}");
    assert!(run.to_string().contains("its path is longer than 1200 bytes"), "{run}");
    let peak = service.peak_megabytes();
    assert!(peak < before + 100, "{before} MB before, {peak} MB now");
    service.lives();
}

#[test]
fn a_run_ends_with_its_result_however_many_files_it_puts_beside_it() {
    let server = Server::start();
    // More than are listed of a folder, with names that come before those of the runner.
    let fills = "import os\nfor folder in ['result', 'logs']:\n    os.makedirs(folder, exist_ok=True)\n    \
        for number in range(10100):\n        os.close(os.open(f'{folder}/a{number}', os.O_CREAT | os.O_WRONLY))\n\
        print('{\"success\": true, \"data\": {\"all\": 1}}')\n";
    server.skill("fills", &format!("cat > /dev/null\nexec python3 - <<'END'\n{fills}END\n"), json!({}));
    let body = json!({"skill_id": "fills", "runtime_options": {"debug": true}});
    let (_, run) = server.create_with(&body);
    server.finish(&run);
    let result = server.get(&format!("/v1/jobs/{run}/result")).json()["result"].take();
    assert_eq!((&result["status"], &result["data"]), (&json!("succeeded"), &json!({"all": 1})));
    for (path, holds) in [("bundle", "logs/stdout.txt"), ("export", "result/result.json")] {
        let answer = server.get(&format!("/v1/jobs/{run}/{path}"));
        assert_eq!(answer.status, 200, "{path}: {}", answer.text());
        let zip = zip::ZipArchive::new(std::io::Cursor::new(answer.body)).unwrap();
        assert!(zip.file_names().any(|name| name.unwrap() == holds), "{path} has no {holds}");
    }
}

/// Each would keep a place of the table of open files for as long as its client likes, and there would be none for anybody else.
#[test]
fn a_body_of_very_many_parts_keeps_no_file_open_for_each() {
    let folder = tempfile::tempdir().unwrap();
    let input = json!({"type": "object", "properties": {"paper": {"type": "string"}}, "required": ["paper"]});
    script_skill(&folder.path().join("skills"), "reader", "cat > /dev/null", json!({"input": input}));
    let service = Service::start(folder.path(), &Pose::new());
    let created = service.post("/v1/jobs", &json!({"skill_id": "reader"})).json();
    let run = created["request_id"].as_str().unwrap();
    let part = "--EDGE\r\ncontent-disposition: form-data; name=\"paper\"; filename=\"x\"\r\n\r\nx\r\n";
    // The last part has no end, so the service waits for it and holds all that came before.
    let body = part.repeat(600);
    let mut sent = TcpStream::connect(service.address).unwrap();
    sent.set_read_timeout(Some(LONG)).unwrap();
    let head = format!(
        "POST /v1/jobs/{run}/upload HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: multipart/form-data; boundary=EDGE\r\n\
         content-length: {}\r\n\r\n",
        body.len() + 10
    );
    sent.write_all(head.as_bytes()).unwrap();
    sent.write_all(body.as_bytes()).unwrap();
    let kept = || {
        let folders = fs::read_dir(folder.path().join("data/tmp")).into_iter().flatten().flatten();
        let folders = folders.filter(|folder| folder.file_name().to_string_lossy().starts_with("upload-"));
        folders.map(|folder| fs::read_dir(folder.path()).into_iter().flatten().count()).sum::<usize>()
    };
    let began = std::time::Instant::now();
    while kept() < 599 {
        assert!(began.elapsed() < LONG, "{} of the parts were received", kept());
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let open = fs::read_dir(format!("/proc/{}/fd", service.pid())).unwrap().count();
    assert!(open < 300, "{open} files are open");
    // What comes is no part at all: the request ends, and its files with it.
    sent.write_all(b"0123456789").unwrap();
    let mut answer = String::new();
    sent.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 400"), "{answer}");
    assert_eq!(kept(), 0);
}
