//! Secrets in a stream are made unreadable before anything is kept of it, byte for byte, so that offsets stay what they are.

use bytes::Bytes;
use memchr::memmem::Finder;

/// A beginning of a secret with which a stream ends is masked from this length on.
const BEGINNING_MIN: usize = 8;

/// What one stream is searched for, and the end of it that may be the beginning of a secret.
#[derive(Debug, Default)]
pub(crate) struct Mask {
    secrets: Vec<Finder<'static>>,
    /// Bytes that came and are not given on yet.
    held: Vec<u8>,
    /// How many of the first of them belong to a secret that was found.
    masked: usize,
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
        let secrets = texts.iter().map(|text| Finder::new(text.as_bytes()).into_owned()).collect();
        Mask { secrets, ..Mask::default() }
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
        let is_plain = self.held.is_empty() && self.secrets.iter().all(|secret| secret.find(&bytes).is_none());
        if is_plain && self.beginning_at_the_end_of(&bytes) == 0 {
            return bytes;
        }
        let mut text = std::mem::take(&mut self.held);
        text.extend_from_slice(&bytes);
        let beginning = self.beginning_at_the_end_of(&text);
        let found = self.found_in(&text);
        let given = text.len() - beginning;
        let held = text.get(given..).unwrap_or_default().to_vec();
        self.masked = found.iter().map(|(_, end)| end.saturating_sub(given)).max().unwrap_or(0);
        hide(&mut text, &found);
        text.truncate(given);
        self.held = held;
        text.into()
    }

    /// What is left at the end of the stream.
    pub(crate) fn rest(&mut self) -> Bytes {
        let mut text = std::mem::take(&mut self.held);
        let mut found = self.found_in(&text);
        if text.len() >= BEGINNING_MIN {
            found.push((0, text.len()));
        }
        hide(&mut text, &found);
        text.into()
    }

    /// Where secrets are, also those that overlap.
    fn found_in(&self, text: &[u8]) -> Vec<(usize, usize)> {
        let mut found = vec![(0, self.masked)];
        for secret in &self.secrets {
            let mut from = 0;
            while let Some(at) = text.get(from..).and_then(|rest| secret.find(rest)) {
                found.push((from + at, from + at + secret.needle().len()));
                from += at + 1;
            }
        }
        found
    }

    /// The length of the longest beginning of a secret, but not of a whole one, with which the text ends.
    fn beginning_at_the_end_of(&self, text: &[u8]) -> usize {
        let longest = |secret: &Finder<'_>| {
            let needle = secret.needle();
            let most = text.len().min(needle.len().saturating_sub(1));
            (1..=most).rev().find(|length| text.ends_with(needle.get(..*length).unwrap_or_default())).unwrap_or(0)
        };
        self.secrets.iter().map(longest).max().unwrap_or(0)
    }
}

fn hide(text: &mut [u8], found: &[(usize, usize)]) {
    for (from, to) in found {
        let Some(secret) = text.get_mut(*from..*to) else { continue };
        // A number stays a number, so that what was JSON is still.
        let sign = if secret.iter().all(u8::is_ascii_digit) { b'0' } else { b'*' };
        secret.fill(sign);
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
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(text.len())).collect();
            cuts.extend([0, text.len()]);
            cuts.sort_unstable();
            let mut mask = Mask::new(&secrets);
            let mut passed = Vec::new();
            for pair in cuts.windows(2) {
                passed.extend(mask.pass(Bytes::copy_from_slice(&text.as_bytes()[pair[0]..pair[1]])));
            }
            passed.extend(mask.rest());
            prop_assert_eq!(passed, expected);
        }
    }
}
