//! The dashboard for Grafana asks only for metrics and labels that there are.

use std::collections::BTreeSet;
use std::fs;

use serde_json::Value;

use super::metrics::scraped;
use crate::support::Server;

/// All texts of members with this name, however deep.
fn members<'a>(value: &'a Value, name: &str, found: &mut Vec<&'a str>) {
    match value {
        Value::Object(object) => {
            for (key, value) in object {
                if key == name {
                    found.extend(value.as_str());
                }
                members(value, name, found);
            }
        }
        Value::Array(list) => list.iter().for_each(|value| members(value, name, found)),
        _ => {}
    }
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).filter(|word| !word.is_empty())
}

#[test]
fn every_query_names_metrics_and_labels_of_the_service() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/deploy/grafana/skill-runner.json");
    let dashboard: Value = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    let mut queries = Vec::new();
    members(&dashboard, "expr", &mut queries);
    assert!(queries.len() > 15, "{}", queries.len());

    let server = Server::start();
    let (samples, kinds) = scraped(&server);
    let known: BTreeSet<String> = kinds
        .iter()
        .flat_map(|(name, kind)| match kind.as_str() {
            "histogram" => ["_bucket", "_sum", "_count"].iter().map(|end| format!("{name}{end}")).collect(),
            _ => vec![name.clone()],
        })
        .collect();
    let is_metric = |word: &str| word.starts_with("skill_runner_") || word.starts_with("process_");
    let mut used = BTreeSet::new();
    for query in &queries {
        let named: Vec<&str> = words(query).filter(|word| is_metric(word)).collect();
        assert!(!named.is_empty(), "{query} asks for nothing");
        for name in named {
            assert!(known.contains(name), "{query} asks for {name}");
            used.insert(
                name.trim_end_matches("_bucket").trim_end_matches("_sum").trim_end_matches("_count").to_owned(),
            );
        }
        for group in query.split("by (").skip(1) {
            for label in words(group.split(')').next().unwrap()) {
                let labels = [
                    "engine", "state", "status", "code", "reason", "kind", "route", "method", "signal", "folder", "le",
                ];
                assert!(labels.contains(&label), "{query} groups by {label}");
            }
        }
    }
    // What an operator is told about has a place on the dashboard.
    for name in [
        "skill_runner_runs",
        "skill_runner_queue_length",
        "skill_runner_events_total",
        "skill_runner_commit_duration_seconds",
        "skill_runner_sse_readers",
        "skill_runner_processes_killed_total",
        "skill_runner_cache_hits_total",
        "skill_runner_tokens_total",
        "skill_runner_cost_usd_total",
        "skill_runner_store_bytes",
        "skill_runner_disk_free_bytes",
        "skill_runner_http_requests_total",
        "process_resident_memory_bytes",
        "process_open_fds",
    ] {
        assert!(used.contains(name), "no panel shows {name}");
    }
    assert!(samples.len() > 50);
}
