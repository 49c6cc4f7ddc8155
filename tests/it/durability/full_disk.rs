//! The disk is filled to its last byte at the moment of one call.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use skill_runner::domain::ids::Seq;
use skill_runner::store::{Error, EventStore, SledStore, contract};

use super::DATABASE;
use crate::support::disk::Disk;
use crate::support::file_calls::{Deed, FileCall, Judgement, Watch};

/// Set in the process that has this test alone.
const ALONE: &str = "SKILL_RUNNER_TEST_ALONE";
const DISK_BYTES: u64 = 160 << 20;

/// Fills the disk when a call comes for which `at` holds, before it is made.
fn fill_at(watch: &Watch, disk: &Disk, at: fn(&FileCall) -> bool) -> Arc<AtomicBool> {
    let (filled, mount_point) = (Arc::new(AtomicBool::new(false)), disk.mount_point.clone());
    let told = filled.clone();
    watch.judge(move |call| {
        if at(call) && !told.swap(true, Ordering::Relaxed) {
            Disk::fill(&mount_point);
        }
        Judgement::Pass
    });
    filled
}

fn make_room(disk: &Disk) {
    std::fs::remove_file(disk.mount_point.join("filler")).unwrap();
}

#[test]
fn an_append_is_written_though_the_disk_is_filled_behind_its_back_and_the_next_is_refused() {
    if std::env::var_os(ALONE).is_none() {
        // sled's threads are shared by a whole process: those that another test started are not watched.
        let name = "durability::full_disk::an_append_is_written_though_the_disk_is_filled_behind_its_back_and_the_next_is_refused";
        let test = std::env::current_exe().unwrap();
        let ended = std::process::Command::new(test).args([name, "--exact", "--nocapture"]).env(ALONE, "1").status();
        assert!(ended.unwrap().success());
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let Some(disk) = Disk::make(folder.path(), DISK_BYTES) else { return };
    let data = disk.mount_point.join("data");
    let opened = Watch::thread(&disk.mount_point, move || SledStore::open(&data, |error| panic!("{error:?}")).unwrap());
    let Some((store, watch)) = opened else { return };
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let run = contract::run(1);
    runtime.block_on(store.append(contract::events(run, Seq(0), 3))).unwrap();
    let filled = fill_at(&watch, &disk, |call| call.deed == Deed::Write && call.path == DATABASE);
    assert_eq!(runtime.block_on(store.append(contract::events(run, Seq(3), 300))).unwrap(), Seq(303));
    assert!(filled.load(Ordering::Relaxed));
    let refused = runtime.block_on(store.append(contract::events(run, Seq(303), 1)));
    assert!(matches!(refused, Err(Error::Full { .. })), "{refused:?}");
    runtime.block_on(store.delete_events(&contract::run(2))).unwrap();
    make_room(&disk);
    assert_eq!(runtime.block_on(store.append(contract::events(run, Seq(303), 1))).unwrap(), Seq(304));
    assert_eq!(runtime.block_on(contract::holds_whole_log(&store, run)).unwrap(), Seq(304));
    drop(store);
}
