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

/// What the encoder needs besides the event itself.
pub(super) struct Place<'a> {
    pub(crate) run_id: RunId,
    pub(crate) seq: Seq,
    pub(crate) ts: Timestamp,
    /// The engine's name as JSON text, quotes included.
    pub(crate) engine_json: &'a str,
    pub(crate) attempt: u32,
    pub(crate) local_seq: u64,
}

/// Write one event: the only place where FCMP JSON is made.
pub(super) fn write_envelope(
    out: &mut Vec<u8>,
    place: &Place<'_>,
    event: &Event,
    raw: Option<RawRange>,
) -> serde_json::Result<()> {
    use std::io::Write;
    // Writing to a Vec cannot fail, so the results of `write!` are ignored.
    let _ = write!(
        out,
        r#"{{"protocol_version":"{PROTOCOL_VERSION}","run_id":"{}","seq":{},"ts":"{}","engine":{},"type":"{}","data":"#,
        place.run_id,
        place.seq,
        place.ts,
        place.engine_json,
        event.type_name(),
    );
    event.write_data(out)?;
    let _ = write!(
        out,
        r#","meta":{{"attempt":{},"local_seq":{},"kind":"{}"}},"raw_ref":"#,
        place.attempt,
        place.local_seq,
        event.kind(),
    );
    match raw {
        None => out.extend_from_slice(b"null}"),
        Some(range) => {
            let _ = write!(
                out,
                r#"{{"attempt_number":{},"stream":"{}","byte_from":{},"byte_to":{},"encoding":"utf-8"}}}}"#,
                place.attempt,
                range.stream.as_str(),
                range.from,
                range.to,
            );
        }
    }
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
