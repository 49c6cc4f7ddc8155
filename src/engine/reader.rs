//! A stream of an engine, read into facts: what a parser claims, and joined raw text for the rest.

use super::framer::{LineFramer, Piece, cut_character};
use crate::domain::event::{Event, RAW_TEXT_MAX};
use crate::domain::fact::{Fact, RawRange, Stream};
use crate::domain::json_text::{JSON_TEXT_MAX, json_length};

/// Bytes that can wait for the event they belong to; older ones become raw text.
const HELD_MAX: usize = 1024 * 1024;
/// Most bytes of an event, as JSON; a line that would make a longer one is kept as raw text.
const EVENT_MAX: usize = JSON_TEXT_MAX + 64 * 1024;

/// The meaning of one line.
#[derive(Debug, Clone, PartialEq)]
pub enum Reading {
    /// None: the line is kept as raw text.
    Unclaimed,
    /// These events; the first of them refers to the line's bytes.
    Events(Vec<Event>),
    /// A part of an event that a later line completes: its bytes wait.
    Held,
    /// The held bytes are complete.
    Closed {
        /// The event that refers to the held bytes.
        held: Box<Event>,
        /// The events of this line itself; none means raw text.
        line: Vec<Event>,
    },
}

/// Reads lines of one engine. It never fails: a line it cannot read is unclaimed.
pub trait LineParser: Send {
    /// One line, without its end.
    fn read(&mut self, stream: Stream, line: &str) -> Reading;

    /// A line was skipped that `read` cannot take: it is not UTF-8, or too long. It is kept as raw text.
    fn passed_by(&mut self, _stream: Stream) {}

    /// Whether a line may be shown before its end, because a part of it can be read like the whole.
    fn reads_unfinished_lines(&self) -> bool {
        true
    }
}

/// Reads one stream: splits it into lines, asks the parser, joins the unclaimed ones.
///
/// ```
/// use skill_runner::domain::fact::Stream;
/// use skill_runner::engine::{LineParser, Reading, StreamReader};
///
/// struct ClaimsNothing;
/// impl LineParser for ClaimsNothing {
///     fn read(&mut self, _: Stream, _: &str) -> Reading {
///         Reading::Unclaimed
///     }
/// }
///
/// let mut reader = StreamReader::new(Stream::Stdout, 0, 1024);
/// let mut facts = Vec::new();
/// reader.push(b"hel", &mut ClaimsNothing, &mut facts);
/// assert!(facts.is_empty());
/// reader.push(b"lo\nwor", &mut ClaimsNothing, &mut facts);
/// assert_eq!(facts[0].raw.map(|range| (range.from, range.to)), Some((0, 6)));
/// ```
#[derive(Debug)]
pub struct StreamReader {
    stream: Stream,
    framer: LineFramer,
    waiting: Waiting,
}

/// Bytes read but not yet made into facts; the held ones come directly before the raw ones.
#[derive(Debug)]
struct Waiting {
    from: u64,
    held: Vec<u8>,
    raw: Vec<u8>,
}

impl StreamReader {
    /// A reader that starts at an offset of the stream's file; lines longer than `max_line` are not parsed.
    pub fn new(stream: Stream, from: u64, max_line: usize) -> Self {
        let waiting = Waiting { from, held: Vec::new(), raw: Vec::new() };
        Self { stream, framer: LineFramer::new(from, max_line), waiting }
    }

    /// Whether an unfinished line is held back.
    pub(crate) fn holds_unfinished_line(&self) -> bool {
        self.held() > 0
    }

    /// Bytes of an unfinished line.
    pub(crate) fn held(&self) -> usize {
        self.framer.held()
    }

    /// Take the next bytes; every finished line becomes (part of) a fact.
    pub fn push(&mut self, bytes: &[u8], parser: &mut dyn LineParser, facts: &mut Vec<Fact>) {
        let Self { stream, framer, waiting } = self;
        let mut joiner = Joiner { stream: *stream, waiting, parser, facts };
        framer.push(bytes, |piece| joiner.take(piece));
        // Held bytes stay until their event is complete; raw text is shown at once.
        if joiner.waiting.held.is_empty() {
            joiner.emit();
        }
    }

    /// The unfinished line has waited long enough: show it, unless the parser needs it whole.
    pub fn show_unfinished(&mut self, parser: &mut dyn LineParser, facts: &mut Vec<Fact>) {
        if parser.reads_unfinished_lines() {
            self.flush(parser, facts);
        }
    }

    /// The stream is over: everything becomes facts.
    pub fn flush(&mut self, parser: &mut dyn LineParser, facts: &mut Vec<Fact>) {
        let Self { stream, framer, waiting } = self;
        let mut joiner = Joiner { stream: *stream, waiting, parser, facts };
        framer.finish(|piece| joiner.take(piece));
        joiner.give_up_held();
        joiner.emit();
    }
}

struct Joiner<'a> {
    stream: Stream,
    waiting: &'a mut Waiting,
    parser: &'a mut dyn LineParser,
    facts: &'a mut Vec<Fact>,
}

impl Joiner<'_> {
    fn take(&mut self, piece: Piece<'_>) {
        let (bytes, reading) = match piece {
            Piece::Fragment { bytes, .. } => (bytes, self.pass_by()),
            Piece::Line { bytes, .. } => match std::str::from_utf8(bytes) {
                Ok(text) => (bytes, self.parser.read(self.stream, text.trim_end_matches(['\n', '\r']))),
                Err(_) => (bytes, self.pass_by()),
            },
        };
        match reading {
            Reading::Unclaimed => self.keep_raw(bytes),
            Reading::Events(events) => {
                self.give_up_held();
                self.claim(bytes, events);
            }
            Reading::Held => self.hold(bytes),
            Reading::Closed { held, line } => {
                self.close(*held);
                self.claim(bytes, line);
            }
        }
    }

    fn pass_by(&mut self) -> Reading {
        self.parser.passed_by(self.stream);
        Reading::Unclaimed
    }

    fn claim(&mut self, bytes: &[u8], events: Vec<Event>) {
        // What an event carries is hardly longer than the line it was read from, so most lines are decided without writing it.
        let too_long = bytes.len() > JSON_TEXT_MAX && !events.iter().all(fits);
        if too_long {
            self.parser.passed_by(self.stream);
        }
        if events.is_empty() || too_long {
            return self.keep_raw(bytes);
        }
        self.emit();
        let mut claim = Some(self.advance(bytes.len()));
        self.facts.extend(events.into_iter().map(|event| Fact { event, raw: claim.take() }));
    }

    fn keep_raw(&mut self, bytes: &[u8]) {
        self.give_up_held();
        if self.waiting.raw.len() + bytes.len() > RAW_TEXT_MAX {
            self.emit();
        }
        self.waiting.raw.extend_from_slice(bytes);
    }

    fn hold(&mut self, bytes: &[u8]) {
        if self.waiting.held.len() + bytes.len() > HELD_MAX {
            self.give_up_held();
        }
        self.emit();
        self.waiting.held.extend_from_slice(bytes);
    }

    /// The event refers to the held bytes; there are none when other output came between.
    fn close(&mut self, event: Event) {
        let length = std::mem::take(&mut self.waiting.held).len();
        if length == 0 {
            self.emit();
        }
        let raw = (length > 0).then(|| self.advance(length));
        self.facts.push(Fact { event, raw });
    }

    /// The event of the held bytes will not come: they become raw text.
    fn give_up_held(&mut self) {
        if !self.waiting.held.is_empty() {
            self.waiting.raw = std::mem::take(&mut self.waiting.held);
            self.emit();
        }
    }

    /// Makes the joined raw text into facts of at most `RAW_TEXT_MAX` bytes each, and fewer of bytes that take more room as
    /// JSON.
    fn emit(&mut self) {
        let raw = std::mem::take(&mut self.waiting.raw);
        let mut rest = raw.as_slice();
        while !rest.is_empty() {
            let mut cut = rest.len().min(RAW_TEXT_MAX);
            if cut < rest.len() {
                cut -= cut_character(&rest[..cut]);
            }
            let mut text = String::from_utf8_lossy(&rest[..cut]);
            while json_length(&text) > JSON_TEXT_MAX {
                cut /= 2;
                cut -= cut_character(&rest[..cut]);
                text = String::from_utf8_lossy(&rest[..cut]);
            }
            let text = text.into_owned();
            let range = self.advance(cut);
            self.facts.push(Fact::raw_text(range, text));
            rest = &rest[cut..];
        }
    }

    /// The next bytes of the stream, now made into a fact.
    fn advance(&mut self, length: usize) -> RawRange {
        let from = self.waiting.from;
        self.waiting.from += length as u64;
        RawRange { stream: self.stream, from, to: self.waiting.from }
    }
}

/// Whether an event is short enough to be stored with others; long texts in it were cut already.
fn fits(event: &Event) -> bool {
    let mut data = Vec::new();
    event.write_data(&mut data).is_ok() && data.len() <= EVENT_MAX
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::domain::event::{Progress, RawText};

    struct Percent;

    impl LineParser for Percent {
        fn read(&mut self, _: Stream, line: &str) -> Reading {
            let progress = Event::Progress(Progress { percent: 1.0, message: String::new() });
            match line {
                "+" => Reading::Held,
                "." => Reading::Closed { held: Box::new(progress), line: Vec::new() },
                _ if line.ends_with('%') => Reading::Events(vec![progress]),
                _ => Reading::Unclaimed,
            }
        }
    }

    #[test]
    fn held_lines_are_claimed_by_the_event_that_closes_them_or_else_are_raw_text() {
        let mut reader = StreamReader::new(Stream::Stdout, 0, 100);
        let mut facts = Vec::new();
        reader.push(b"a\n+\n+", &mut Percent, &mut facts);
        reader.push(b"\n.\n+\nb\n.\n+\n", &mut Percent, &mut facts);
        reader.flush(&mut Percent, &mut facts);
        let raw = |from, to, text: &str| Fact::raw_text(RawRange { stream: Stream::Stdout, from, to }, text.to_owned());
        let progress = |raw| Fact { event: Event::Progress(Progress { percent: 1.0, message: String::new() }), raw };
        let expected = vec![
            raw(0, 2, "a\n"),
            progress(Some(RawRange { stream: Stream::Stdout, from: 2, to: 6 })),
            raw(6, 8, ".\n"),
            raw(8, 10, "+\n"),
            raw(10, 12, "b\n"),
            progress(None),
            raw(12, 14, ".\n"),
            raw(14, 16, "+\n"),
        ];
        assert_eq!(facts, expected);
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
                Just(b"1%\n".to_vec()), Just(b"+\n".to_vec()), Just(b".\n".to_vec()), Just(vec![0xff, 0, b'\n']), prop::collection::vec(any::<u8>(), 0..60),
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
                let Some(range) = fact.raw else { continue };
                prop_assert_eq!(range.from, at);
                prop_assert!(range.to > range.from && range.to - range.from <= HELD_MAX as u64);
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
