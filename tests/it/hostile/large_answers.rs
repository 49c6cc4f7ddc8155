//! Answers that nobody reads: whichever route made them, they have one room in memory together.

use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::json;

use super::parsers::Service;
use crate::support::{LONG, script_skill};

/// Five thousand artifacts with paths as long as they may be: lists of them have megabytes.
const FILLS: &str = "cat > /dev/null\nexec python3 - <<'END'
import os
os.chdir('artifacts')
for _ in range(4):
    os.mkdir('d' * 240)
    os.chdir('d' * 240)
for number in range(5000):
    os.close(os.open(f'{number:0200}', os.O_CREAT | os.O_WRONLY))
print('{\"success\": true, \"data\": {}}')
END
";

#[test]
fn lists_that_nobody_reads_take_no_more_than_their_room() {
    const ASKED: usize = 100;
    let mut service = Service::start(|skills| script_skill(skills, "fills", FILLS, json!({})));
    let run = service.call("POST", "/v1/jobs?wait=60").json(&json!({"skill_id": "fills"})).send().json();
    assert_eq!(run["status"], "succeeded", "{run}");
    let id = run["request_id"].as_str().unwrap();
    let lists = [format!("/v1/jobs/{id}/artifacts"), format!("/v1/management/runs/{id}/files")];
    for list in &lists {
        let answer = service.call("GET", list).send();
        assert!(answer.status == 200 && answer.body.len() > 5 << 20, "{list}: {}", answer.body.len());
    }
    let before = service.peak_megabytes();
    for list in &lists {
        let unread: Vec<TcpStream> = (0..ASKED)
            .map(|_| {
                let mut stream = TcpStream::connect(service.address()).unwrap();
                stream.set_read_timeout(Some(2 * LONG)).unwrap();
                write!(stream, "GET {list} HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
                stream
            })
            .collect();
        let statuses: Vec<String> = unread
            .iter()
            .map(|mut stream| {
                let mut begin = [0; 12];
                stream.read_exact(&mut begin).unwrap();
                String::from_utf8_lossy(&begin[9..]).into_owned()
            })
            .collect();
        assert!(statuses.iter().all(|status| ["200", "503"].contains(&status.as_str())), "{statuses:?}");
        let peak = service.peak_megabytes();
        assert!(peak < before + 2500, "{list}: {before} MB before, {peak} MB now");
        service.lives();
    }
}
