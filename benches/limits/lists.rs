//! A hundred thousand runs: how long a page of the list takes, with each filter, deep in it, and with its counts.

use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};

use crate::figure::{Figure, number};
use crate::numbers::{median, quantile};
use crate::setup::{Setup, at_once, timed};

pub fn lists(setup: &Setup<'_>) -> Vec<Figure> {
    const CLIENTS: usize = 16;
    const TEAMS: usize = 10;
    let runs = setup.count(100_000, 2_000);
    let service = setup.serve(&[]);
    let created = AtomicUsize::new(0);
    let labels = |number: usize| json!({"team": format!("t{}", number % TEAMS), "only": format!("n{number}")});
    let first =
        service.client().json("POST", "/v1/jobs?wait=60", Some(&json!({"skill_id": "noop", "labels": labels(0)})));
    assert_eq!(first["status"], "succeeded", "{first}");
    // All others are the same run again, from the cache: a run like others, made quickly.
    let seconds = at_once(CLIENTS, || {
        let mut client = service.client();
        loop {
            let number = created.fetch_add(1, Ordering::Relaxed) + 1;
            if number >= runs {
                return;
            }
            client.json("POST", "/v1/jobs", Some(&json!({"skill_id": "noop", "labels": labels(number)})));
        }
    });
    service.stop();

    // After a restart, so that nothing is known that was not read from the disk.
    let service = setup.serve(&[]);
    let mut client = service.client();
    let middle = before(&mut client, runs / 2);
    let first_page = timed(1, || drop(client.json("GET", "/v1/management/runs?limit=50", None)))[0];
    let since = client.json("GET", &format!("/v1/jobs?limit=1&before={middle}"), None)["jobs"][0]["created_at"].clone();
    let since = since.as_str().unwrap().to_owned();
    let many = number(runs as f64);
    let mut ask = |said: &str, query: &str, hits: usize, total: Option<usize>| {
        let mut page = || {
            let page = client.json("GET", &format!("/v1/management/runs?limit=50{query}"), None);
            assert_eq!(page["jobs"].as_array().unwrap().len(), hits, "{query}");
            if let Some(total) = total {
                assert_eq!(page["counts"]["total"], total, "{query}");
            }
        };
        page();
        let times = timed(setup.count(50, 10), page);
        Figure::new(format!("a page of 50 with its counts at {many} runs, {said}"), "ms", median(&times))
            .at_most(20.0)
            .note(format!("{:.1} ms at the 95th percentile", quantile(&times, 0.95)))
    };
    let mut figures = vec![
        ask("no filter", "", 50, Some(runs)),
        ask("deep in it (`before`)", &format!("&before={middle}"), 50, Some(runs)),
        ask("`status`", "&status=succeeded", 50, None),
        ask("`status` that no run has", "&status=failed", 0, None),
        ask("`skill_id` and `engine`", "&skill_id=noop&engine=script", 50, Some(runs)),
        ask("`label` that every tenth run has", "&label=team:t3", 50, Some(runs / TEAMS)),
        ask("`label` that one run has", "&label=only:n1", 1, Some(1)),
        ask("`since`", &format!("&since={since}"), 50, None),
    ];
    figures.push(Figure::new(format!("the first page after a start on {many} runs"), "ms", first_page).note(format!(
        "runs were made at {:.0} /s; {:.0} MB of memory afterwards",
        runs as f64 / seconds,
        service.memory("VmRSS")
    )));
    figures
}

/// Where the page after this many runs begins.
fn before(client: &mut crate::client::Client, passed: usize) -> String {
    let mut next = String::new();
    for _ in 0..passed.div_ceil(500) {
        let page: Value = client.json("GET", &format!("/v1/jobs?limit=500{next}"), None);
        next = format!("&before={}", page["next_before"].as_str().unwrap());
    }
    next.trim_start_matches("&before=").to_owned()
}
