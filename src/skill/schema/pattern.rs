//! What a regular expression of a schema may cost, estimated from its text.
//!
//! A pattern that is matched without backtracking takes at most its number of states for each byte of the text. One with
//! lookaround or back references is matched by backtracking, which may read the text again from each of its bytes.

/// Longest pattern, in bytes.
const LENGTH_MAX: usize = 2048;
/// Most groups that are open at once: patterns are read by recursion.
const GROUPS_MAX: usize = 40;
/// Most states of one pattern.
const STATES_MAX: u64 = 20_000;
/// States and bytes that are tried in the time of one step.
const TRIES_PER_STEP: u64 = 32;

/// What is known of a pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Pattern {
    pub(super) states: u64,
    pub(super) backtracks: bool,
}

impl Pattern {
    /// The measure of a pattern, or why it is too much. Whether it is a pattern at all, its compiler tells.
    pub(super) fn of(text: &str) -> Result<Self, String> {
        if text.len() > LENGTH_MAX {
            return Err(format!("a pattern is longer than {LENGTH_MAX} bytes"));
        }
        let mut reader = Reader { bytes: text.as_bytes(), at: 0, groups: vec![Group::default()], backtracks: false };
        reader.run()?;
        let states = reader.groups.iter().fold(1_u64, |sum, group| sum.saturating_add(group.states));
        if states > STATES_MAX {
            return Err(format!("a pattern repeats so much that it has more than {STATES_MAX} states"));
        }
        Ok(Self { states, backtracks: reader.backtracks })
    }

    /// Steps it may take to match a text of this many bytes.
    pub(super) fn steps(self, length: usize) -> u64 {
        let length = u64::try_from(length).unwrap_or(u64::MAX).saturating_add(1);
        let tries = length.saturating_mul(self.states);
        let tries = if self.backtracks { tries.saturating_mul(length) } else { tries };
        1 + tries / TRIES_PER_STEP
    }
}

#[derive(Default)]
struct Group {
    states: u64,
    /// The states of the last element, which a repetition behind it multiplies.
    last: u64,
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    groups: Vec<Group>,
    backtracks: bool,
}

impl Reader<'_> {
    fn run(&mut self) -> Result<(), String> {
        while let Some(byte) = self.next() {
            match byte {
                b'(' => {
                    self.backtracks |= self.looks_around();
                    self.groups.push(Group::default());
                    if self.groups.len() > GROUPS_MAX {
                        return Err(format!("a pattern has more than {GROUPS_MAX} groups inside each other"));
                    }
                }
                b')' if self.groups.len() > 1 => {
                    let inside = self.groups.pop().map_or(0, |group| group.states);
                    self.add(inside.saturating_add(2));
                }
                b'[' => self.class(),
                b'\\' => self.escape(),
                b'{' => self.counted(),
                // A possessive repetition is matched by backtracking.
                b'*' | b'+' | b'?' => self.backtracks |= self.peek() == Some(b'+'),
                b'.' => self.add(10),
                b'|' => self.add(1),
                _ => self.add(1),
            }
        }
        Ok(())
    }

    fn next(&mut self) -> Option<u8> {
        let byte = self.peek()?;
        self.at += 1;
        Some(byte)
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn add(&mut self, states: u64) {
        if let Some(group) = self.groups.last_mut() {
            group.states = group.states.saturating_add(states);
            group.last = states;
        }
    }

    /// Any group that begins with `(?` but is neither `(?:` nor named.
    fn looks_around(&self) -> bool {
        match self.bytes.get(self.at..).unwrap_or_default() {
            [b'?', b':', ..] | [b'?', b'P', b'<', ..] => false,
            [b'?', b'<', next, ..] => matches!(next, b'=' | b'!'),
            [b'?', ..] => true,
            _ => false,
        }
    }

    fn class(&mut self) {
        let mut states = 4;
        // A bracket right behind the opening one, or behind its ^, is an element.
        if self.peek() == Some(b'^') {
            (self.at, states) = (self.at + 1, 16);
        }
        if self.peek() == Some(b']') {
            self.at += 1;
        }
        while let Some(byte) = self.next() {
            match byte {
                b']' => break,
                b'\\' => states += self.escaped(),
                0x80.. => states += 2,
                _ => {}
            }
        }
        self.add(states);
    }

    fn escape(&mut self) {
        let states = self.escaped();
        self.add(states);
    }

    /// The states of what follows a backslash.
    fn escaped(&mut self) -> u64 {
        let named = self.next();
        // The name of a class, or a number, belongs to it: a brace there is no repetition.
        if matches!(named, Some(b'p' | b'P' | b'u' | b'x' | b'k' | b'g')) && self.peek() == Some(b'{') {
            let rest = self.bytes.get(self.at..).unwrap_or_default();
            self.at += rest.iter().position(|byte| *byte == b'}').map_or(rest.len(), |end| end + 1);
        }
        match named {
            Some(b'p' | b'P') => 400,
            Some(b'D' | b'W' | b'S') => 16,
            Some(b'1'..=b'9' | b'k' | b'g' | b'G' | b'K') => {
                self.backtracks = true;
                4
            }
            _ => 3,
        }
    }

    /// A repetition such as {3}, {3,} or {3,9}; anything else is no repetition.
    fn counted(&mut self) {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let end = rest.iter().position(|byte| *byte == b'}');
        let inside = end.and_then(|end| std::str::from_utf8(rest.get(..end)?).ok());
        let Some(inside) =
            inside.filter(|inside| inside.bytes().all(|byte| byte.is_ascii_digit() || b", ".contains(&byte)))
        else {
            return self.add(1);
        };
        let most = inside.split(',').map(|number| number.trim().parse().unwrap_or(u64::from(!number.is_empty()))).max();
        self.at += inside.len() + 1;
        if let Some(group) = self.groups.last_mut() {
            let more = group.last.saturating_mul(most.unwrap_or(1).max(1));
            group.states = group.states.saturating_add(more);
            group.last = group.last.saturating_add(more);
        }
        self.backtracks |= self.peek() == Some(b'+');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repetitions_multiply_and_lookaround_backtracks() {
        let states = |text: &str| Pattern::of(text).unwrap().states;
        assert!(states("^[\\w-]{1,64}$") < 1000, "{}", states("^[\\w-]{1,64}$"));
        assert!(states("(a{10}){10}") > 100);
        assert!(Pattern::of("((a{100}){100}){100}").is_err());
        assert!(Pattern::of(&"(".repeat(100)).is_err());
        assert!(Pattern::of(&"a".repeat(5000)).is_err());
        assert!(Pattern::of("\\p{L}{100}").is_err());
        let backtracks = |text: &str| Pattern::of(text).unwrap().backtracks;
        assert!(["(?=a)b", "(?!a)b", "(?<=a)b", "(a)\\1", "a++", "(?>a)"].into_iter().all(backtracks));
        assert!(!["(?:a)b", "(?<name>a)", "[(?=]", "a+?", "\\(?"].into_iter().any(backtracks));
    }
}
