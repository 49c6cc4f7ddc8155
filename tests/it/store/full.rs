//! The store on a disk without a free block: who deletes to make room can do so.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use skill_runner::domain::ids::Seq;
use skill_runner::store::{Error, EventStore, SledStore, Space, contract};

use crate::support::disk::Disk;

const DISK_BYTES: u64 = 240 << 20;

/// Small generations, and nothing is made smaller while the test looks.
const MANY_GENERATIONS: Space = Space {
    generation_bytes: 1 << 20,
    quiet_slack_bytes: 1 << 30,
    quiet: Duration::from_secs(1),
    index_slack_bytes: 1 << 30,
};

fn open(data: &Path) -> SledStore {
    SledStore::open_with(data, MANY_GENERATIONS, |error| panic!("{error:?}")).unwrap()
}

/// The databases of all generations, in their order; the first may be gone already.
fn generations(data: &Path) -> Vec<PathBuf> {
    (1..100).map(|number| data.join(format!("store/generation-{number}/db"))).filter(|path| path.exists()).collect()
}

/// Gives up the room that the databases had set aside, as sled does whenever it cuts a file, and takes every block for others.
fn leave_nothing(disk: &Disk, data: &Path) {
    for database in generations(data) {
        let file = File::options().write(true).open(&database).unwrap();
        file.set_len(file.metadata().unwrap().len()).unwrap();
    }
    Disk::fill(&disk.mount_point);
}

#[tokio::test]
async fn runs_can_be_deleted_though_others_took_the_last_block_of_the_disk() {
    let dir = tempfile::tempdir().unwrap();
    let Some(disk) = Disk::make(dir.path(), DISK_BYTES) else { return };
    let data = disk.mount_point.join("data");
    let store = open(&data);
    for n in 0..40 {
        store.append(contract::events(contract::run(n), Seq(0), 3)).await.unwrap();
    }
    for round in 0..2 {
        leave_nothing(&disk, &data);
        let refused = store.append(contract::events(contract::run(99), Seq(0), 1)).await;
        assert!(matches!(refused, Err(Error::Full { .. })), "{refused:?}");
        for n in round * 20..round * 20 + 20 {
            store.delete_run(&contract::run(n), vec![]).await.unwrap();
            assert_eq!(store.head(&contract::run(n)).await.unwrap(), Seq::START);
        }
        // When there is room, new things are taken and room is kept for the next time.
        std::fs::remove_file(disk.mount_point.join("filler")).unwrap();
        store.append(contract::events(contract::run(100 + round), Seq(0), 3)).await.unwrap();
    }
    drop(store);
    let store = open(&data);
    for n in 0..40 {
        assert_eq!(store.head(&contract::run(n)).await.unwrap(), Seq::START);
    }
    assert_eq!(contract::holds_whole_log(&store, contract::run(101)).await.unwrap(), Seq(3));
}

#[tokio::test]
async fn runs_of_any_age_can_be_deleted_on_a_full_disk_and_the_others_are_whole() {
    let dir = tempfile::tempdir().unwrap();
    let Some(disk) = Disk::make(dir.path(), DISK_BYTES) else { return };
    let data = disk.mount_point.join("data");
    let store = open(&data);
    let mut runs = 0;
    // More generations than are kept in memory.
    while generations(&data).len() < 5 {
        store.append(contract::events(contract::run(runs), Seq(0), 300)).await.unwrap();
        runs += 1;
    }
    leave_nothing(&disk, &data);
    for n in (0..runs).filter(|n| n.is_multiple_of(2)) {
        store.delete_run(&contract::run(n), vec![]).await.unwrap();
    }
    std::fs::remove_file(disk.mount_point.join("filler")).unwrap();
    drop(store);
    let store = open(&data);
    for n in 0..runs {
        let head = if n.is_multiple_of(2) { 0 } else { 300 };
        assert_eq!(contract::holds_whole_log(&store, contract::run(n)).await.unwrap(), Seq(head));
    }
}
