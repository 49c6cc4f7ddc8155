//! Large output: whatever a CLI prints is read to its last byte, although most of them exit without waiting for a reader.
//!
//! `SKILL_RUNNER_TEST_REPEAT=10` does everything ten times.

use std::fs;

use serde_json::{Value, json};

use super::on_every_cli;
use super::service::{Service, of_type, writes_notes};
use crate::support::model_server::Reply;

on_every_cli!(
    answers_of_every_size_arrive_whole,
    a_tool_output_of_50_megabytes_is_survived_and_told_as_far_as_the_cli_prints_it,
);

fn times() -> usize {
    std::env::var("SKILL_RUNNER_TEST_REPEAT").map_or(1, |times| times.parse().expect("a number of times"))
}

/// Text that is nowhere the same, so that a missing or doubled piece is seen.
fn text(bytes: usize) -> String {
    let words = (0..).map(|number| format!("{number:07} "));
    let text: String = words.take(bytes / 8 + 1).collect();
    text[..bytes].to_owned()
}

/// What is known of a run that went wrong: its events without long texts, the ends of what its engine printed, and how often
/// and for which model that asked.
fn known_of(service: &Service, run: &str, events: &[Value]) -> String {
    let short = |event: &Value| {
        let text = format!("{} {}", event["type"], event["data"]);
        text.chars().take(600).collect::<String>()
    };
    let end = |stream: &str| {
        let bytes = fs::read(service.run_dir(run).join("logs").join(format!("{stream}.txt"))).unwrap_or_default();
        let end = String::from_utf8_lossy(&bytes[bytes.len().saturating_sub(2000)..]).into_owned();
        format!("{stream}, {} bytes, ends: {end}", bytes.len())
    };
    let events: Vec<String> = events.iter().map(short).collect();
    let requests: Vec<usize> = service.model.requests().iter().map(|request| request.to_string().len()).collect();
    [events.join("\n"), end("stdout"), end("stderr"), format!("requests of so many bytes: {requests:?}")].join("\n\n")
}

fn answers_of_every_size_arrive_whole(name: &str) {
    let mut service = Service::with(name);
    for time in 0..times() {
        for bytes in [15_000, 64_000, 500_000, 2_000_000] {
            let result = json!({"title": text(bytes), "points": 1, "artifact": "artifacts/notes.md"});
            // Each of another topic: a run equal to an earlier one would get its result.
            let body = json!({"skill_id": "demo-notes", "input": {"topic": format!("plums {bytes} {time}")}});
            let run = service.start(&[writes_notes(), Reply::Result(result.clone())], body);
            let events = service.finish(&run);
            let job = service.get(&format!("/v1/jobs/{run}"));
            let known = || known_of(&service, &run, &events);
            assert_eq!(job["status"], "succeeded", "{bytes} bytes, time {time}: {job:#}\n{}", known());
            let told = service.get(&format!("/v1/jobs/{run}/result"));
            let same = told["result"]["data"] == result;
            assert!(same, "{bytes} bytes, time {time}, came as others: {job:#}\n{}", known());
            let lost = of_type(&events, "diagnostic.warning")
                .filter(|event| event["data"]["code"] == "ENGINE_OUTPUT_REWRITTEN");
            assert_eq!(lost.count(), 0, "{bytes} bytes, time {time}\n{}", known());
        }
    }
    service.close();
}

/// What becomes of a tool's output of 50 MB: how many bytes the CLI prints in all, and how it may tell the command's end. Each
/// cuts the output in its own way, for its model and for its own output alike.
fn told_of_a_tool(name: &str) -> (std::ops::Range<u64>, &'static [&'static str]) {
    match name {
        "codex" => (1_000_000..1_200_000, &["completed"]),
        // Its end is on a line of 16 MB, longer than any that is read.
        "gemini" => (16_000_000..17_500_000, &["started"]),
        // On a slow machine it stops the command at a time limit of its own.
        "qwen" => (5_000..200_000, &["completed", "failed"]),
        _ => (5_000..200_000, &["completed"]),
    }
}

fn a_tool_output_of_50_megabytes_is_survived_and_told_as_far_as_the_cli_prints_it(name: &str) {
    let mut service = Service::with(name);
    for time in 0..times() {
        let result = json!({"title": "Plums", "points": 1, "artifact": "artifacts/notes.md"});
        let flood = Reply::Shell("head -c 50000000 /dev/zero | tr '\\0' x; echo the end".to_owned());
        let body = json!({"skill_id": "demo-notes", "input": {"topic": format!("plums {time}")}});
        let run = service.start(&[writes_notes(), flood, Reply::Result(result.clone())], body);
        let events = service.finish(&run);
        let job = service.get(&format!("/v1/jobs/{run}"));
        assert_eq!(job["status"], "succeeded", "time {time}: {job:#}\n{}", known_of(&service, &run, &events));
        assert_eq!(service.get(&format!("/v1/jobs/{run}/result"))["result"]["data"], result);
        let printed = fs::metadata(service.run_dir(&run).join("logs/stdout.txt")).unwrap().len();
        let commands: Vec<&Value> = of_type(&events, "assistant.command_execution").collect();
        let status = commands.last().and_then(|event| event["data"]["status"].as_str()).unwrap_or("not told");
        let (bytes, ends) = told_of_a_tool(name);
        assert!(bytes.contains(&printed) && ends.contains(&status), "{printed} bytes printed, {status}");
    }
    service.close();
}
