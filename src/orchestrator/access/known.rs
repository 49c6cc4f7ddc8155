//! The records of one kind as this service last read them, brought up to date by one cheap question that many share.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use tokio::sync::Mutex;

use crate::store::{Cluster, Error, RecordList};

/// A copy of the records of one kind.
pub(crate) struct KnownRecords<T> {
    cluster: Arc<dyn Cluster>,
    kind: &'static str,
    read: fn(RecordList) -> T,
    known: RwLock<Known<T>>,
    /// How many have asked.
    asked: AtomicU64,
    /// For how many of them somebody has looked.
    looked: Mutex<u64>,
}

struct Known<T> {
    /// `None` before the first look.
    revision: Option<u64>,
    value: Arc<T>,
}

impl<T> KnownRecords<T> {
    /// Nothing is known before the first [`KnownRecords::look`].
    pub(crate) fn new(cluster: Arc<dyn Cluster>, kind: &'static str, read: fn(RecordList) -> T) -> Self {
        let value = Arc::new(read(RecordList::default()));
        let known = RwLock::new(Known { revision: None, value });
        Self { cluster, kind, read, known, asked: AtomicU64::new(0), looked: Mutex::new(0) }
    }

    /// Brings the copy up to date: whatever was acknowledged to anybody before this call is in it afterwards. Those who call at the
    /// same time share one question, which was sent after the last of them called.
    pub(crate) async fn look(&self) -> Result<(), Error> {
        let mine = self.asked.fetch_add(1, Ordering::SeqCst) + 1;
        let mut looked = self.looked.lock().await;
        if *looked >= mine {
            return Ok(());
        }
        let all = self.asked.load(Ordering::SeqCst);
        let revision = self.cluster.record_revisions(&[self.kind]).await?.first().copied();
        if revision.is_none() || self.revision() != revision {
            let list = self.cluster.records(self.kind).await?;
            let known = Known { revision: Some(list.revision), value: Arc::new((self.read)(list)) };
            *self.known.write().unwrap_or_else(PoisonError::into_inner) = known;
        }
        *looked = all;
        Ok(())
    }

    /// The copy as it is.
    pub(crate) fn now(&self) -> Arc<T> {
        self.known.read().unwrap_or_else(PoisonError::into_inner).value.clone()
    }

    /// The revision of the copy; the same one means that nothing was changed.
    pub(crate) fn revision(&self) -> Option<u64> {
        self.known.read().unwrap_or_else(PoisonError::into_inner).revision
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::orchestrator::access::store_for_several;
    use crate::store::{Expected, MemoryNode, NodeId, RecordChange};

    #[tokio::test]
    async fn a_look_finds_what_others_changed_and_nothing_is_read_again_without_a_change() {
        let store = store_for_several();
        let node = |n| Arc::new(MemoryNode::new(store.clone(), NodeId(Uuid::from_u128(n))));
        let (one, other) = (node(1), node(2));
        let known = KnownRecords::new(one, "tries", |list| {
            list.records.into_iter().map(|record| record.key).collect::<Vec<_>>()
        });
        assert_eq!(known.revision(), None);
        known.look().await.unwrap();
        let first = known.now();
        assert!(first.is_empty());
        known.look().await.unwrap();
        assert!(Arc::ptr_eq(&first, &known.now()), "nothing was changed");
        let (key, value) = ("a".to_owned(), Some("1".into()));
        let change =
            RecordChange { kind: "tries", key, expected: Expected::Absent, value, files: Vec::new(), put_after: 0 };
        crate::store::Records::change_record(&*other, change).await.unwrap();
        let (first, second) = tokio::join!(known.look(), known.look());
        assert!(first.is_ok() && second.is_ok());
        assert_eq!(*known.now(), ["a"]);
    }
}
