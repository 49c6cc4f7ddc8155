//! Ten thousand runs that wait for an answer: the start on them, memory, and the list.

use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;

use crate::figure::{Figure, number};
use crate::numbers::median;
use crate::service::Service;
use crate::setup::{Setup, at_once, timed};
use crate::skills;

pub fn waiting(setup: &Setup<'_>) -> Vec<Figure> {
    const CLIENTS: usize = 16;
    let runs = setup.count(10_000, 1_000);
    let engine = skills::asking(&setup.folder);
    let settings = [("codex_bin", engine.to_str().unwrap()), ("max_running_jobs", "8")];
    let service = setup.serve(&settings);
    let created = AtomicUsize::new(0);
    let body = json!({"skill_id": "ask", "engine": "codex", "runtime_options": {"execution_mode": "interactive"}});
    let seconds = at_once(CLIENTS, || {
        let mut client = service.client();
        while created.fetch_add(1, Ordering::Relaxed) < runs {
            // `wait` ends with the question.
            let job = client.json("POST", "/v1/jobs?wait=60", Some(&body));
            assert_eq!(job["status"], "waiting_user", "{job}");
        }
    });
    service.stop();

    // The first start notes in each run's log that it was recovered; later ones have nothing to note.
    let first = setup.serve(&settings);
    let first_start = ready(&first);
    first.stop();
    let later = setup.serve(&settings);
    let later_start = ready(&later);
    let memory = later.memory("VmRSS");

    let mut client = later.client();
    let mut list = |query: &str, hits: usize| {
        let mut ask = || {
            let page = client.json("GET", &format!("/v1/jobs?limit=50{query}"), None);
            assert_eq!(page["jobs"].as_array().unwrap().len(), hits);
        };
        ask();
        median(&timed(setup.count(50, 10), ask))
    };
    let at_once = list("", 50);
    later.settle();
    let (all, none) = (list("", 50), list("&status=failed", 0));
    let many = number(runs as f64);
    vec![
        Figure::new(format!("start with {many} waiting runs, first"), "s", first_start)
            .at_most(0.3)
            .note(format!("created at {:.0} runs/s", runs as f64 / seconds)),
        Figure::new(format!("start with {many} waiting runs, later"), "s", later_start).at_most(0.3),
        Figure::new("memory after it", "MB", memory).at_most(60.0),
        Figure::new(format!("a page of the list at {many} runs"), "ms", all)
            .at_most(2.0)
            .note(format!("{at_once:.2} ms right after the start, beside the recovery of the others")),
        Figure::new("the same, a status that no run has", "ms", none).at_most(2.0),
    ]
}

/// Seconds from the start of the process until it is ready for work.
pub fn ready(service: &Service) -> f64 {
    let mut asked = 0.0;
    let mut client = service.client();
    let mut answer = 0;
    while answer != 200 {
        asked += timed(1, || answer = client.send("GET", "/readyz", None).0)[0];
    }
    service.started_in.as_secs_f64() + asked / 1e3
}
