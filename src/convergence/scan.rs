//! Reads one JSON object or array at a place in a text, and repairs syntax errors whose meaning is certain.

use std::borrow::Cow;

use crate::bounded;

/// Deeper values are not read: the JSON parser stops there too.
const MAX_DEPTH: usize = 127;

/// How many errors of each kind were repaired.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Repairs {
    pub(super) trailing_commas: usize,
    pub(super) smart_quotes: usize,
    pub(super) closed_brackets: usize,
}

/// What begins at an opening bracket.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Scan<'a> {
    /// A whole value, up to `end`; `json` is its text with the errors repaired.
    Whole { end: usize, json: Cow<'a, str>, repairs: Repairs },
    /// Something else, seen at `at`, inside `depth` open brackets; `meant` when the text up to there was certainly JSON.
    Broken { at: usize, depth: usize, meant: bool },
    /// The text ended inside a string, a number or a word, or between a key and its value: the rest of the text belongs
    /// to this value.
    CutOff,
}

/// Scans the value that begins with the bracket at `start`.
pub(super) fn scan(text: &str, start: usize) -> Scan<'_> {
    Scanner::new(text, start).run()
}

/// What may come next.
#[derive(Clone, Copy)]
enum Expect {
    FirstItemOrClose,
    ItemAfterComma { comma: usize },
    FirstKeyOrClose,
    KeyAfterComma { comma: usize },
    Colon,
    Value,
    CommaOrClose,
}

struct Scanner<'a> {
    text: &'a str,
    start: usize,
    at: usize,
    /// The closing brackets that are still missing.
    unclosed: Vec<u8>,
    expect: Expect,
    /// The repaired text so far, as far as it differs; the original is copied up to `copied`.
    repaired: String,
    copied: usize,
    repairs: Repairs,
    /// Whether a key with its colon was read, which does not occur in prose.
    has_member: bool,
}

/// The scan cannot go on; `at` says where.
enum Stop {
    /// What stands here is not JSON.
    NotJson,
    /// The text is over before the token is.
    EndOfText,
}

impl<'a> Scanner<'a> {
    fn new(text: &'a str, start: usize) -> Self {
        Self {
            text,
            start,
            at: start,
            unclosed: Vec::new(),
            expect: Expect::Value,
            repaired: String::new(),
            copied: start,
            repairs: Repairs::default(),
            has_member: false,
        }
    }

    fn run(mut self) -> Scan<'a> {
        loop {
            self.skip_blanks();
            let step = match self.text.as_bytes().get(self.at) {
                Some(byte) => self.token(*byte),
                None => return self.at_the_end(),
            };
            match step {
                Ok(()) => {}
                Err(Stop::NotJson) => {
                    return Scan::Broken { at: self.at, depth: self.unclosed.len(), meant: self.has_member };
                }
                Err(Stop::EndOfText) => return Scan::CutOff,
            }
            if self.unclosed.is_empty() {
                return self.whole();
            }
        }
    }

    fn skip_blanks(&mut self) {
        let rest = &self.text.as_bytes()[self.at..];
        let blanks = rest.iter().take_while(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r')).count();
        self.at += blanks;
    }

    fn token(&mut self, byte: u8) -> Result<(), Stop> {
        match (self.expect, byte) {
            (Expect::FirstItemOrClose, b']') | (Expect::FirstKeyOrClose, b'}') => self.close(byte),
            (Expect::ItemAfterComma { comma }, b']') | (Expect::KeyAfterComma { comma }, b'}') => {
                self.drop_comma(comma);
                self.close(byte)
            }
            (Expect::CommaOrClose, b']' | b'}') => self.close(byte),
            (Expect::CommaOrClose, b',') => {
                let comma = self.at;
                self.expect = match self.unclosed.last() {
                    Some(b'}') => Expect::KeyAfterComma { comma },
                    Some(_) | None => Expect::ItemAfterComma { comma },
                };
                self.at += 1;
                Ok(())
            }
            (Expect::CommaOrClose, _) => Err(Stop::NotJson),
            (Expect::Colon, b':') => {
                self.expect = Expect::Value;
                self.has_member = true;
                self.at += 1;
                Ok(())
            }
            (Expect::Colon, _) => Err(Stop::NotJson),
            (Expect::FirstKeyOrClose | Expect::KeyAfterComma { .. }, _) => {
                self.string()?;
                self.expect = Expect::Colon;
                Ok(())
            }
            (Expect::FirstItemOrClose | Expect::ItemAfterComma { .. } | Expect::Value, _) => self.value(byte),
        }
    }

    fn value(&mut self, byte: u8) -> Result<(), Stop> {
        match byte {
            b'{' => self.open(b'}', Expect::FirstKeyOrClose),
            b'[' => self.open(b']', Expect::FirstItemOrClose),
            _ => {
                if byte.is_ascii_alphanumeric() || byte == b'-' {
                    self.scalar()?;
                } else {
                    self.string()?;
                }
                self.expect = Expect::CommaOrClose;
                Ok(())
            }
        }
    }

    fn open(&mut self, closer: u8, expect: Expect) -> Result<(), Stop> {
        if self.unclosed.len() == MAX_DEPTH {
            return Err(Stop::NotJson);
        }
        self.unclosed.push(closer);
        self.expect = expect;
        self.at += 1;
        Ok(())
    }

    fn close(&mut self, byte: u8) -> Result<(), Stop> {
        if self.unclosed.last() != Some(&byte) {
            return Err(Stop::NotJson);
        }
        self.unclosed.pop();
        self.expect = Expect::CommaOrClose;
        self.at += 1;
        Ok(())
    }

    fn scalar(&mut self) -> Result<(), Stop> {
        let rest = &self.text[self.at..];
        let length = rest.bytes().take_while(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'+' | b'.')).count();
        let token = &rest[..length];
        if length == rest.len() && could_go_on(token) {
            return Err(Stop::EndOfText);
        }
        if !is_scalar(token) {
            return Err(Stop::NotJson);
        }
        self.at += length;
        Ok(())
    }

    fn string(&mut self) -> Result<(), Stop> {
        match self.text[self.at..].chars().next() {
            Some('"') => self.straight_string(),
            Some(quote) if is_double(quote) => self.smart_string(quote, |next| is_double(next) || next == '"'),
            Some(quote) if is_single(quote) => self.smart_string(quote, is_single),
            Some(_) | None => Err(Stop::NotJson),
        }
    }

    fn straight_string(&mut self) -> Result<(), Stop> {
        let bytes = self.text.as_bytes();
        let mut end = self.at + 1;
        loop {
            match bytes.get(end) {
                Some(b'"') => break,
                Some(b'\\') => end += 2,
                // It is unknown where a string with a line break in it ends.
                Some(0..=0x1f) => return Err(Stop::NotJson),
                None => return Err(Stop::EndOfText),
                Some(_) => end += 1,
            }
        }
        self.at = end + 1;
        Ok(())
    }

    fn smart_string(&mut self, quote: char, closes: impl Fn(char) -> bool) -> Result<(), Stop> {
        let text = self.text;
        let inside = self.at + quote.len_utf8();
        let mut repaired = String::from("\"");
        let mut escaped = false;
        for (offset, next) in text[inside..].char_indices() {
            match next {
                '\0'..='\x1f' => return Err(Stop::NotJson),
                _ if escaped => {
                    escaped = false;
                    repaired.push(next);
                }
                '\\' => {
                    escaped = true;
                    repaired.push(next);
                }
                _ if closes(next) => {
                    repaired.push('"');
                    let end = inside + offset + next.len_utf8();
                    self.replace(self.at, end, &repaired);
                    self.repairs.smart_quotes += 1;
                    self.at = end;
                    return Ok(());
                }
                '"' => repaired.push_str("\\\""),
                _ => repaired.push(next),
            }
        }
        Err(Stop::EndOfText)
    }

    fn drop_comma(&mut self, comma: usize) {
        self.replace(comma, comma + 1, "");
        self.repairs.trailing_commas += 1;
    }

    fn replace(&mut self, from: usize, to: usize, with: &str) {
        self.repaired.push_str(&self.text[self.copied..from]);
        self.repaired.push_str(with);
        self.copied = to;
    }

    /// The text is over: brackets can be closed after a value, but a key without its value cannot be finished.
    fn at_the_end(mut self) -> Scan<'a> {
        match self.expect {
            Expect::Colon | Expect::Value => return Scan::CutOff,
            Expect::ItemAfterComma { comma } | Expect::KeyAfterComma { comma } => self.drop_comma(comma),
            Expect::FirstItemOrClose | Expect::FirstKeyOrClose | Expect::CommaOrClose => {}
        }
        let closers: String = self.unclosed.iter().rev().map(|byte| char::from(*byte)).collect();
        self.repairs.closed_brackets = self.unclosed.len();
        self.replace(self.at, self.at, &closers);
        self.whole()
    }

    fn whole(mut self) -> Scan<'a> {
        let (end, repairs) = (self.at, self.repairs);
        if repairs == Repairs::default() {
            return Scan::Whole { end, json: Cow::Borrowed(&self.text[self.start..end]), repairs };
        }
        self.replace(end, end, "");
        Scan::Whole { end, json: Cow::Owned(self.repaired), repairs }
    }
}

/// Whether a token at the very end may be the beginning of a longer one: `15` may have been `1500`; `true` is complete.
fn could_go_on(token: &str) -> bool {
    let begins_a_word =
        ["true", "false", "null"].iter().any(|word| word.len() > token.len() && word.starts_with(token));
    let is_number = token.starts_with(|first: char| first == '-' || first.is_ascii_digit()) && is_scalar(token);
    // With a digit behind them, also "-", "1." and "1e" are numbers.
    begins_a_word || is_number || is_scalar(&format!("{token}0"))
}

/// Whether a token is JSON.
fn is_scalar(token: &str) -> bool {
    bounded::json::from_str::<serde::de::IgnoredAny>(token).is_ok()
}

/// Double quotes of typography: “ ” „ ‟.
pub(super) fn is_double(quote: char) -> bool {
    matches!(quote, '\u{201c}'..='\u{201f}')
}

/// Single quotes of typography: ‘ ’ ‚ ‛.
pub(super) fn is_single(quote: char) -> bool {
    matches!(quote, '\u{2018}'..='\u{201b}')
}
