//! Runs that are older than they are kept go by themselves; open ones never do.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use serde_json::json;
use skill_runner::domain::time::Timestamp;
use skill_runner::orchestrator::{Clock, WallClock};
use uuid::Uuid;

use super::metrics::scraped;
use crate::support::Server;

/// The machine's clock, put forward.
#[derive(Default)]
struct Forward(AtomicI64);

impl Forward {
    fn days(&self, days: i64) {
        self.0.store(days * 24 * 3600 * 1_000_000, Ordering::Relaxed);
    }
}

impl Clock for Forward {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(WallClock.now().as_micros() + self.0.load(Ordering::Relaxed))
    }

    fn new_id(&self) -> Uuid {
        WallClock.new_id()
    }
}

#[test]
fn runs_go_after_their_days_but_for_the_newest_the_labelled_and_the_open_ones() {
    let clock = Arc::new(Forward::default());
    let settings = [("keep_days", "30"), ("keep_last", "1"), ("keep_labels", "keep:yes=forever,class:scratch=1")];
    let server = Server::with_clock(clock.clone(), &settings);
    let file = json!({"type": "object", "properties": {"doc": {"x-input-source": "file"}}, "required": ["doc"]});
    server.skill("reads", "cat\n", json!({"input": file}));
    server.skill("good", "cat >/dev/null\necho '{\"success\":true,\"data\":{}}'\n", json!({}));
    let finished = |labels: serde_json::Value| {
        let body = json!({"skill_id": "good", "labels": labels, "runtime_options": {"no_cache": true}});
        let (_, run) = server.create_with(&body);
        server.finish(&run);
        run
    };
    let (_, open) = server.create("reads");
    let kept = finished(json!({"keep": "yes", "class": "scratch"}));
    let scratch = finished(json!({"class": "scratch"}));
    let plain = finished(json!({}));
    let newest = finished(json!({}));

    let deleted = || server.block_on(server.orchestrator.retain()).unwrap().runs_deleted;
    let status = |run: &str| server.get(&format!("/v1/jobs/{run}")).status;
    assert_eq!(deleted(), 0);
    clock.days(2);
    assert_eq!((deleted(), status(&scratch), status(&plain)), (1, 404, 200));
    assert!(!server.run_dir(&scratch).exists());
    clock.days(31);
    assert_eq!((deleted(), status(&plain)), (1, 404));
    for run in [&open, &kept, &newest] {
        assert_eq!(status(run), 200, "{run}");
    }
    clock.days(4000);
    assert_eq!((deleted(), status(&open)), (0, 200));
    assert_eq!(scraped(&server).0["skill_runner_retention_deleted_total"], 2.0);
    assert_eq!(server.get("/v1/system").json()["retention"]["keep_days"], 30);
}
