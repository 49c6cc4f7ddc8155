//! How soon a line is with its reader when the engine writes to a file that is followed.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::json;

use crate::interactive::pose;
use crate::support::Server;

/// A program that poses as claude and says when it says something.
const SCRIPT: &str = r#"#!/bin/sh
[ "$1" = --version ] && { echo '2.1.325 (Claude Code)'; exit 0; }
cat > /dev/null
i=0
while [ $i -lt 100 ]; do i=$((i + 1)); echo "at $(date +%s%N)"; sleep 0.03; done
"#;
/// Far above what is measured: machines that test are busy.
const BOUND: Duration = Duration::from_secs(5);

#[test]
fn a_line_in_a_followed_file_is_soon_with_its_reader() {
    let folder = tempfile::tempdir().unwrap();
    let claude = folder.path().join("claude");
    fs::write(&claude, SCRIPT).unwrap();
    fs::set_permissions(&claude, fs::Permissions::from_mode(0o755)).unwrap();
    let server = Server::with(&[("engines.claude.command", claude.to_str().unwrap())]);
    pose::skill(&server.folder.path().join("skills"), "say", None);
    let (_, run) = server.create_with(&json!({"skill_id": "say", "engine": "claude"}));
    let mut events = server.events(&run, 0);
    let mut took = Vec::new();
    while let Some(event) = events.next_chat() {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let text = event["data"]["text"].as_str().filter(|_| event["type"] == "raw.stdout").unwrap_or_default();
        // Of lines that came together, the first has waited longest.
        let written = text.lines().next().and_then(|line| line.strip_prefix("at "));
        took.extend(written.map(|at| now.saturating_sub(Duration::from_nanos(at.parse().unwrap()))));
    }
    took.sort();
    assert!(took.len() > 20, "{took:?}");
    let part = |share: usize| took[(took.len() - 1) * share / 100];
    println!("followed file to reader of events: p50 {:?}, p95 {:?}, {} events", part(50), part(95), took.len());
    assert!(part(95) < BOUND, "{took:?}");
}
