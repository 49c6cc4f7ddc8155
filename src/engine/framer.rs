//! Splits bytes into lines with their offsets, in bounded memory whatever is printed.

/// Bytes of a stream with their place in its file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Piece<'a> {
    /// A whole line, its newline included; the last line of a stream may lack it.
    Line {
        /// Offset of its first byte.
        from: u64,
        bytes: &'a [u8],
    },
    /// A part of a line that is longer than the bound.
    Fragment {
        /// Offset of its first byte.
        from: u64,
        bytes: &'a [u8],
    },
}

/// Splits a stream into lines. The pieces cover every byte once and do not depend on how the bytes arrived.
#[derive(Debug)]
pub(crate) struct LineFramer {
    max_line: usize,
    /// Offset of the first byte held.
    held_from: u64,
    held: Vec<u8>,
    /// Whether a fragment of the line under way was already yielded.
    overlong: bool,
}

impl LineFramer {
    /// A framer that starts at an offset and holds at most `max_line` bytes of an unfinished line.
    pub(crate) fn new(from: u64, max_line: usize) -> Self {
        Self { max_line, held_from: from, held: Vec::new(), overlong: false }
    }

    /// Bytes of an unfinished line.
    pub(crate) fn held(&self) -> usize {
        self.held.len()
    }

    /// Take the next bytes of the stream.
    pub(crate) fn push(&mut self, mut bytes: &[u8], mut yields: impl FnMut(Piece<'_>)) {
        while !bytes.is_empty() {
            let free = self.max_line - self.held.len();
            let window = &bytes[..bytes.len().min(free)];
            if let Some(at) = memchr::memchr(b'\n', window) {
                let (line, rest) = bytes.split_at(at + 1);
                bytes = rest;
                self.complete(line, &mut yields);
            } else if bytes.len() < free {
                self.held.extend_from_slice(bytes);
                return;
            } else {
                let (part, rest) = bytes.split_at(free);
                bytes = rest;
                self.held.extend_from_slice(part);
                self.fragment(&mut yields);
            }
        }
    }

    /// The stream is over: what is held is its last line.
    pub(crate) fn finish(&mut self, mut yields: impl FnMut(Piece<'_>)) {
        if !self.held.is_empty() {
            self.complete(&[], &mut yields);
        }
    }

    fn complete(&mut self, end: &[u8], yields: &mut impl FnMut(Piece<'_>)) {
        let from = self.held_from;
        let held = std::mem::take(&mut self.held);
        // A line that arrived in one piece is handed on without copying it.
        let whole;
        let bytes = if held.is_empty() {
            end
        } else {
            whole = [held.as_slice(), end].concat();
            &whole
        };
        self.held_from += bytes.len() as u64;
        yields(if self.overlong { Piece::Fragment { from, bytes } } else { Piece::Line { from, bytes } });
        self.overlong = false;
    }

    /// Yield what is held, but keep a character that is cut at the end for the next fragment.
    fn fragment(&mut self, yields: &mut impl FnMut(Piece<'_>)) {
        let keep = cut_character(&self.held);
        let kept = self.held.split_off(self.held.len() - keep);
        yields(Piece::Fragment { from: self.held_from, bytes: &self.held });
        self.held_from += self.held.len() as u64;
        self.held = kept;
        self.overlong = true;
    }
}

/// How many bytes at the end are the beginning of a UTF-8 character whose rest is missing (0 to 3).
pub(crate) fn cut_character(bytes: &[u8]) -> usize {
    for back in 1..=bytes.len().min(3) {
        let byte = bytes[bytes.len() - back];
        let needed = match byte {
            0xC2..=0xDF => 2,
            0xE0..=0xEF => 3,
            0xF0..=0xF4 => 4,
            0x80..=0xBF => continue,
            _ => return 0,
        };
        // Never keep everything: a fragment must make progress.
        return if needed > back && back < bytes.len() { back } else { 0 };
    }
    0
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn frame(chunks: &[&[u8]], max_line: usize) -> Vec<(bool, u64, Vec<u8>)> {
        let mut framer = LineFramer::new(7, max_line);
        let mut pieces = Vec::new();
        let mut take = |piece: Piece<'_>| match piece {
            Piece::Line { from, bytes } => pieces.push((true, from, bytes.to_vec())),
            Piece::Fragment { from, bytes } => pieces.push((false, from, bytes.to_vec())),
        };
        for chunk in chunks {
            framer.push(chunk, &mut take);
        }
        framer.finish(&mut take);
        pieces
    }

    #[test]
    fn lines_know_where_they_stand() {
        let pieces = frame(&[b"ab\nc", b"d\n\n", b"e"], 100);
        let expected = [(true, 7, "ab\n"), (true, 10, "cd\n"), (true, 13, "\n"), (true, 14, "e")]
            .map(|(line, from, text)| (line, from, text.as_bytes().to_vec()));
        assert_eq!(pieces, expected);
    }

    #[test]
    fn an_overlong_line_comes_in_fragments_that_do_not_cut_characters() {
        let pieces = frame(&["ääää\nb\n".as_bytes()], 5);
        let expected = [(false, 7, "ää"), (false, 11, "ää\n"), (true, 16, "b\n")];
        assert_eq!(pieces, expected.map(|(line, from, text)| (line, from, text.as_bytes().to_vec())));
    }

    proptest! {
        #[test]
        fn framing_tiles_the_stream_and_does_not_depend_on_chunking(
            bytes in prop::collection::vec(prop_oneof![3 => any::<u8>(), 1 => Just(b'\n'), 1 => Just(0xC3)], 0..200),
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..8),
            max_line in 4usize..20,
        ) {
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
            cuts.sort_unstable();
            cuts.push(bytes.len());
            let mut chunks = Vec::new();
            let mut start = 0;
            for cut in cuts {
                chunks.push(&bytes[start..cut]);
                start = cut;
            }
            let pieces = frame(&chunks, max_line);
            prop_assert_eq!(&pieces, &frame(&[&bytes], max_line));
            let mut at = 7;
            let mut whole = Vec::new();
            for (_, from, piece) in &pieces {
                prop_assert_eq!(*from, at);
                prop_assert!(!piece.is_empty() && piece.len() <= max_line);
                at += piece.len() as u64;
                whole.extend_from_slice(piece);
            }
            prop_assert_eq!(whole, bytes);
        }
    }
}
