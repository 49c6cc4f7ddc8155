//! Text that others wrote, on its way to a terminal: nothing in it moves the cursor or changes the terminal.

use crate::bounded::utf8;
use crate::cli::terminal::look::harmless;

/// A stream of bytes, shown piece by piece. A piece may end inside a character or a line's end.
#[derive(Debug, Default)]
pub(crate) struct Foreign {
    kept: Vec<u8>,
}

impl Foreign {
    /// What of the stream can be shown now.
    pub(crate) fn next(&mut self, bytes: &[u8]) -> String {
        self.kept.extend_from_slice(bytes);
        let end = self.kept.len() - unfinished(&self.kept);
        let whole: Vec<u8> = self.kept.drain(..end).collect();
        shown(&whole)
    }

    /// What is left at the end of the stream.
    pub(crate) fn rest(&mut self) -> String {
        shown(&std::mem::take(&mut self.kept))
    }
}

fn shown(bytes: &[u8]) -> String {
    // The ends of lines that Windows and terminals write are the ends of lines.
    harmless(&String::from_utf8_lossy(bytes).replace("\r\n", "\n"))
}

/// How many bytes at the end may belong to what comes next.
fn unfinished(bytes: &[u8]) -> usize {
    if bytes.last() == Some(&b'\r') { 1 } else { utf8::unfinished(bytes) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_in_any_pieces_is_shown_without_escapes_and_with_whole_characters() {
        let text = "plain \x1b[2J\x1b]0;title\x07 ä€🦀\r\nnext\rback \u{9b}31m\x7f end".as_bytes();
        let text = [text, b" \xff\xf0\x9f".as_slice()].concat();
        let expected =
            "plain \u{fffd}[2J\u{fffd}]0;title\u{fffd} ä€🦀\nnext\u{fffd}back \u{fffd}31m\u{fffd} end \u{fffd}\u{fffd}";
        for size in 1..=text.len() {
            let mut foreign = Foreign::default();
            let mut all: String = text.chunks(size).map(|piece| foreign.next(piece)).collect();
            all.push_str(&foreign.rest());
            assert_eq!(all, expected, "in pieces of {size}");
        }
    }
}
