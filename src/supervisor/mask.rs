//! Secrets in a stream are made unreadable before anything is kept of it, byte for byte, so that offsets stay what they are.

use std::ops::Range;

use bytes::Bytes;
use memchr::memmem::Finder;

/// A beginning of a secret with which a stream ends is masked from this length on.
const BEGINNING_MIN: usize = 8;

/// What one stream is searched for, and the end of it that may be the beginning of a secret.
#[derive(Debug, Default)]
pub(crate) struct Mask {
    secrets: Vec<Secret>,
    /// Bytes that came and are not given on yet. Those that belong to a secret that was found are masked already.
    held: Vec<u8>,
}

impl Mask {
    pub(crate) fn new(secrets: &[String]) -> Mask {
        let mut texts: Vec<String> = secrets.iter().filter(|secret| !secret.is_empty()).cloned().collect();
        // Most engines print JSON, in which some characters are written in another way.
        let quoted = secrets.iter().filter_map(|secret| serde_json::to_string(secret).ok());
        texts.extend(quoted.filter_map(|quoted| Some(quoted.strip_prefix('"')?.strip_suffix('"')?.to_owned())));
        texts.retain(|text| !text.is_empty());
        texts.sort_unstable();
        texts.dedup();
        Mask { secrets: texts.iter().map(|text| Secret::new(text.as_bytes())).collect(), ..Mask::default() }
    }

    /// How many bytes wait for what follows them.
    pub(crate) fn held(&self) -> u64 {
        self.held.len() as u64
    }

    /// The bytes with their secrets masked, without those at the end that may be the beginning of one.
    pub(crate) fn pass(&mut self, bytes: Bytes) -> Bytes {
        if self.secrets.is_empty() {
            return bytes;
        }
        let before = self.held.len();
        let mut found = Vec::new();
        for secret in &mut self.secrets {
            secret.read(&bytes, before, &mut found);
        }
        let beginning = self.secrets.iter().map(|secret| secret.seen).max().unwrap_or(0);
        if before == 0 && beginning == 0 && found.is_empty() {
            return bytes;
        }
        let mut text = std::mem::take(&mut self.held);
        text.extend_from_slice(&bytes);
        for (range, is_number) in found {
            hide(text.get_mut(range).unwrap_or_default(), is_number);
        }
        self.held = text.split_off(text.len().saturating_sub(beginning));
        text.into()
    }

    /// What is left at the end of the stream.
    pub(crate) fn rest(&mut self) -> Bytes {
        let mut text = std::mem::take(&mut self.held);
        for secret in &mut self.secrets {
            secret.seen = 0;
        }
        if text.len() >= BEGINNING_MIN {
            let is_number = is_number(&text);
            hide(&mut text, is_number);
        }
        text.into()
    }
}

/// One secret, and how much of its beginning the stream ends with. Each byte of the stream is looked at a bounded number of times,
/// whatever it and the secret are.
#[derive(Debug)]
struct Secret {
    finder: Finder<'static>,
    is_number: bool,
    /// For each length of a beginning of the secret, from 1 on: the length of the longest shorter one with which it ends.
    shorter: Vec<usize>,
    /// The length of the longest beginning of the secret, but not of a whole one, with which the stream ends.
    seen: usize,
}

impl Secret {
    fn new(text: &[u8]) -> Secret {
        let finder = Finder::new(text).into_owned();
        let mut secret = Secret { finder, is_number: is_number(text), shorter: vec![0], seen: 0 };
        for byte in text.iter().skip(1) {
            secret.seen = secret.longer(*byte);
            secret.shorter.push(secret.seen);
        }
        secret.seen = 0;
        secret
    }

    /// The length of the longest beginning with which the stream ends after this byte.
    fn longer(&self, byte: u8) -> usize {
        let needle = self.finder.needle();
        let mut length = self.seen;
        while length > 0 && needle.get(length) != Some(&byte) {
            length = self.shorter(length);
        }
        if needle.get(length) == Some(&byte) { length + 1 } else { 0 }
    }

    fn shorter(&self, length: usize) -> usize {
        length.checked_sub(1).and_then(|index| self.shorter.get(index)).copied().unwrap_or(0)
    }

    /// Reads on. Adds where the secret is in the stream, with overlapping places as one, and whether it is a number; the first byte has
    /// the offset `before`.
    fn read(&mut self, bytes: &[u8], before: usize, found: &mut Vec<(Range<usize>, bool)>) {
        let whole = self.finder.needle().len();
        let mut last: Option<Range<usize>> = None;
        let mut at = 0;
        let mut ends_soon = false;
        while let Some(byte) = bytes.get(at) {
            // Where no secret has begun, the next one is found faster; without another, only the end can be the beginning of one.
            if self.seen == 0 && !ends_soon {
                let next = bytes.get(at..).and_then(|rest| self.finder.find(rest));
                ends_soon = next.is_none();
                let skipped = next.unwrap_or_else(|| (bytes.len() - at).saturating_sub(whole - 1));
                if skipped > 0 {
                    at += skipped;
                    continue;
                }
            }
            at += 1;
            self.seen = self.longer(*byte);
            if self.seen < whole {
                continue;
            }
            self.seen = self.shorter(whole);
            let end = before + at;
            let begin = end.saturating_sub(whole);
            match &mut last {
                Some(last) if begin <= last.end => last.end = end,
                _ => found.extend(last.replace(begin..end).map(|range| (range, self.is_number))),
            }
        }
        found.extend(last.map(|range| (range, self.is_number)));
    }
}

fn is_number(text: &[u8]) -> bool {
    text.iter().all(u8::is_ascii_digit)
}

/// Fills what a secret has taken, or the beginning of one. A number stays a number, so that what was JSON is still; what another
/// secret has hidden in it stays hidden.
fn hide(secret: &mut [u8], is_number: bool) {
    if is_number {
        secret.iter_mut().filter(|byte| byte.is_ascii_digit()).for_each(|byte| *byte = b'0');
    } else {
        secret.fill(b'*');
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn masked(secrets: &[&str], chunks: &[&str]) -> (Vec<String>, String) {
        let secrets: Vec<String> = secrets.iter().map(|secret| (*secret).to_owned()).collect();
        let mut mask = Mask::new(&secrets);
        let text = |bytes: Bytes| String::from_utf8(bytes.to_vec()).unwrap();
        let passed = chunks.iter().map(|chunk| text(mask.pass(Bytes::copy_from_slice(chunk.as_bytes())))).collect();
        (passed, text(mask.rest()))
    }

    /// What comes of a text that is cut at these places.
    fn passed_in_pieces(secrets: &[String], text: &str, cuts: Vec<usize>) -> Vec<u8> {
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(text.len())).collect();
        cuts.extend([0, text.len()]);
        cuts.sort_unstable();
        let mut mask = Mask::new(secrets);
        let mut passed = Vec::new();
        for pair in cuts.windows(2) {
            passed.extend(mask.pass(Bytes::copy_from_slice(&text.as_bytes()[pair[0]..pair[1]])));
        }
        passed.extend(mask.rest());
        passed
    }

    #[test]
    fn a_secret_is_masked_wherever_chunks_end_and_the_rest_stays() {
        let secret = "sk-secret-1";
        let line = format!("{{\"out\":\"key {secret} and {secret}{secret}\"}}\n");
        let expected = line.replace(secret, "***********");
        for cut in 0..line.len() {
            let (passed, rest) = masked(&[secret], &[&line[..cut], &line[cut..]]);
            assert_eq!(passed.concat() + &rest, expected, "{cut}");
            assert!(!passed.concat().contains("sk-secr"), "{cut}");
        }
        let letters: Vec<String> = line.chars().map(String::from).collect();
        let (passed, rest) = masked(&[secret], &letters.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(passed.concat() + &rest, expected);
    }

    #[test]
    fn only_what_may_be_a_beginning_is_held_and_a_long_one_at_the_very_end_is_masked() {
        assert_eq!(masked(&["sk-secret-1"], &["a line\n"]), (vec!["a line\n".into()], String::new()));
        assert_eq!(masked(&["sk-secret-1"], &["ask", "-"]), (vec!["a".into(), String::new()], "sk-".into()));
        assert_eq!(masked(&["sk-secret-1"], &["x sk-secret"]), (vec!["x ".into()], "*********".into()));
        assert_eq!(masked(&[], &["anything"]), (vec!["anything".into()], String::new()));
    }

    #[test]
    fn secrets_in_json_numbers_and_secrets_that_overlap_are_masked() {
        assert_eq!(masked(&["a\"b\\c\nd!"], &[r#"{"k":"a\"b\\c\nd!"}"#]).0, [r#"{"k":"***********"}"#]);
        assert_eq!(masked(&["12345678"], &[r#"{"pin":12345678}"#]).0, [r#"{"pin":00000000}"#]);
        assert_eq!(masked(&["abcabcabc"], &["xabcabcabcabcx"]).0, ["x************x"]);
        // The end of one is the beginning of the other, which then does not follow.
        assert_eq!(masked(&["one-secret", "secret-two"], &["one-secret", "-nothing"]), {
            (vec!["****".into(), "******-nothing".into()], String::new())
        });
    }

    /// If bytes were looked at again for each place of a secret, this would take minutes.
    #[test]
    fn many_long_secrets_of_one_letter_are_masked_in_a_stream_of_that_letter() {
        let secrets: Vec<String> = (0..120).map(|n| "a".repeat(8192 - n)).collect();
        let mut mask = Mask::new(&secrets);
        let piece = Bytes::from(vec![b'a'; 64 * 1024]);
        let mut passed = Vec::new();
        for _ in 0..4 {
            passed.extend(mask.pass(piece.clone()));
        }
        // What comes byte by byte is not looked at again and again.
        for _ in 0..4096 {
            passed.extend(mask.pass(piece.slice(..1)));
        }
        passed.extend(mask.rest());
        assert_eq!(passed.len(), (256 << 10) + 4096);
        assert!(passed.iter().all(|byte| *byte == b'*'));
    }

    proptest! {
        #[test]
        fn how_a_stream_is_cut_changes_nothing_and_no_byte_is_lost(
            text in "[ab]{0,60}",
            cuts in proptest::collection::vec(0_usize..60, 0..6),
        ) {
            let secrets = ["abba".to_owned(), "bababb".to_owned()];
            let mut whole = Mask::new(&secrets);
            let mut expected = whole.pass(Bytes::from(text.clone())).to_vec();
            expected.extend(whole.rest());
            prop_assert_eq!(expected.len(), text.len());
            prop_assert_eq!(passed_in_pieces(&secrets, &text, cuts), expected);
        }

        #[test]
        fn every_byte_of_a_secret_is_masked_and_no_other(
            secrets in proptest::collection::vec("[a1]{1,5}", 1..4),
            text in "[a1]{0,40}x",
            cuts in proptest::collection::vec(0_usize..40, 0..6),
        ) {
            let mut expected = text.clone().into_bytes();
            for digits in [true, false] {
                for secret in secrets.iter().filter(|secret| secret.bytes().all(|byte| byte.is_ascii_digit()) == digits) {
                    for at in (0..text.len()).filter(|at| text[*at..].starts_with(secret.as_str())) {
                        expected[at..at + secret.len()].fill(if digits { b'0' } else { b'*' });
                    }
                }
            }
            prop_assert_eq!(passed_in_pieces(&secrets, &text, cuts), expected);
        }
    }
}
