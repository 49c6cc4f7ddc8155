//! The start after a kill: many finished runs, and many that were open.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::json;

use crate::figure::{Figure, number};
use crate::setup::{Setup, at_once, until};
use crate::skills;
use crate::waiting::ready;

pub fn killed(setup: &Setup<'_>) -> Vec<Figure> {
    const CLIENTS: usize = 16;
    let (finished, open) = (setup.count(10_000, 500), setup.count(1_000, 100));
    let skills = setup.folder.join("skills");
    skills::script(&skills, "quick", "cat >/dev/null\necho '{\"success\":true,\"action\":\"run\",\"data\":{}}'\n");
    skills::script(&skills, "slow", "cat >/dev/null\nexec sleep 600\n");
    let queue = (open + CLIENTS).to_string();
    let settings = [("max_queued_jobs", queue.as_str()), ("max_running_jobs", "4")];
    let service = setup.serve(&settings);
    let many = |count: usize, skill: &str, wait: &str| {
        let created = AtomicUsize::new(0);
        let body = json!({"skill_id": skill, "runtime_options": {"no_cache": true}});
        at_once(CLIENTS, || {
            let mut client = service.client();
            while created.fetch_add(1, Ordering::Relaxed) < count {
                client.json("POST", &format!("/v1/jobs{wait}"), Some(&body));
            }
        })
    };
    many(finished, "quick", "?wait=60");
    many(open, "slow", "");
    // As by `kill -9`: nothing is drained, and the newest finished runs are not sealed.
    drop(service);

    let again = setup.serve(&settings);
    let start = ready(&again);
    let mut client = again.client();
    let mut left = || {
        ["queued", "running"].iter().any(|status| {
            let page = client.json("GET", &format!("/v1/jobs?limit=1&status={status}"), None);
            !page["jobs"].as_array().unwrap().is_empty()
        })
    };
    let began = std::time::Instant::now();
    until("the open runs are recovered", Duration::from_secs(60), || !left());
    let (finished, open) = (number(finished as f64), number(open as f64));
    vec![
        Figure::new(format!("start after a kill with {finished} finished and {open} open runs"), "s", start)
            .at_most(0.3),
        Figure::new("all of them recovered after", "s", start + began.elapsed().as_secs_f64()),
    ]
}
