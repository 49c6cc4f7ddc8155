//! A stream of an engine, read into facts: what a parser claims, and joined raw text for the rest.

use super::framer::{LineFramer, Piece, cut_character};
use crate::domain::event::{Event, RAW_TEXT_MAX};
use crate::domain::fact::{Fact, RawRange, Stream};

/// What a parser makes of one line.
#[derive(Debug, Clone, PartialEq)]
pub enum Reading {
    /// Nothing: the line is kept as raw text.
    Unclaimed,
    /// These events; the first of them stands on the line's bytes.
    Events(Vec<Event>),
}

/// Reads lines of one engine. It never fails: a line it cannot read is unclaimed.
pub trait LineParser: Send {
    /// One line, without its end.
    fn read(&mut self, stream: Stream, line: &str) -> Reading;
}

/// Reads one stream: frames it, asks the parser, joins what nobody claims.
#[derive(Debug)]
pub struct StreamReader {
    stream: Stream,
    framer: LineFramer,
    /// Consecutive unclaimed bytes, not yet made into an event.
    raw_from: u64,
    raw: Vec<u8>,
}

impl StreamReader {
    /// A reader that starts at an offset of the stream's file; lines longer than `max_line` are not parsed.
    pub fn new(stream: Stream, from: u64, max_line: usize) -> Self {
        Self { stream, framer: LineFramer::new(from, max_line), raw_from: from, raw: Vec::new() }
    }

    /// Whether an unfinished line is held back.
    pub fn holds_unfinished_line(&self) -> bool {
        self.framer.held() > 0
    }

    /// Take the next bytes; every finished line becomes (part of) a fact.
    pub fn push(&mut self, bytes: &[u8], parser: &mut dyn LineParser, facts: &mut Vec<Fact>) {
        let Self { stream, framer, raw_from, raw } = self;
        let mut joiner = Joiner { stream: *stream, from: raw_from, raw, parser, facts };
        framer.push(bytes, |piece| joiner.take(piece));
        joiner.emit();
    }

    /// The stream is over, or its unfinished line has waited long enough.
    pub fn flush(&mut self, parser: &mut dyn LineParser, facts: &mut Vec<Fact>) {
        let Self { stream, framer, raw_from, raw } = self;
        let mut joiner = Joiner { stream: *stream, from: raw_from, raw, parser, facts };
        framer.finish(|piece| joiner.take(piece));
        joiner.emit();
    }
}

struct Joiner<'a> {
    stream: Stream,
    from: &'a mut u64,
    raw: &'a mut Vec<u8>,
    parser: &'a mut dyn LineParser,
    facts: &'a mut Vec<Fact>,
}

impl Joiner<'_> {
    fn take(&mut self, piece: Piece<'_>) {
        let (from, bytes, reading) = match piece {
            Piece::Fragment { from, bytes } => (from, bytes, Reading::Unclaimed),
            Piece::Line { from, bytes } => {
                let reading = std::str::from_utf8(bytes).map_or(Reading::Unclaimed, |text| {
                    self.parser.read(self.stream, text.trim_end_matches(['\n', '\r']))
                });
                (from, bytes, reading)
            }
        };
        match reading {
            Reading::Events(events) if !events.is_empty() => {
                self.emit();
                let range = RawRange { stream: self.stream, from, to: from + bytes.len() as u64 };
                let mut claim = Some(range);
                self.facts.extend(events.into_iter().map(|event| Fact { event, raw: claim.take() }));
                *self.from = range.to;
            }
            Reading::Events(_) | Reading::Unclaimed => {
                if self.raw.len() + bytes.len() > RAW_TEXT_MAX {
                    self.emit();
                }
                if self.raw.is_empty() {
                    *self.from = from;
                }
                self.raw.extend_from_slice(bytes);
            }
        }
    }

    /// Make what was joined into facts of at most the bound each.
    fn emit(&mut self) {
        let mut rest = self.raw.as_slice();
        while !rest.is_empty() {
            let mut cut = rest.len().min(RAW_TEXT_MAX);
            if cut < rest.len() {
                cut -= cut_character(&rest[..cut]);
            }
            let (piece, after) = rest.split_at(cut);
            let range = RawRange { stream: self.stream, from: *self.from, to: *self.from + cut as u64 };
            self.facts.push(Fact::raw_text(range, String::from_utf8_lossy(piece).into_owned()));
            *self.from = range.to;
            rest = after;
        }
        self.raw.clear();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::domain::event::{Progress, RawText};

    struct Percent;

    impl LineParser for Percent {
        fn read(&mut self, _: Stream, line: &str) -> Reading {
            match line.strip_suffix('%') {
                Some(_) => Reading::Events(vec![Event::Progress(Progress { percent: 1.0, message: String::new() })]),
                None => Reading::Unclaimed,
            }
        }
    }

    #[test]
    fn claimed_lines_stand_alone_and_unclaimed_neighbours_are_joined() {
        let mut reader = StreamReader::new(Stream::Stderr, 0, 100);
        let mut facts = Vec::new();
        reader.push(b"a\nb\n1%\nc\nrest", &mut Percent, &mut facts);
        assert!(reader.holds_unfinished_line());
        reader.flush(&mut Percent, &mut facts);
        let range = |from, to| RawRange { stream: Stream::Stderr, from, to };
        let raw = |from, to, text: &str| Fact {
            event: Event::RawStderr(RawText { text: text.into() }),
            raw: Some(range(from, to)),
        };
        let progress = Event::Progress(Progress { percent: 1.0, message: String::new() });
        let expected = vec![
            raw(0, 4, "a\nb\n"),
            Fact { event: progress, raw: Some(range(4, 7)) },
            raw(7, 9, "c\n"),
            raw(9, 13, "rest"),
        ];
        assert_eq!(facts, expected);
    }

    proptest! {
        #[test]
        fn facts_tile_the_stream_whatever_is_printed(
            lines in prop::collection::vec(prop_oneof![
                Just(b"1%\n".to_vec()), Just(vec![0xff, 0, b'\n']), prop::collection::vec(any::<u8>(), 0..60),
                Just(vec![b'x'; RAW_TEXT_MAX + 10])], 0..12),
            chunk in 1usize..5000,
        ) {
            let bytes = lines.concat();
            let mut reader = StreamReader::new(Stream::Stdout, 3, RAW_TEXT_MAX);
            let mut facts = Vec::new();
            for part in bytes.chunks(chunk) {
                reader.push(part, &mut Percent, &mut facts);
            }
            reader.flush(&mut Percent, &mut facts);
            let mut at = 3;
            for fact in &facts {
                let range = fact.raw.unwrap();
                prop_assert_eq!(range.from, at);
                prop_assert!(range.to > range.from && range.to - range.from <= RAW_TEXT_MAX as u64);
                at = range.to;
                if let Event::RawStdout(raw) = &fact.event {
                    let shown = &bytes[(range.from - 3) as usize..(range.to - 3) as usize];
                    prop_assert_eq!(&raw.text, &String::from_utf8_lossy(shown));
                }
            }
            prop_assert_eq!(at, 3 + bytes.len() as u64);
        }
    }
}
