//! Reads one JSON object or array off a text, tolerating slips of syntax whose meaning is beyond doubt.

use std::borrow::Cow;

/// Deeper values are not read: the JSON parser stops there too.
const MAX_DEPTH: usize = 127;

/// How many slips of each kind were put right.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Repairs {
    pub(super) trailing_commas: usize,
    pub(super) smart_quotes: usize,
    pub(super) closed_brackets: usize,
}

/// What begins at an opening bracket.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Scan<'a> {
    /// A whole value, up to `end`; `json` is its text with the slips put right.
    Whole { end: usize, json: Cow<'a, str>, repairs: Repairs },
    /// Something else, seen at `at`, inside `depth` open brackets.
    Broken { at: usize, depth: usize },
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
    /// The closing brackets still owed.
    owed: Vec<u8>,
    expect: Expect,
    /// The repaired text so far, as far as it differs; the original is copied up to `copied`.
    repaired: String,
    copied: usize,
    repairs: Repairs,
}

/// The scan cannot go on; `at` says where.
struct Stop;

impl<'a> Scanner<'a> {
    fn new(text: &'a str, start: usize) -> Self {
        Self {
            text,
            start,
            at: start,
            owed: Vec::new(),
            expect: Expect::Value,
            repaired: String::new(),
            copied: start,
            repairs: Repairs::default(),
        }
    }

    fn run(mut self) -> Scan<'a> {
        loop {
            self.skip_blanks();
            let step = match self.text.as_bytes().get(self.at) {
                Some(byte) => self.token(*byte),
                None => return self.at_the_end(),
            };
            if let Err(Stop) = step {
                return Scan::Broken { at: self.at, depth: self.owed.len() };
            }
            if self.owed.is_empty() {
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
                self.expect = match self.owed.last() {
                    Some(b'}') => Expect::KeyAfterComma { comma },
                    Some(_) | None => Expect::ItemAfterComma { comma },
                };
                self.at += 1;
                Ok(())
            }
            (Expect::CommaOrClose, _) => Err(Stop),
            (Expect::Colon, b':') => {
                self.expect = Expect::Value;
                self.at += 1;
                Ok(())
            }
            (Expect::Colon, _) => Err(Stop),
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
        if self.owed.len() == MAX_DEPTH {
            return Err(Stop);
        }
        self.owed.push(closer);
        self.expect = expect;
        self.at += 1;
        Ok(())
    }

    fn close(&mut self, byte: u8) -> Result<(), Stop> {
        if self.owed.last() != Some(&byte) {
            return Err(Stop);
        }
        self.owed.pop();
        self.expect = Expect::CommaOrClose;
        self.at += 1;
        Ok(())
    }

    fn scalar(&mut self) -> Result<(), Stop> {
        let rest = &self.text[self.at..];
        let length = rest.bytes().take_while(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'+' | b'.')).count();
        serde_json::from_str::<serde::de::IgnoredAny>(&rest[..length]).map_err(|_| Stop)?;
        self.at += length;
        Ok(())
    }

    fn string(&mut self) -> Result<(), Stop> {
        match self.text[self.at..].chars().next() {
            Some('"') => self.straight_string(),
            Some(quote) if is_double(quote) => self.smart_string(quote, |next| is_double(next) || next == '"'),
            Some(quote) if is_single(quote) => self.smart_string(quote, is_single),
            Some(_) | None => Err(Stop),
        }
    }

    fn straight_string(&mut self) -> Result<(), Stop> {
        let bytes = self.text.as_bytes();
        let mut end = self.at + 1;
        loop {
            match bytes.get(end) {
                Some(b'"') => break,
                Some(b'\\') => end += 2,
                // A line break in a string, or the end of the text: where the string ends is anyone's guess.
                Some(0..=0x1f) | None => return Err(Stop),
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
                '\0'..='\x1f' => return Err(Stop),
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
        Err(Stop)
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
            Expect::Colon | Expect::Value => return Scan::Broken { at: self.at, depth: self.owed.len() },
            Expect::ItemAfterComma { comma } | Expect::KeyAfterComma { comma } => self.drop_comma(comma),
            Expect::FirstItemOrClose | Expect::FirstKeyOrClose | Expect::CommaOrClose => {}
        }
        let closers: String = self.owed.iter().rev().map(|byte| char::from(*byte)).collect();
        self.repairs.closed_brackets = self.owed.len();
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

/// Double quotes of typography: “ ” „ ‟.
pub(super) fn is_double(quote: char) -> bool {
    matches!(quote, '\u{201c}'..='\u{201f}')
}

/// Single quotes of typography: ‘ ’ ‚ ‛.
pub(super) fn is_single(quote: char) -> bool {
    matches!(quote, '\u{2018}'..='\u{201b}')
}
