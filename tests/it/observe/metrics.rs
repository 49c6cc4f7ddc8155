//! `/metrics`: the format of Prometheus, and numbers that are what happened.

use std::collections::BTreeMap;

use serde_json::json;

use crate::interactive::pose::{self, Pose, says_after_command};
use crate::support::{Server, processes_of};

/// The metrics of a service by name and labels, and the kind of each name. Every line is looked at.
pub fn scraped(server: &Server) -> (BTreeMap<String, f64>, BTreeMap<String, String>) {
    let answer = server.get("/metrics");
    assert_eq!((answer.status, answer.header("content-type")), (200, "text/plain; version=0.0.4; charset=utf-8"));
    parsed(&answer.text())
}

fn parsed(text: &str) -> (BTreeMap<String, f64>, BTreeMap<String, String>) {
    let (mut samples, mut kinds, mut helped) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').unwrap();
            assert!(help.ends_with('.'), "{line}");
            helped.push(name.to_owned());
            continue;
        }
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap();
            assert_eq!(helped.last().map(String::as_str), Some(name), "{line}");
            assert!(kinds.insert(name.to_owned(), kind.to_owned()).is_none(), "{line} stands twice");
            continue;
        }
        let (series, value) = line.rsplit_once(' ').unwrap();
        let name = series.split('{').next().unwrap();
        let last = helped.last().unwrap().as_str();
        let parts = ["_bucket", "_sum", "_count"].iter().any(|end| name.strip_suffix(end) == Some(last));
        assert!(name == last || (parts && kinds[last] == "histogram"), "{line} stands below {last}");
        assert!(samples.insert(series.to_owned(), value.parse().unwrap()).is_none(), "{line} stands twice");
    }
    (samples, kinds)
}

#[test]
fn what_runs_did_is_counted_and_the_counts_fit_the_format() {
    let pose = Pose::new();
    pose.plays(&[says_after_command("o", "{\"name\": \"Ann\"}\n__SKILL_DONE__")]);
    let server = Server::with(&[("engines.codex.command", &pose.command())]);
    server.skill("good", "cat >/dev/null\necho '{\"success\":true,\"data\":{}}'\n", json!({}));
    server.skill("bad", "cat >/dev/null\nexit 3\n", json!({}));
    server.skill("waits", "cat >/dev/null\nmkfifo gate\necho ready >&2\nread line < gate\nsleep 1000\n", json!({}));
    pose::skill(&server.folder.path().join("skills"), "asks", None);

    server.finished("good");
    assert_eq!(server.create_with(&json!({"skill_id": "good"})).0.len(), 36);
    server.finished("bad");
    let (_, run) = server.create_with(&json!({"skill_id": "asks", "engine": "codex"}));
    let events = server.finish(&run);
    assert_eq!(events.last().unwrap()["type"], "conversation.completed", "{events:#?}");

    let (_, waiting) = server.create("waits");
    let reader = server.events(&waiting, 0);
    server.wait_for(&waiting, "raw.stderr", "ready");
    let (now, _) = scraped(&server);
    let of = |key: &str| *now.get(key).unwrap_or_else(|| panic!("no {key}"));
    assert_eq!(of("skill_runner_runs{engine=\"script\",state=\"running\"}"), 1.0);
    assert_eq!(of("skill_runner_slots_used"), 1.0);
    let readers = |count: f64| while scraped(&server).0["skill_runner_sse_readers"] != count {};
    // Others have gone, or go as soon as the service sees it.
    readers(1.0);
    drop(reader);
    readers(0.0);
    assert_eq!(server.post(&format!("/v1/jobs/{waiting}/cancel"), &json!({})).status, 200);
    server.finish(&waiting);
    assert_eq!(processes_of(&waiting), Vec::<u32>::new());

    let (now, kinds) = scraped(&server);
    let of = |key: &str| *now.get(key).unwrap_or_else(|| panic!("no {key}"));
    assert_eq!(of("skill_runner_runs{engine=\"script\",state=\"running\"}"), 0.0);
    assert_eq!(of("skill_runner_runs_created_total{engine=\"script\"}"), 4.0);
    assert_eq!(of("skill_runner_runs_created_total{engine=\"codex\"}"), 1.0);
    assert_eq!(of("skill_runner_runs_finished_total{engine=\"script\",status=\"succeeded\"}"), 2.0);
    assert_eq!(of("skill_runner_runs_finished_total{engine=\"script\",status=\"failed\"}"), 1.0);
    assert_eq!(of("skill_runner_runs_finished_total{engine=\"script\",status=\"canceled\"}"), 1.0);
    assert_eq!(of("skill_runner_cache_hits_total{engine=\"script\"}"), 1.0);
    assert_eq!(of("skill_runner_turns_total{engine=\"script\"}"), 3.0, "a hit starts nothing");
    assert_eq!(of("skill_runner_run_errors_total{code=\"CANCELED_BY_USER\"}"), 1.0);
    assert_eq!(of("skill_runner_run_errors_total{code=\"ENGINE_FAILED\"}"), 1.0);
    assert_eq!(of("skill_runner_engine_stops_total{reason=\"canceled\"}"), 1.0);
    assert_eq!(of("skill_runner_tokens_total{engine=\"codex\",kind=\"input\"}"), 100.0);
    assert_eq!(of("skill_runner_tokens_total{engine=\"codex\",kind=\"output\"}"), 20.0);
    assert_eq!(of("skill_runner_run_duration_seconds_count"), 5.0);
    assert_eq!(of("skill_runner_queue_wait_seconds_count"), 4.0);
    let heads = server.get("/v1/jobs").json()["jobs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|job| job["head_seq"].as_f64().unwrap())
        .sum::<f64>();
    assert_eq!(of("skill_runner_events_total"), heads, "every event of every log, once");
    assert_eq!(
        of("skill_runner_commit_duration_seconds_bucket{le=\"+Inf\"}"),
        of("skill_runner_commit_duration_seconds_count")
    );
    assert!(
        of("skill_runner_store_bytes") > 0.0 && of("skill_runner_disk_size_bytes") > of("skill_runner_disk_free_bytes")
    );
    assert!(of("process_resident_memory_bytes") > 1e6 && of("process_open_fds") > 3.0);
    assert!(of("skill_runner_http_requests_total{method=\"POST\",route=\"/v1/jobs\",status=\"201\"}") >= 5.0);
    assert_eq!(kinds["skill_runner_runs"], "gauge");
    assert_eq!(kinds["skill_runner_commit_duration_seconds"], "histogram");
}

#[test]
fn requests_are_counted_by_route_and_nothing_a_client_makes_up_becomes_a_label() {
    let server = Server::start();
    for n in 0..5 {
        assert_eq!(server.get(&format!("/v1/made-up-{n}")).status, 404);
        assert_eq!(server.get(&format!("/v1/jobs/{n}")).status, 404);
        assert_eq!(server.call(&format!("MADE{n}"), "/v1/jobs").send().status, 405);
    }
    let (now, _) = scraped(&server);
    let count = |labels: &str| now[&format!("skill_runner_http_requests_total{{{labels}}}")];
    assert_eq!(count("method=\"GET\",route=\"none\",status=\"404\""), 5.0);
    assert_eq!(count("method=\"GET\",route=\"/v1/jobs/{id}\",status=\"404\""), 5.0);
    assert_eq!(count("method=\"other\",route=\"/v1/jobs\",status=\"405\""), 5.0);
    assert!(!now.keys().any(|series| series.contains("made-up") || series.contains("MADE")), "{now:#?}");
}

#[test]
fn with_a_token_metrics_need_it() {
    let server = Server::with(&[("token", "t0ken")]);
    assert_eq!(server.get("/metrics").refusal(), (401, "UNAUTHORIZED".into()));
    let opened = server.call("GET", "/metrics").header("authorization", "Bearer t0ken").send();
    assert_eq!(opened.status, 200);
}

#[test]
fn a_start_counts_the_open_runs_it_finds() {
    let server = Server::start();
    let file = json!({"type": "object", "properties": {"doc": {"x-input-source": "file"}}, "required": ["doc"]});
    server.skill("reads", "cat\n", json!({"input": file}));
    server.create("reads");
    let queued = "skill_runner_runs{engine=\"script\",state=\"queued\"}";
    assert_eq!(scraped(&server).0[queued], 1.0);
    let server = server.restarted(&[("restart_queued", "requeue")]);
    let (now, _) = scraped(&server);
    assert_eq!((now[queued], now["skill_runner_runs_created_total{engine=\"script\"}"]), (1.0, 0.0));
}

#[test]
fn the_system_page_tells_what_the_data_folder_holds_once_it_was_measured() {
    let server = Server::with(&[("keep_days", "7"), ("keep_labels", "keep:yes=forever")]);
    server.skill("good", "cat >/dev/null\necho '{\"success\":true,\"data\":{}}'\n", json!({}));
    server.finished("good");
    let measured = loop {
        let told = server.get("/v1/system").json();
        if !told["data_dir"]["measured_at"].is_null() {
            break told;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    };
    let folders = measured["data_dir"]["folders"].as_object().unwrap();
    let sum: u64 = folders.values().map(|bytes| bytes.as_u64().unwrap()).sum();
    assert_eq!(measured["data_dir"]["used_bytes"], json!(sum));
    assert!(folders["runs"].as_u64() > Some(0) && folders["store"].as_u64() > Some(0), "{folders:?}");
    assert_eq!(measured["process"]["pid"], json!(std::process::id()));
    assert_eq!(
        measured["retention"],
        json!({"keep_days": 7, "keep_last": 0, "keep_labels": ["keep:yes=forever"],
            "summary": "ended runs are deleted after 7 days; those with the label keep:yes never"})
    );
    assert_eq!(measured["telemetry"], json!({"otlp_endpoint": null}));
    let (now, _) = scraped(&server);
    assert!(now["skill_runner_data_bytes{folder=\"runs\"}"] > 0.0);
}
