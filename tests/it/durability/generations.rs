//! The databases of the store come and go: each step is on the disk before the next relies on it.

use skill_runner::domain::ids::Seq;
use skill_runner::store::{EventStore, SledStore, contract};

use super::{DATABASE, first, is_alone, not_durable};
use crate::store::LITTLE;
use crate::support::file_calls::{Deed, FileCall, Watch};

const OLD: &str = "data/store/generation-1.old";

#[test]
fn a_database_is_on_the_disk_before_it_is_used_and_its_end_before_it_is_removed() {
    if !is_alone("generations::a_database_is_on_the_disk_before_it_is_used_and_its_end_before_it_is_removed") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let open = move || SledStore::open_with(&data, LITTLE, |error| panic!("{error:?}")).unwrap();
    let Some((store, watch)) = Watch::thread(folder.path(), open) else { return };
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    // What is written to a database is synced with each append; that is looked at elsewhere.
    let not_durable_but_databases = |calls: &[FileCall], below: &str| {
        let mut found = not_durable(calls, below);
        found.retain(|(what, path)| *what == "name" || !path.ends_with("/db") && !path.ends_with("/spare"));
        found
    };
    let mut calls = watch.take();
    assert!(calls.iter().any(|call| call.deed == Deed::Create && call.path == DATABASE), "{calls:#?}");
    assert_eq!(not_durable_but_databases(&calls, "data/store"), [], "the store is open");

    let kept = contract::run(1);
    runtime.block_on(store.append(contract::events(kept, Seq(0), 3))).unwrap();
    // Where the second generation is first written to, when it is made.
    let used = |calls: &[FileCall]| {
        let made = calls.iter().position(|call| call.deed == Deed::Sync && call.path == "data/store/generation-2")?;
        let is_use = |call: &FileCall| call.deed == Deed::Write && call.path == "data/store/generation-2/db";
        calls[made..].iter().position(is_use).map(|at| made + at)
    };
    let mut runs = Vec::new();
    let used = loop {
        runs.push(contract::run(2 + runs.len() as u128));
        runtime.block_on(store.append(contract::events(runs[runs.len() - 1], Seq(0), 50))).unwrap();
        calls.extend(watch.take());
        if let Some(used) = used(&calls) {
            break used;
        }
    };
    assert_eq!(not_durable_but_databases(&calls[..used], "data/store/generation-2"), [], "it is used");

    for run in runs {
        runtime.block_on(store.delete_run(&run, vec![])).unwrap();
    }
    let removed = |call: &FileCall| call.deed == Deed::Remove && call.path.starts_with(OLD);
    calls.extend(super::until(&watch, |calls| calls.iter().any(removed)));
    let set_aside = first(&calls, 0, |call| call.to.as_deref() == Some(OLD));
    let removed = first(&calls, set_aside, removed);
    assert_eq!(not_durable(&calls[set_aside..removed], OLD), [], "its name is given up for good");
    assert_eq!(runtime.block_on(contract::holds_whole_log(&store, kept)).unwrap(), Seq(3));
    drop(store);
}
