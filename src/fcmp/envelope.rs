//! The envelope around every event, as it is stored and sent.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::bounded;
use crate::domain::event::Event;
use crate::domain::fact::{RawRange, Stream};
use crate::domain::ids::{RunId, Seq};
use crate::domain::time::Timestamp;

/// The protocol's name and version, in every event.
pub(crate) const PROTOCOL_VERSION: &str = "fcmp/1.0";

/// The turn an event belongs to, and its number there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Meta {
    /// Turn of the engine.
    pub(crate) attempt: u32,
    /// Number within the turn.
    pub(crate) local_seq: u64,
    /// Kind in the log.
    pub(crate) kind: String,
}

/// Bytes of a stream's file that an event was read from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RawRef {
    /// Turn of the engine.
    pub(crate) attempt_number: u32,
    pub(crate) stream: Stream,
    pub(crate) byte_from: u64,
    /// Byte after the last.
    pub(crate) byte_to: u64,
    /// How the bytes are shown.
    pub(crate) encoding: String,
}

/// An event read back; `event` is `None` for a type this version does not know.
#[derive(Debug, Clone, PartialEq)]
pub struct Envelope {
    pub(crate) run_id: RunId,
    pub(crate) seq: Seq,
    pub ts: Timestamp,
    pub(crate) engine: String,
    pub(crate) type_name: String,
    pub event: Option<Event>,
    pub(crate) meta: Meta,
    /// The bytes it was read from.
    pub(crate) raw_ref: Option<RawRef>,
}

/// Bytes that are not an FCMP event.
#[derive(Debug, thiserror::Error)]
pub enum NotAnEvent {
    /// Not the envelope's JSON.
    #[error("not an FCMP envelope: {0}")]
    Envelope(#[source] serde_json::Error),
    #[error("protocol version {0:?} is not {PROTOCOL_VERSION:?}")]
    Protocol(String),
    /// Data that does not fit its type.
    #[error("data of {type_name} cannot be read: {source}")]
    Data {
        type_name: String,
        #[source]
        source: serde_json::Error,
    },
}

#[derive(Deserialize)]
struct Stored<'a> {
    protocol_version: String,
    run_id: RunId,
    seq: Seq,
    ts: Timestamp,
    engine: String,
    #[serde(rename = "type")]
    type_name: String,
    #[serde(borrow)]
    data: &'a RawValue,
    meta: Meta,
    raw_ref: Option<RawRef>,
}

/// Read one stored event.
pub fn read_envelope(bytes: &[u8]) -> Result<Envelope, NotAnEvent> {
    let stored: Stored<'_> = bounded::json::from_slice(bytes).map_err(NotAnEvent::Envelope)?;
    if stored.protocol_version != PROTOCOL_VERSION {
        return Err(NotAnEvent::Protocol(stored.protocol_version));
    }
    let event = match Event::read(&stored.type_name, stored.data.get()) {
        None => None,
        Some(Ok(event)) => Some(event),
        Some(Err(source)) => return Err(NotAnEvent::Data { type_name: stored.type_name, source }),
    };
    Ok(Envelope {
        run_id: stored.run_id,
        seq: stored.seq,
        ts: stored.ts,
        engine: stored.engine,
        type_name: stored.type_name,
        event,
        meta: stored.meta,
        raw_ref: stored.raw_ref,
    })
}

/// What all events of one command have in common, as text: it is made once and copied into each of them.
#[derive(Debug, Clone)]
pub(super) struct CommonText {
    ts: Timestamp,
    /// From the event's start to its seq.
    before_seq: String,
    /// From its seq to its type.
    after_seq: String,
}

impl CommonText {
    pub(super) fn new(run_id: RunId, ts: Timestamp, engine: &str) -> Self {
        let before_seq = format!(r#"{{"protocol_version":"{PROTOCOL_VERSION}","run_id":"{run_id}","seq":"#);
        Self { ts, before_seq, after_seq: after_seq(ts, engine) }
    }

    /// Follows the time.
    pub(super) fn at(&mut self, ts: Timestamp, engine: &str) {
        if self.ts != ts {
            *self = Self { ts, before_seq: std::mem::take(&mut self.before_seq), after_seq: after_seq(ts, engine) };
        }
    }
}

fn after_seq(ts: Timestamp, engine: &str) -> String {
    format!(r#","ts":"{ts}","engine":{},"type":""#, serde_json::Value::from(engine))
}

/// What the encoder needs besides the event itself.
pub(super) struct Place<'a> {
    pub(super) common: &'a CommonText,
    pub(super) seq: Seq,
    pub(super) attempt: u32,
    pub(super) local_seq: u64,
}

/// Write one event: the only place where FCMP JSON is made.
pub(super) fn write_envelope(
    out: &mut Vec<u8>,
    place: &Place<'_>,
    event: &Event,
    raw: Option<RawRange>,
) -> serde_json::Result<()> {
    let (text, number) = (Vec::extend_from_slice, |out: &mut Vec<u8>, number: u64| serde_json::to_writer(out, &number));
    text(out, place.common.before_seq.as_bytes());
    number(out, place.seq.0)?;
    text(out, place.common.after_seq.as_bytes());
    text(out, event.type_name().as_bytes());
    text(out, br#"","data":"#);
    event.write_data(out)?;
    text(out, br#","meta":{"attempt":"#);
    number(out, place.attempt.into())?;
    text(out, br#","local_seq":"#);
    number(out, place.local_seq)?;
    text(out, br#","kind":""#);
    text(out, event.kind().as_bytes());
    text(out, br#""},"raw_ref":"#);
    let Some(range) = raw else {
        text(out, b"null}");
        return Ok(());
    };
    text(out, br#"{"attempt_number":"#);
    number(out, place.attempt.into())?;
    text(out, br#","stream":""#);
    text(out, range.stream.as_str().as_bytes());
    text(out, br#"","byte_from":"#);
    number(out, range.from)?;
    text(out, br#","byte_to":"#);
    number(out, range.to)?;
    text(out, br#","encoding":"utf-8"}}"#);
    Ok(())
}

/// The time of a stored event, without reading the rest: `ts` comes before anything an engine wrote.
pub(crate) fn stored_ts(bytes: &[u8]) -> Option<Timestamp> {
    const MARK: &[u8] = b"\"ts\":\"";
    let head = &bytes[..bytes.len().min(256)];
    let at = head.windows(MARK.len()).position(|window| window == MARK)? + MARK.len();
    let len = head[at..].iter().position(|byte| *byte == b'"')?;
    std::str::from_utf8(&head[at..at + len]).ok()?.parse().ok()
}
