//! Byte ranges of a run's log files, as text where the bytes are text.

use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;

use crate::files::{Error, LookupError, open_beneath};

/// Most bytes one call returns; a longer range is cut, and `byte_to` says where.
pub(crate) const MAX_RANGE_BYTES: u64 = 8 * 1024 * 1024;

/// A character of UTF-8 has at most this many bytes after its first.
const REST_OF_CHAR: u64 = 3;

/// How the bytes are written in `content`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) enum Encoding {
    #[serde(rename = "utf-8")]
    Utf8,
    /// Base64, with padding.
    #[serde(rename = "base64")]
    Base64,
}

/// A piece of a log file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct LogRange {
    /// Where it begins; less than asked for where that was inside a character.
    pub(crate) byte_from: u64,
    /// Where it ends, exclusive.
    pub(crate) byte_to: u64,
    pub(crate) content: String,
    /// How they are written.
    pub(crate) encoding: Encoding,
    /// Length of the file.
    pub(crate) total_bytes: u64,
}

/// A range that cannot be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RangeError {
    /// It ends before it begins.
    #[error("byte_to {byte_to} is before byte_from {byte_from}")]
    Reversed { byte_from: u64, byte_to: u64 },
    /// It begins after the end of the file.
    #[error("byte_from {byte_from} is beyond the end of the log at {total_bytes}")]
    BeyondEnd { byte_from: u64, total_bytes: u64 },
    /// There is something else in the place of the file, or it is closed to the service.
    #[error(transparent)]
    NotOpened(LookupError),
    /// The file could not be read.
    #[error(transparent)]
    Io(#[from] Error),
}

/// Reads `byte_from..byte_to` of a log file; an end left out is the end of the file. A stream that never wrote has
/// no file, and reads as an empty one. The engine can write in the run's folder `root`, so no link is followed there.
pub(crate) fn read_range(
    root: &Path,
    log: &Path,
    byte_from: u64,
    byte_to: Option<u64>,
) -> Result<LogRange, RangeError> {
    if let Some(byte_to) = byte_to.filter(|to| *to < byte_from) {
        return Err(RangeError::Reversed { byte_from, byte_to });
    }
    let file = match open_beneath(root, log.strip_prefix(root).unwrap_or(log)) {
        Ok(file) => Some(file),
        Err(LookupError::NotFound) => None,
        Err(error) => return Err(RangeError::NotOpened(error)),
    };
    let length = file.as_ref().map_or(Ok(0), |file| file.metadata().map(|found| found.len()));
    let total_bytes = length.map_err(Error::on("look at", log))?;
    if byte_from > total_bytes {
        return Err(RangeError::BeyondEnd { byte_from, total_bytes });
    }
    let byte_to = byte_to.unwrap_or(total_bytes).min(total_bytes).min(byte_from.saturating_add(MAX_RANGE_BYTES));
    let (Some(file), true) = (file, byte_from < byte_to) else {
        let (content, encoding) = (String::new(), Encoding::Utf8);
        return Ok(LogRange { byte_from, byte_to: byte_from, content, encoding, total_bytes });
    };
    // Read with the neighbours that may belong to the first and the last character.
    let window_from = byte_from.saturating_sub(REST_OF_CHAR);
    let window_to = byte_to.saturating_add(REST_OF_CHAR).min(total_bytes);
    let mut window = vec![0; (window_to - window_from) as usize];
    file.read_exact_at(&mut window, window_from).map_err(Error::on("read", log))?;
    let asked = (byte_from - window_from) as usize..(byte_to - window_from) as usize;
    Ok(match whole_characters(&window, asked.clone()) {
        Some((from, text)) => LogRange {
            byte_from: window_from + from as u64,
            byte_to: window_from + (from + text.len()) as u64,
            content: text.to_owned(),
            encoding: Encoding::Utf8,
            total_bytes,
        },
        None => {
            let content = STANDARD.encode(&window[asked]);
            LogRange { byte_from, byte_to, content, encoding: Encoding::Base64, total_bytes }
        }
    })
}

/// The smallest text around `asked`, with its place in the window; nothing where the bytes are no text.
fn whole_characters(window: &[u8], asked: Range<usize>) -> Option<(usize, &str)> {
    let begins_a_character = |at: &usize| window[*at] & 0b1100_0000 != 0b1000_0000;
    let from = (0..=asked.start).rev().find(begins_a_character)?;
    // Only an end inside a character makes the text valid when it is moved.
    let last = window.len().min(asked.end + REST_OF_CHAR as usize);
    (asked.end..=last).find_map(|to| std::str::from_utf8(&window[from..to]).ok()).map(|text| (from, text))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use proptest::prelude::*;

    use super::*;

    fn range(bytes: &[u8], from: u64, to: Option<u64>) -> Result<LogRange, String> {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("stdout.txt");
        fs::write(&log, bytes).unwrap();
        read_range(folder.path(), &log, from, to).map_err(|error| error.to_string())
    }

    fn found(from: u64, to: u64, content: &str, encoding: Encoding, total: u64) -> Result<LogRange, String> {
        Ok(LogRange { byte_from: from, byte_to: to, content: content.into(), encoding, total_bytes: total })
    }

    #[test]
    fn ranges_are_clipped_at_the_end_and_refused_beyond_it_or_reversed() {
        let log = b"hello world";
        assert_eq!(range(log, 6, Some(11)), found(6, 11, "world", Encoding::Utf8, 11));
        assert_eq!(range(log, 6, Some(u64::MAX)), found(6, 11, "world", Encoding::Utf8, 11));
        assert_eq!(range(log, 0, None), found(0, 11, "hello world", Encoding::Utf8, 11));
        assert_eq!(range(log, 3, Some(3)), found(3, 3, "", Encoding::Utf8, 11));
        assert_eq!(range(log, 11, None), found(11, 11, "", Encoding::Utf8, 11));
        assert_eq!(range(log, 12, None), Err("byte_from 12 is beyond the end of the log at 11".into()));
        assert_eq!(range(log, 9, Some(2)), Err("byte_to 2 is before byte_from 9".into()));
    }

    #[test]
    fn a_cut_inside_a_character_is_widened_to_its_boundary_and_said() {
        // a, é (2 bytes), € (3), 😀 (4), z
        let log = "aé€😀z".as_bytes();
        assert_eq!(range(log, 2, Some(3)), found(1, 3, "é", Encoding::Utf8, 11));
        assert_eq!(range(log, 1, Some(2)), found(1, 3, "é", Encoding::Utf8, 11));
        assert_eq!(range(log, 5, Some(9)), found(3, 10, "€😀", Encoding::Utf8, 11));
        assert_eq!(range(log, 9, Some(10)), found(6, 10, "😀", Encoding::Utf8, 11));
        assert_eq!(range(log, 2, Some(2)), found(2, 2, "", Encoding::Utf8, 11));
    }

    #[test]
    fn bytes_that_are_no_text_come_as_base64_of_exactly_what_was_asked() {
        assert_eq!(range(b"a\xff\xfeb", 0, None), found(0, 4, "Yf/+Yg==", Encoding::Base64, 4));
        assert_eq!(range(b"ab\xe2\x82", 0, None), found(0, 4, "YWLigg==", Encoding::Base64, 4));
        assert_eq!(range(b"a\x80\x80\x80\x80b", 5, None), found(5, 6, "b", Encoding::Utf8, 6));
        assert_eq!(range(b"a\x80b", 0, Some(1)), found(0, 1, "a", Encoding::Utf8, 3));
    }

    #[test]
    fn a_stream_that_never_wrote_is_empty() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("pty.txt");
        let read = |from, to| read_range(folder.path(), &log, from, to);
        assert_eq!(read(0, Some(9)).map_err(|_| ()), Ok(found(0, 0, "", Encoding::Utf8, 0).unwrap()));
        assert!(matches!(read(1, None), Err(RangeError::BeyondEnd { byte_from: 1, total_bytes: 0 })));
    }

    #[test]
    fn a_link_in_place_of_a_log_is_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("stdout.txt");
        std::os::unix::fs::symlink("/etc/hostname", &log).unwrap();
        let read = read_range(folder.path(), &log, 0, None);
        assert!(matches!(read, Err(RangeError::NotOpened(LookupError::Unsafe { .. }))), "{read:?}");
    }

    #[test]
    fn a_long_range_is_cut_and_the_end_says_where() {
        let log = vec![b'x'; MAX_RANGE_BYTES as usize + 10];
        let found = range(&log, 4, None).unwrap();
        assert_eq!((found.byte_from, found.byte_to, found.total_bytes), (4, MAX_RANGE_BYTES + 4, log.len() as u64));
    }

    proptest! {
        #[test]
        fn a_range_holds_exactly_the_bytes_it_names(
            bytes in prop_oneof![any::<String>().prop_map(String::into_bytes), any::<Vec<u8>>()],
            from: prop::sample::Index,
            to: prop::sample::Index,
        ) {
            let (one, other) = (from.index(bytes.len() + 1), to.index(bytes.len() + 1));
            let (from, to) = (one.min(other), one.max(other));
            let found = range(&bytes, from as u64, Some(to as u64)).unwrap();
            let named = &bytes[found.byte_from as usize..found.byte_to as usize];
            match found.encoding {
                Encoding::Utf8 => prop_assert_eq!(found.content.as_bytes(), named),
                Encoding::Base64 => prop_assert_eq!(STANDARD.decode(&found.content).unwrap(), named),
            }
            prop_assert!(found.byte_from as usize <= from && found.byte_to as usize >= to || from == to);
            let text = std::str::from_utf8(&bytes).is_ok();
            prop_assert!(!text || found.encoding == Encoding::Utf8);
        }
    }
}
