//! The rules by which an append is accepted or refused; every back end applies exactly these.

use bytes::Bytes;

use super::{Append, Error, IndexChange, IndexKey, MAX_APPEND_BYTES};
use crate::domain::ids::Seq;

/// What is wrong with the append itself, whatever the store holds. Needs no lock and no disk.
pub(super) fn check_shape(append: &Append) -> Result<(), Error> {
    let events = append.events.iter().map(|batch| batch.ndjson.len());
    let rows = append.index.iter().map(|change| match change {
        IndexChange::Put(_, row) => row.len(),
        IndexChange::Delete(_) => 0,
    });
    let bytes = events.chain(rows).sum();
    if bytes > MAX_APPEND_BYTES {
        return Err(Error::TooLarge { bytes, limit: MAX_APPEND_BYTES });
    }
    let mut head = append.expected_head;
    for batch in &append.events {
        if let Some(reason) = batch.flaw() {
            return Err(Error::Malformed { reason });
        }
        if batch.first != head.next() {
            return Err(Error::Malformed { reason: format!("a batch begins at {} after {head}", batch.first) });
        }
        head = batch.last();
    }
    Ok(())
}

/// Whether the append fits what is stored, given the run's head, whether its events were deleted, and a way to look up
/// rows. Returns the head it leads to.
pub(super) fn admit(
    append: &Append,
    head: Seq,
    deleted: bool,
    row: impl FnOnce(&IndexKey) -> Result<Option<Bytes>, Error>,
) -> Result<Seq, Error> {
    // The absent row comes first: a repeated request must learn of its first answer, and it cannot
    // know the head that answer led to.
    if let Some(key) = &append.require_absent
        && let Some(value) = row(key)?
    {
        return Err(Error::Taken { value });
    }
    if append.expected_head != head {
        return Err(Error::Conflict { actual: head });
    }
    if deleted && !append.events.is_empty() {
        return Err(Error::Deleted);
    }
    Ok(append.events.last().map_or(head, |batch| batch.last()))
}
