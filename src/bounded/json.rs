//! JSON, measured before it is read: in memory, a small value takes many times the bytes of its text.

/// Whether a text has at most so many values, as far as it is JSON: every comma and every opening bracket begins one.
pub(crate) fn has_at_most(text: &[u8], values: usize) -> bool {
    let mut left = values.saturating_sub(1);
    let mut bytes = text.iter();
    while let Some(byte) = bytes.next() {
        match byte {
            b',' | b'[' | b'{' => match left.checked_sub(1) {
                Some(rest) => left = rest,
                None => return false,
            },
            b'"' => skip_string(&mut bytes),
            _ => {}
        }
    }
    true
}

fn skip_string(bytes: &mut std::slice::Iter<'_, u8>) {
    loop {
        let rest = bytes.as_slice();
        let Some(at) = memchr::memchr2(b'"', b'\\', rest) else {
            *bytes = [].iter();
            return;
        };
        let is_end = rest.get(at) == Some(&b'"');
        // What is escaped is skipped, too.
        *bytes = rest.get(at + if is_end { 1 } else { 2 }..).unwrap_or_default().iter();
        if is_end {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_counted_outside_of_strings() {
        for (text, values) in [
            ("1", 1),
            ("[]", 2),
            ("[1,2,[3]]", 5),
            (r#"{"a":1,"b":[",,[[{"]}"#, 4),
            (r#"["\",[\\",1]"#, 3),
            (r#"["unfinished,[\"#, 2),
            (r#"["unfinished,["#, 2),
        ] {
            assert!(has_at_most(text.as_bytes(), values), "{text}");
            assert!(values == 1 || !has_at_most(text.as_bytes(), values - 1), "{text}");
        }
    }
}
