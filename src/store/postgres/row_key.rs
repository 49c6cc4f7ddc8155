//! Which table a row of the index is in.

use uuid::Uuid;

use crate::store::IndexKey;

/// The place of a row.
pub(super) enum RowKey {
    /// The state row of a run, in its own row.
    State(Uuid),
    /// The mark of a run with unfinished work, likewise.
    Open(Uuid),
    /// By kind and key.
    Other(i16, Vec<u8>),
}

pub(super) fn key_of(key: &IndexKey) -> RowKey {
    match key {
        IndexKey::Run(run) => RowKey::State(run.0),
        IndexKey::Open(run) => RowKey::Open(run.0),
        IndexKey::Request(request) => RowKey::Other(1, request.as_bytes().to_vec()),
        IndexKey::Idempotency(digest) => RowKey::Other(2, digest.to_vec()),
        IndexKey::Cache(digest) => RowKey::Other(3, digest.to_vec()),
        IndexKey::Snapshot(run) => RowKey::Other(4, run.as_bytes().to_vec()),
    }
}
