//! Follows a run's events in a service, and reconnects if the stream breaks.

use std::io::{self, BufRead, Read as _};
use std::time::Duration;

use bytes::Bytes;

use crate::cli::connect::client::Client;
use crate::cli::failure::Failure;
use crate::domain::event::Event;
use crate::domain::ids::{RunId, Seq};
use crate::fcmp::read_envelope;

/// Longest event that is read. The service writes none that is nearly as long.
const LINE_MAX: usize = 64 << 20;
/// Attempts in a row that bring no event before it gives up.
const TRIES: u32 = 5;
/// Pause before each new attempt.
const PAUSE: Duration = Duration::from_millis(500);

/// Passes the stored bytes of each event to `each`, until the terminal event or until `each` returns false. A stream that
/// breaks is resumed after the last event.
pub(crate) fn follow(
    client: &Client,
    run: RunId,
    mut each: impl FnMut(Bytes) -> Result<bool, Failure>,
) -> Result<(), Failure> {
    let mut after = Seq::START;
    let mut failed = 0;
    loop {
        let before = after;
        let failure = match client.events(run, after) {
            Ok(stream) => match relay(stream, &mut after, &mut each)? {
                Relayed::Ended => return Ok(()),
                Relayed::Broken(reason) => Failure::Unreachable(format!("the service's event stream broke: {reason}")),
            },
            Err(failure) => failure,
        };
        failed = if after > before { 0 } else { failed + 1 };
        if failed == TRIES {
            return Err(failure);
        }
        std::thread::sleep(PAUSE);
    }
}

enum Relayed {
    /// The terminal event was passed on, or `each` wants no more.
    Ended,
    /// The stream ended before it.
    Broken(String),
}

fn relay(
    stream: impl BufRead,
    after: &mut Seq,
    each: &mut impl FnMut(Bytes) -> Result<bool, Failure>,
) -> Result<Relayed, Failure> {
    let mut stream = SseReader { stream };
    loop {
        let data = match stream.next_chat_event() {
            Ok(Some(data)) => data,
            Ok(None) => return Ok(Relayed::Broken("it ended early".to_owned())),
            Err(error) => return Ok(Relayed::Broken(error.to_string())),
        };
        let envelope = read_envelope(&data).map_err(Failure::broken("read an event"))?;
        *after = envelope.seq;
        let last = matches!(envelope.event, Some(Event::Completed(_) | Event::Failed(_)));
        if !each(data)? || last {
            return Ok(Relayed::Ended);
        }
    }
}

/// Reads a stream of server-sent events.
struct SseReader<R> {
    stream: R,
}

impl<R: BufRead> SseReader<R> {
    /// The data of the next `chat_event`; none at the end. Snapshots and heartbeats are no part of the log.
    fn next_chat_event(&mut self) -> io::Result<Option<Bytes>> {
        let (mut is_chat, mut data) = (false, Vec::new());
        let mut line = Vec::new();
        loop {
            if !next_line(&mut self.stream, &mut line)? {
                return Ok(None);
            }
            while line.last().is_some_and(|byte| matches!(byte, b'\n' | b'\r')) {
                line.pop();
            }
            if line.is_empty() {
                if is_chat && !data.is_empty() {
                    return Ok(Some(data.into()));
                }
                (is_chat, data) = (false, Vec::new());
            } else if let Some(name) = field(&line, b"event:") {
                is_chat = name == b"chat_event";
            } else if let Some(part) = field(&line, b"data:") {
                data.extend_from_slice(part);
                if data.len() > LINE_MAX {
                    return Err(too_long());
                }
            }
        }
    }
}

/// The events that are found in the bytes of a stream which come in pieces of this length.
#[cfg(any(test, fuzzing))]
pub(crate) fn foreign(bytes: &[u8], piece: usize) -> Vec<Bytes> {
    let mut reader = SseReader { stream: std::io::BufReader::with_capacity(piece, bytes) };
    std::iter::from_fn(|| reader.next_chat_event().ok().flatten()).collect()
}

/// The next line with its end, in place of what was there; false at the end. One that is too long is an error: whoever is at the other
/// end decides how much comes.
pub(super) fn next_line(stream: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<bool> {
    line.clear();
    let read = stream.take(LINE_MAX as u64 + 1).read_until(b'\n', line)?;
    if read > LINE_MAX { Err(too_long()) } else { Ok(read > 0) }
}

fn too_long() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("an event has more than {LINE_MAX} bytes"))
}

fn field<'a>(line: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let value = line.strip_prefix(name)?;
    Some(value.strip_prefix(b" ").unwrap_or(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chat_events_are_told_from_snapshots_and_heartbeats() {
        let stream = "event: snapshot\ndata: {}\n\n: a comment\nid: 1\nevent: chat_event\ndata: {\"a\":1}\n\n\
                      event: heartbeat\ndata: {}\n\nevent:chat_event\r\ndata:{\"b\":2}\r\n\r\nevent: chat_event\ndata: cut";
        let mut reader = SseReader { stream: stream.as_bytes() };
        let mut next = || reader.next_chat_event().unwrap();
        assert_eq!((next(), next(), next()), (Some("{\"a\":1}".into()), Some("{\"b\":2}".into()), None));
    }
    /// Gives the same bytes again and again.
    struct Endless(&'static [u8], usize);

    impl io::Read for Endless {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            buffer.iter_mut().for_each(|byte| {
                *byte = self.0[self.1 % self.0.len()];
                self.1 += 1;
            });
            Ok(buffer.len())
        }
    }

    #[test]
    fn events_without_an_end_are_given_up() {
        for (begin, each) in [("", &b"x"[..]), ("event: chat_event\n", b"data: words of an event\n")] {
            let stream = io::BufReader::new(begin.as_bytes().chain(Endless(each, 0)));
            let given_up = SseReader { stream }.next_chat_event().unwrap_err();
            assert_eq!(given_up.kind(), io::ErrorKind::InvalidData);
        }
    }
}
