//! Where a field of a result came from: the trail of events that leads to it.

use std::ops::Range;

use serde::Serialize;

use crate::domain::event::{Event, NormalizationLevel, NormalizationStep, Normalized};
use crate::domain::fact::Stream;
use crate::domain::ids::{RequestId, RunId, Seq};

/// Where a field of a result came from.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Explanation {
    /// The client's name for the run.
    pub(crate) request_id: RequestId,
    pub(crate) run_id: RunId,
    pub(crate) path: String,
    pub(crate) value: serde_json::Value,
    /// Its place in the result.
    pub(crate) result: FilePlace,
    /// The step of validation that made it valid; none for a result that was taken from another run.
    pub(crate) validation: Option<Validation>,
    /// Where it was before.
    pub(crate) origin: Origin,
}

/// Bytes of a file of the run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct FilePlace {
    /// Its path in the run's folder.
    pub(crate) file: String,
    pub(crate) byte_from: u64,
    /// Byte after the last.
    pub(crate) byte_to: u64,
}

/// How the output was validated.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Validation {
    /// The event that says so.
    pub(crate) seq: Seq,
    /// How much the output had to be changed.
    pub(crate) level: NormalizationLevel,
    /// Whether it fits its schema.
    pub(crate) valid: bool,
    /// Where it was found.
    pub(crate) source: String,
    /// The steps, in order.
    pub(crate) steps: Vec<NormalizationStep>,
}

/// How narrow a place is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Precision {
    /// The field's own bytes.
    Field,
    /// All bytes of the event that held it: the field is not there in the form it has in the result.
    Event,
    /// All bytes of the file, for the same reason.
    File,
}

/// Where a field was before it was in the result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(crate) enum Origin {
    /// The engine wrote it.
    Stream {
        /// How narrow the place is.
        precision: Precision,
        /// The event that held it.
        seq: Seq,
        #[serde(rename = "type")]
        type_name: String,
        stream: Stream,
        byte_from: u64,
        /// Byte after the last.
        byte_to: u64,
    },
    /// It was in a file.
    File {
        /// How narrow the place is.
        precision: Precision,
        #[serde(flatten)]
        place: FilePlace,
    },
    /// It was taken from an equal run.
    Run {
        /// The event that says so.
        seq: Seq,
        /// That run; it can be explained in its turn.
        source_run_id: RunId,
    },
    /// The log does not show it.
    Unknown,
}

/// An event that refers to bytes of an engine's output and so may hold the field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Candidate {
    pub(crate) seq: Seq,
    pub(crate) type_name: String,
    pub(crate) stream: Stream,
    pub(crate) bytes: Range<u64>,
    /// Whether the assistant says something with it.
    pub(crate) is_message: bool,
}

/// What a run's events tell about its output.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Trail {
    /// The last step of validation.
    pub(crate) validation: Option<Validation>,
    /// The run whose result was taken.
    pub(crate) taken_from: Option<(Seq, RunId)>,
    /// The events of the last turn that may hold it, in the order of the log.
    pub(crate) candidates: Vec<Candidate>,
    attempt: u32,
}

impl Trail {
    /// Take the next event of the log.
    pub(crate) fn push(&mut self, attempt: u32, seq: Seq, event: &Event, bytes: Option<(Stream, Range<u64>)>) {
        if attempt != self.attempt {
            // The output is from the last turn.
            self.candidates.clear();
            self.attempt = attempt;
        }
        match event {
            Event::Normalized(Normalized { level, valid, source, steps, .. }) => {
                let (source, steps) = (source.clone(), steps.clone());
                self.validation = Some(Validation { seq, level: *level, valid: *valid, source, steps });
            }
            Event::CacheHit(hit) => self.taken_from = Some((seq, hit.source_run_id)),
            _ => {}
        }
        if let Some((stream @ (Stream::Stdout | Stream::Pty), bytes)) = bytes {
            let is_message = matches!(event, Event::AssistantMessage(_));
            self.candidates.push(Candidate { seq, type_name: event.type_name().to_owned(), stream, bytes, is_message });
        }
    }

    /// Whether the output was in a file, not in what the engine printed.
    pub(crate) fn in_a_file(&self) -> bool {
        let spoken = ["stdout", "assistant_message", "structured_output", "repair"];
        self.validation.as_ref().is_some_and(|validation| !spoken.contains(&validation.source.as_str()))
    }

    /// The bytes of the last turn: those its events refer to, from the first to the last.
    pub(crate) fn turn(&self) -> Option<(Stream, Range<u64>)> {
        let last = self.candidates.last()?;
        let first = self.candidates.iter().find(|candidate| candidate.stream == last.stream)?;
        Some((last.stream, first.bytes.start..last.bytes.end))
    }

    /// The origin, given all places of the field in the stream: the last one in a message if the output was a message, else
    /// the last of all; without any place, the last event that may hold it.
    pub(crate) fn spoken(&self, places: &[Range<u64>]) -> Origin {
        let source = self.validation.as_ref().map_or("", |validation| validation.source.as_str());
        // A repair is what the assistant said when it was asked once more.
        let message = matches!(source, "assistant_message" | "repair");
        let stream = self.turn().map(|(stream, _)| stream);
        // The bytes of a stream are logged in order.
        let of_stream: Vec<&Candidate> =
            self.candidates.iter().filter(|candidate| Some(candidate.stream) == stream).collect();
        let candidate_at = |place: &Range<u64>| {
            let at = of_stream.partition_point(|candidate| candidate.bytes.end <= place.start);
            of_stream.get(at).filter(|candidate| candidate.bytes.contains(&place.start)).copied()
        };
        let found: Vec<_> = places.iter().filter_map(|place| Some((candidate_at(place)?, place))).collect();
        let in_message = found.iter().rev().find(|(candidate, _)| message && candidate.is_message);
        if let Some((candidate, place)) = in_message.or(found.last()) {
            return candidate.origin(Precision::Field, place);
        }
        let said = self.candidates.iter().rev().find(|candidate| message && candidate.is_message);
        match said.or(self.candidates.last()) {
            Some(candidate) => candidate.origin(Precision::Event, &candidate.bytes),
            None => Origin::Unknown,
        }
    }
}

impl Candidate {
    fn origin(&self, precision: Precision, place: &Range<u64>) -> Origin {
        Origin::Stream {
            precision,
            seq: self.seq,
            type_name: self.type_name.clone(),
            stream: self.stream,
            byte_from: place.start,
            byte_to: place.end,
        }
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::domain::event::{AssistantMessage, CacheHit, RawText};

    fn said(text: &str) -> Event {
        Event::AssistantMessage(AssistantMessage { message_id: "m".into(), text: text.into() })
    }

    fn raw() -> Event {
        Event::RawStdout(RawText { text: String::new() })
    }

    fn validated(source: &str) -> Event {
        let (level, source) = (NormalizationLevel::None, source.to_owned());
        Event::Normalized(Normalized { level, valid: true, source, steps: Vec::new(), validation_errors: Vec::new() })
    }

    /// A first turn, then one with two messages and a last line that no parser claimed.
    fn trail(source: &str) -> Trail {
        let mut trail = Trail::default();
        let mut push = |attempt, seq, event, bytes: Option<Range<u64>>| {
            trail.push(attempt, Seq(seq), &event, bytes.map(|bytes| (Stream::Stdout, bytes)));
        };
        push(1, 1, said("first"), Some(0..10));
        push(2, 2, said("second"), Some(10..20));
        push(2, 3, said("third"), Some(20..30));
        push(2, 4, raw(), Some(30..40));
        push(2, 5, validated(source), None);
        trail
    }

    fn found(origin: Origin) -> (Precision, u64, Range<u64>) {
        match origin {
            Origin::Stream { precision, seq, byte_from, byte_to, .. } => (precision, seq.0, byte_from..byte_to),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_last_message_that_holds_the_field_carried_it() {
        assert_eq!(trail("repair").spoken(&[]), trail("assistant_message").spoken(&[]));
        let trail = trail("assistant_message");
        assert_eq!(trail.turn(), Some((Stream::Stdout, 10..40)), "the output is that of the last turn");
        assert_eq!(found(trail.spoken(&[12..14, 22..24, 33..35])), (Precision::Field, 3, 22..24));
        assert_eq!(found(trail.spoken(std::slice::from_ref(&(33..35)))), (Precision::Field, 4, 33..35));
        assert_eq!(found(trail.spoken(&[])), (Precision::Event, 3, 20..30));
    }

    #[test]
    fn an_output_that_was_no_message_came_with_the_last_bytes() {
        let trail = trail("stdout");
        assert_eq!(found(trail.spoken(&[12..14, 33..35])), (Precision::Field, 4, 33..35));
        assert_eq!(found(trail.spoken(&[])), (Precision::Event, 4, 30..40));
        assert!(!trail.in_a_file());
        assert_eq!(Trail::default().spoken(&[]), Origin::Unknown);
    }

    #[test]
    fn every_other_source_is_looked_for_in_files_and_an_equal_run_is_named() {
        for source in ["result_file", "normalizer", "anything"] {
            assert!(trail(source).in_a_file(), "{source}");
        }
        let mut trail = Trail::default();
        let source_run_id = RunId(Uuid::from_u128(7));
        trail.push(1, Seq(2), &Event::CacheHit(CacheHit { source_run_id, cache_key: "k".into() }), None);
        assert_eq!(trail.taken_from, Some((Seq(2), source_run_id)));
    }
}
