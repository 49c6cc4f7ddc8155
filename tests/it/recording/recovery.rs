//! A run of a service that died is ended by the next one, also if the store refuses that half-way.

use std::path::PathBuf;

use serde_json::Value;
use skill_runner::domain::fact::Stream;
use skill_runner::domain::ids::{RunId, Seq};
use skill_runner::store::Error;
use tempfile::TempDir;

use super::held_store::HeldStore;
use super::{Run, ended, started, types};

/// What happens on a runtime of its own ends with it, wherever it is.
fn life<T>(lived: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap().block_on(lived)
}

/// A service died while a run was under way, whose last output is in its file and not in its log.
fn died() -> (TempDir, HeldStore, RunId) {
    life(async {
        let mut run = Run::begin().await;
        run.store.hold();
        run.says(Stream::Stderr, "last words\n").await;
        Run::everybody_acts().await;
        assert_eq!(run.store.appends(), [1, 2], "its words are not in the log");
        let Run { store, id, _folder, .. } = run;
        (_folder, store, id)
    })
}

fn full() -> Option<Error> {
    Some(Error::Full { path: PathBuf::from("the disk"), available: 0 })
}

fn overtaken() -> Option<Error> {
    Some(Error::Conflict { actual: Seq(4) })
}

/// The events behind its start, as a restart ends such a run.
fn ends_as_interrupted(events: &[Value]) {
    let ends = ["raw.stderr", "run.recovered", "conversation.state.changed", "conversation.failed"];
    assert_eq!(types(&events[3..]), ends);
    assert_eq!(events.last().unwrap()["data"]["error"]["code"], "ORCHESTRATOR_RESTART_INTERRUPTED");
}

#[test]
fn a_run_whose_recovery_the_store_refused_half_way_is_recovered_later() {
    // The first attempt fails at once, the second after it has logged the last output.
    for refusals in [[full(), None, full()], [full(), None, overtaken()], [overtaken(), None, full()]] {
        let (folder, store, run) = died();
        store.release();
        store.refuse_next(refusals);
        let events = life(async {
            let (service, _engines) = started(folder.path(), &store).await;
            ended(&service, run).await
        });
        ends_as_interrupted(&events);
    }
}

#[test]
fn a_run_whose_cancel_the_store_refused_half_way_is_recovered_all_the_same() {
    let (folder, store, run) = died();
    store.release();
    store.refuse_next([full(), None, full()]);
    let events = life(async {
        let (service, _engines) = started(folder.path(), &store).await;
        service.cancel(run, "client", "enough").await.unwrap_err();
        ended(&service, run).await
    });
    ends_as_interrupted(&events);
}
