//! Text that comes in pieces, which may be cut inside a character.

/// How many bytes at the end are the begin of a character whose rest may still come.
pub(crate) fn unfinished(bytes: &[u8]) -> usize {
    let begins = |length: &usize| {
        let tail = bytes.get(bytes.len() - length..).unwrap_or_default();
        std::str::from_utf8(tail).is_err_and(|error| error.valid_up_to() == 0 && error.error_len().is_none())
    };
    (1..=bytes.len().min(3)).find(begins).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_begin_of_a_character_waits_for_its_rest() {
        for (bytes, expected) in [
            (&b""[..], 0),
            (b"abc", 0),
            ("aä".as_bytes(), 0),
            (b"a\xc3", 1),
            (b"a\xe2\x82", 2),
            (b"a\xf0\x9f\xa6", 3),
            ("🦀".as_bytes(), 0),
            (b"a\xff", 0),
            (b"a\xc3\xff", 0),
            (b"\x80\x80\x80", 0),
        ] {
            assert_eq!(unfinished(bytes), expected, "{bytes:?}");
        }
    }
}
