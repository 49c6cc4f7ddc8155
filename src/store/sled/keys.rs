//! How events and rows are laid out as keys and values of a database.
//!
//! | key | value |
//! | --- | --- |
//! | `e` run, first seq (u64, big-endian) | tag 1, count (u32), the events |
//! | the same, for an event longer than one value | tag 2, its length (u32), its first bytes |
//! | … followed by part number (u32) | tag 3, its next bytes |
//! | `r` run · `q` request · `i` digest · `c` digest | tag 1, the row |
//! | the same, for a row longer than one value | tag 2, its length (u32), its first bytes |
//! | … followed by part number (u32) | tag 3, its next bytes |
//! | a row's key, where older databases may still hold the row | tag 0: there is no such row |
//! | `d` run | nothing: its events, here and in older databases, are deleted |
//!
//! The index has rows alone, under `m` the bytes they take (u64), and under `s` the newest generation whose rows, and those
//! of all older ones, are in it (u64).
//!
//! A run's events are one range in order, and its last key tells its head.

use bytes::Bytes;
use sled::IVec;
use uuid::Uuid;

use crate::domain::ids::{RequestId, RunId, Seq};
use crate::store::{EventBatch, IndexKey};

/// The longest value. sled keeps up to 16 values in a page (19 for a moment, while pages merge) and moves
/// pages over 128 KiB to files of their own. It does not sync those before the log that points at them, so
/// that loss of power would tear batches apart. 19 of these values stay below.
pub(super) const MAX_VALUE_BYTES: usize = 6 * 1024;

const EVENTS: u8 = b'e';
const RUN: u8 = b'r';
const OPEN: u8 = b'o';
const REQUEST: u8 = b'q';
const IDEMPOTENCY: u8 = b'i';
const CACHE: u8 = b'c';
const SNAPSHOT: u8 = b's';
const DELETED: u8 = b'd';
const EVENT_KEY_LEN: usize = 1 + 16 + 8;
const RUN_ROW_KEY_LEN: usize = 1 + 16;

/// Where the index keeps the number of bytes that its rows take.
pub(super) const ROW_BYTES_KEY: &[u8] = b"m";

/// Where the index keeps the number of the newest generation whose rows, and those of all older ones, are in it.
pub(super) const SETTLED_KEY: &[u8] = b"s";

const TAG_GONE: u8 = 0;
const TAG_WHOLE: u8 = 1;
const TAG_FIRST_PART: u8 = 2;
const TAG_NEXT_PART: u8 = 3;

/// The key under which a value beginning with this event is found.
pub(super) fn event_key(run: &RunId, first: Seq) -> [u8; EVENT_KEY_LEN] {
    let mut key = [EVENTS; EVENT_KEY_LEN];
    key[1..17].copy_from_slice(run.as_bytes());
    key[17..].copy_from_slice(&first.0.to_be_bytes());
    key
}

/// A key after every key of the run's events.
pub(super) fn events_end(run: &RunId) -> [u8; EVENT_KEY_LEN] {
    event_key(run, Seq(u64::MAX))
}

/// The first key of all events, and the first key after them.
pub(super) fn all_events() -> (Vec<u8>, Vec<u8>) {
    (vec![EVENTS], vec![EVENTS + 1])
}

/// The run and the seq of a key of events.
pub(super) fn run_and_seq(key: &[u8]) -> Option<(RunId, Seq)> {
    let seq = Seq(u64::from_be_bytes(key.get(17..EVENT_KEY_LEN)?.try_into().ok()?));
    Some((RunId::from_bytes(key.get(1..17)?.try_into().ok()?), seq))
}

/// The key that says that a run's events are deleted.
pub(super) fn deleted_key(run: &RunId) -> IVec {
    IVec::from([&[DELETED], run.as_bytes().as_slice()].concat())
}

/// The first key of all deleted runs, and the first key after them.
pub(super) fn deleted_keys() -> (Vec<u8>, Vec<u8>) {
    (vec![DELETED], vec![DELETED + 1])
}

/// A stored piece of a run's log.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Piece {
    Whole(EventBatch),
    /// The beginning of one long event, whose full length is given.
    FirstPart {
        seq: Seq,
        len: usize,
        bytes: Bytes,
    },
    /// More of the long event with this seq.
    NextPart {
        seq: Seq,
        bytes: Bytes,
    },
}

impl Piece {
    /// Reads a stored piece; `None` if it is not one.
    pub(super) fn decode(key: &[u8], value: IVec) -> Option<Piece> {
        let (_, seq) = run_and_seq(key)?;
        let value = Bytes::from_owner(value);
        match *value.first()? {
            TAG_WHOLE => {
                Some(Piece::Whole(EventBatch { first: seq, count: number(&value)?, ndjson: value.slice(5..) }))
            }
            TAG_FIRST_PART => {
                Some(Piece::FirstPart { seq, len: usize::try_from(number(&value)?).ok()?, bytes: value.slice(5..) })
            }
            TAG_NEXT_PART => Some(Piece::NextPart { seq, bytes: value.slice(1..) }),
            _ => None,
        }
    }

    /// The last event that the piece holds or is part of.
    pub(super) fn last(&self) -> Seq {
        match self {
            Piece::Whole(batch) => batch.last(),
            Piece::FirstPart { seq, .. } | Piece::NextPart { seq, .. } => *seq,
        }
    }
}

fn number(value: &[u8]) -> Option<u32> {
    Some(u32::from_be_bytes(value.get(1..5)?.try_into().ok()?))
}

/// Lays consecutive batches out as keys and values. Small batches share a value.
pub(super) fn lay_out(run: &RunId, batches: &[EventBatch], mut put: impl FnMut(IVec, IVec)) {
    let mut open: Option<EventBatchBuilder> = None;
    for batch in batches {
        let mut rest = Some(batch.clone());
        while let Some(batch) = rest {
            let free = MAX_VALUE_BYTES - open.as_ref().map_or(0, EventBatchBuilder::len);
            let part = batch.fitting(free);
            if part.ndjson.len() <= free {
                open.get_or_insert_with(|| EventBatchBuilder::at(part.first)).push(&part);
                rest = batch.after(part.last());
            } else if let Some(full) = open.take() {
                full.finish(run, &mut put);
                rest = Some(batch);
            } else {
                lay_out_long(run, &part, &mut put);
                rest = batch.after(part.last());
            }
        }
    }
    if let Some(last) = open {
        last.finish(run, &mut put);
    }
}

/// A value being filled.
struct EventBatchBuilder {
    first: Seq,
    count: u32,
    /// The tag, room for the count, the events.
    value: Vec<u8>,
}

impl EventBatchBuilder {
    const HEAD: usize = 5;

    fn at(first: Seq) -> Self {
        EventBatchBuilder { first, count: 0, value: vec![TAG_WHOLE, 0, 0, 0, 0] }
    }

    /// How many bytes of events it holds.
    fn len(&self) -> usize {
        self.value.len() - Self::HEAD
    }

    fn push(&mut self, batch: &EventBatch) {
        self.count += batch.count;
        self.value.extend_from_slice(&batch.ndjson);
    }

    fn finish(mut self, run: &RunId, put: &mut impl FnMut(IVec, IVec)) {
        self.value[1..Self::HEAD].copy_from_slice(&self.count.to_be_bytes());
        put(IVec::from(&event_key(run, self.first)), IVec::from(self.value));
    }
}

/// One event longer than a value, in parts.
fn lay_out_long(run: &RunId, event: &EventBatch, put: &mut impl FnMut(IVec, IVec)) {
    lay_out_parts(&event_key(run, event.first), &event.ndjson, put);
}

fn lay_out_parts(key: &[u8], bytes: &[u8], put: &mut impl FnMut(IVec, IVec)) {
    // Appends, and so events, are at most 1 MiB long, and rows are refused beyond that.
    let len = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    for (part, bytes) in (0_u32..).zip(bytes.chunks(MAX_VALUE_BYTES)) {
        let number = (part == 0).then_some(len);
        let tag = if part == 0 { TAG_FIRST_PART } else { TAG_NEXT_PART };
        put(part_key(key, part), tagged(tag, number, bytes));
    }
}

fn part_key(key: &[u8], part: u32) -> IVec {
    if part == 0 { IVec::from(key) } else { IVec::from([key, &part.to_be_bytes()].concat()) }
}

fn tagged(tag: u8, number: Option<u32>, bytes: &[u8]) -> IVec {
    let mut value = Vec::with_capacity(5 + bytes.len());
    value.push(tag);
    value.extend(number.into_iter().flat_map(u32::to_be_bytes));
    value.extend_from_slice(bytes);
    IVec::from(value)
}

/// The key of an index row.
pub(super) fn row_key(key: &IndexKey) -> Vec<u8> {
    let (prefix, id): (u8, &[u8]) = match key {
        IndexKey::Run(run) => (RUN, run.as_bytes()),
        IndexKey::Request(request) => (REQUEST, request.as_bytes()),
        IndexKey::Idempotency(digest) => (IDEMPOTENCY, digest),
        IndexKey::Cache(digest) => (CACHE, digest),
        IndexKey::Open(run) => (OPEN, run.as_bytes()),
        IndexKey::Snapshot(run) => (SNAPSHOT, run.as_bytes()),
    };
    [&[prefix], id].concat()
}

/// A key up to the first of all run rows, and the first key after them.
///
/// They are read backwards. sled, on arriving at a page that begins with the very start of the range, looks for another
/// page before it, and never ends if the keys there begin with four bytes of 255. No page begins before this start and
/// within the rows.
pub(super) fn run_rows() -> (Vec<u8>, Vec<u8>) {
    (vec![RUN, 0], vec![RUN + 1])
}

/// The first key of all open marks, and the first key after them.
pub(super) fn open_rows() -> (Vec<u8>, Vec<u8>) {
    (vec![OPEN], vec![OPEN + 1])
}

/// The run whose row begins with this key; `None` for the further parts of a row.
pub(super) fn run_of_row(key: &[u8]) -> Option<RunId> {
    let id = key.get(1..).filter(|_| key.len() == RUN_ROW_KEY_LEN)?;
    Some(RunId::from_bytes(id.try_into().ok()?))
}

/// The row that begins with this key; `None` for the further parts of a row, and for keys of other things.
pub(super) fn index_key(key: &[u8]) -> Option<IndexKey> {
    let (prefix, id) = key.split_first()?;
    match *prefix {
        RUN => Some(IndexKey::Run(RunId::from_bytes(id.try_into().ok()?))),
        OPEN => Some(IndexKey::Open(RunId::from_bytes(id.try_into().ok()?))),
        REQUEST => Some(IndexKey::Request(RequestId(Uuid::from_bytes(id.try_into().ok()?)))),
        IDEMPOTENCY => Some(IndexKey::Idempotency(id.try_into().ok()?)),
        CACHE => Some(IndexKey::Cache(id.try_into().ok()?)),
        SNAPSHOT => Some(IndexKey::Snapshot(RunId::from_bytes(id.try_into().ok()?))),
        _ => None,
    }
}

/// For each kind of row, the first key and the first key after them.
pub(super) fn all_rows() -> impl Iterator<Item = (Vec<u8>, Vec<u8>)> {
    [RUN, OPEN, REQUEST, IDEMPOTENCY, CACHE].into_iter().map(|prefix| (vec![prefix], vec![prefix + 1]))
}

/// The value that stands for a row that is gone.
pub(super) fn gone() -> IVec {
    IVec::from(&[TAG_GONE])
}

/// Lays a row out as keys and values.
pub(super) fn lay_out_row(key: &IndexKey, row: &[u8], mut put: impl FnMut(IVec, IVec)) {
    let key = row_key(key);
    if row.len() <= MAX_VALUE_BYTES {
        put(IVec::from(key), tagged(TAG_WHOLE, None, row));
    } else {
        lay_out_parts(&key, row, &mut put);
    }
}

/// All keys that a row of this length has.
pub(super) fn keys_of_row(key: &IndexKey, len: usize) -> impl Iterator<Item = IVec> {
    let key = row_key(key);
    let parts = u32::try_from(len.div_ceil(MAX_VALUE_BYTES).max(1)).unwrap_or(u32::MAX);
    (0..parts).map(move |part| part_key(&key, part))
}

/// What the first value of a row holds.
pub(super) enum RowStart {
    /// There is no such row any more.
    Gone,
    /// All of it. Copied, because a slice would keep its page alive.
    Whole(Bytes),
    /// The beginning of a row of this length.
    FirstPart(usize),
}

/// Reads the first value of a row; `None` if it is not one.
pub(super) fn row_start(value: &[u8]) -> Option<RowStart> {
    match *value.first()? {
        TAG_GONE => Some(RowStart::Gone),
        TAG_WHOLE => Some(RowStart::Whole(Bytes::copy_from_slice(&value[1..]))),
        TAG_FIRST_PART => Some(RowStart::FirstPart(usize::try_from(number(value)?).ok()?)),
        _ => None,
    }
}

/// The bytes that one part of a row contributes; `None` if it is not one.
pub(super) fn row_part(value: &[u8]) -> Option<&[u8]> {
    match *value.first()? {
        TAG_FIRST_PART => value.get(5..),
        TAG_NEXT_PART => value.get(1..),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_of_every_kind_of_row_is_read_back() {
        let run = RunId::from_bytes([7; 16]);
        let keys = [
            IndexKey::Run(run),
            IndexKey::Open(run),
            IndexKey::Request(RequestId(run.0)),
            IndexKey::Idempotency([8; 32]),
            IndexKey::Cache([9; 32]),
            IndexKey::Snapshot(run),
        ];
        for (key, (first, end)) in keys.iter().zip(all_rows()) {
            let stored = row_key(key);
            assert!(first < stored && stored < end);
            assert_eq!(index_key(&stored), Some(*key));
            assert_eq!(index_key(&part_key(&stored, 1)), None);
        }
    }

    #[test]
    fn small_batches_share_a_value_and_a_long_event_gets_parts() {
        let run = RunId::from_bytes([7; 16]);
        let batch = |first, texts: &[&str]| EventBatch {
            first: Seq(first),
            count: texts.len() as u32,
            ndjson: texts.iter().map(|text| format!("{text}\n")).collect::<String>().into(),
        };
        let long = "x".repeat(MAX_VALUE_BYTES + 9);
        let mut pieces = Vec::new();
        lay_out(&run, &[batch(1, &["a", "b"]), batch(3, &["c", &long, "d"])], |key, value| {
            pieces.push(Piece::decode(&key, value).unwrap());
        });
        let bytes = Bytes::from(format!("{long}\n"));
        let expected = vec![
            Piece::Whole(batch(1, &["a", "b", "c"])),
            Piece::FirstPart { seq: Seq(4), len: bytes.len(), bytes: bytes.slice(..MAX_VALUE_BYTES) },
            Piece::NextPart { seq: Seq(4), bytes: bytes.slice(MAX_VALUE_BYTES..) },
            Piece::Whole(batch(5, &["d"])),
        ];
        assert_eq!(pieces, expected);
    }
}
