//! How long a text is where it is stored, as JSON, and how much of it fits.

/// Most bytes of one text in an event, as JSON: control characters take six. With it, the last two events of a command
/// fit one append of the store beside a long row.
pub(crate) const JSON_TEXT_MAX: usize = 160 * 1024;

/// The length of the text as JSON, without its quotes.
pub(crate) fn json_length(text: &str) -> usize {
    // Two plain counts, which the compiler makes vector instructions of: every text of every engine passes here.
    let escaped = text.bytes().filter(|byte| *byte < 0x20 || *byte == b'"' || *byte == b'\\').count();
    let long = text.bytes().filter(|byte| *byte < 0x20 && !matches!(byte, 0x08..=0x0a | 0x0c..=0x0d)).count();
    text.len() + escaped + 4 * long
}

/// The longest beginning of the text that has at most `max` bytes as JSON.
pub(crate) fn beginning(text: &str, max: usize) -> &str {
    let mut length = 0;
    for (at, byte) in text.bytes().enumerate() {
        length += 1 + added(byte);
        if length > max {
            return &text[..text.floor_char_boundary(at)];
        }
    }
    text
}

/// How many bytes more a byte of a text takes as JSON.
fn added(byte: u8) -> usize {
    match byte {
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' | 0x08 | 0x0c => 1,
        0..0x20 => 5,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_length_is_that_of_the_json_and_the_beginning_is_the_longest_that_fits(text in "\\PC{0,9}[\\x00-\\x22\\\\ä]{0,20}", max in 0..40_usize) {
            let json = |text: &str| serde_json::to_string(text).unwrap().len() - 2;
            prop_assert_eq!(json_length(&text), json(&text));
            let kept = beginning(&text, max);
            prop_assert!(json(kept) <= max);
            let longer = text[kept.len()..].chars().next().map(|next| text[..kept.len() + next.len_utf8()].to_owned());
            prop_assert!(longer.is_none_or(|longer| json(&longer) > max));
        }
    }
}
