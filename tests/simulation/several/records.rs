//! What nodes share besides runs, as one of them reaches it.

use std::time::Duration;

use skill_runner::store::{
    BoxFuture, Changed, Error, FileHash, Record, RecordChange, RecordList, Records, Removals, Turn,
};
use tokio::sync::watch;

use super::store::NodeStore;

impl Records for NodeStore {
    fn record(&self, kind: &'static str, key: &str) -> BoxFuture<'_, Result<Option<Record>, Error>> {
        let key = key.to_owned();
        self.question(move || self.node.record(kind, &key))
    }

    fn records(&self, kind: &'static str) -> BoxFuture<'_, Result<RecordList, Error>> {
        self.question(move || self.node.records(kind))
    }

    fn record_revisions(&self, kinds: &[&'static str]) -> BoxFuture<'_, Result<Vec<u64>, Error>> {
        let kinds = kinds.to_vec();
        self.question(move || self.node.record_revisions(&kinds))
    }

    fn change_record(&self, change: RecordChange) -> BoxFuture<'_, Result<Changed, Error>> {
        self.change(move || self.node.change_record(change))
    }

    fn records_changed(&self) -> watch::Receiver<u64> {
        self.node.records_changed()
    }
}

impl Removals for NodeStore {
    fn take_turn(&self, every: Duration) -> BoxFuture<'_, Result<Option<Turn>, Error>> {
        self.question(move || self.node.take_turn(every))
    }

    fn looked_at(&self, up_to: Option<FileHash>) -> BoxFuture<'_, Result<bool, Error>> {
        self.question(move || self.node.looked_at(up_to))
    }

    fn look_again(&self) -> BoxFuture<'_, Result<(), Error>> {
        self.question(move || self.node.look_again())
    }

    fn begin_removal(&self, among: &[FileHash]) -> BoxFuture<'_, Result<Vec<FileHash>, Error>> {
        let among = among.to_vec();
        self.question(move || self.node.begin_removal(&among))
    }

    fn begun_long_ago(&self) -> BoxFuture<'_, Result<Vec<FileHash>, Error>> {
        self.question(move || self.node.begun_long_ago())
    }

    fn end_removal(&self, removed: &[FileHash], left: &[FileHash]) -> BoxFuture<'_, Result<(), Error>> {
        let (removed, left) = (removed.to_vec(), left.to_vec());
        self.question(move || self.node.end_removal(&removed, &left))
    }
}
