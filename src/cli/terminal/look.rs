//! Colours and progress lines only on a terminal, and no colours if NO_COLOR is set.

use std::io::IsTerminal;

/// What an output stream can show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Look {
    /// It is a terminal, so a line can be overwritten.
    pub(crate) live: bool,
    pub(crate) colour: bool,
}

/// A colour by its meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ink {
    Dim,
    Good,
    Bad,
    Caution,
}

impl Look {
    pub(crate) fn of(stream: &impl IsTerminal) -> Self {
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        let live = stream.is_terminal() && !dumb;
        Self { live, colour: live && colours_wanted() }
    }

    /// The text in a colour, if colours are on.
    pub(crate) fn paint(self, ink: Ink, text: &str) -> String {
        let code = match ink {
            Ink::Dim => "2",
            Ink::Good => "32",
            Ink::Bad => "31",
            Ink::Caution => "33",
        };
        if self.colour { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

/// The convention: any value but the empty one turns colours off.
fn colours_wanted() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// Text of an engine made harmless: no character moves the cursor or changes the terminal.
pub(crate) fn harmless(text: &str) -> String {
    text.chars().map(|character| if shown(character) { character } else { '\u{fffd}' }).collect()
}

fn shown(character: char) -> bool {
    character == '\n' || character == '\t' || !(character.is_control() || turns_direction(character))
}

/// Characters that change the direction of text and so make a line look different from its content.
fn turns_direction(character: char) -> bool {
    matches!(character, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// The text on one line, cut to so many characters.
pub(crate) fn one_line(text: &str, most: usize) -> String {
    let words = harmless(text).split_whitespace().collect::<Vec<_>>().join(" ");
    if words.chars().count() <= most {
        return words;
    }
    let cut: String = words.chars().take(most.saturating_sub(1)).collect();
    format!("{cut}…")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_engine_cannot_move_the_cursor() {
        assert_eq!(harmless("a\x1b[2Jb\r\nc\td\u{202e}"), "a\u{fffd}[2Jb\u{fffd}\nc\td\u{fffd}");
    }

    #[test]
    fn long_text_is_cut_to_one_line() {
        assert_eq!(one_line("  a\n b\t\tc ", 10), "a b c");
        assert_eq!(one_line("abcdef", 4), "abc…");
        assert_eq!(one_line("abcd", 4), "abcd");
    }

    #[test]
    fn without_colours_text_stays_as_it_is() {
        let plain = Look { live: true, colour: false };
        assert_eq!(plain.paint(Ink::Bad, "x"), "x");
        assert_eq!(Look { live: true, colour: true }.paint(Ink::Bad, "x"), "\x1b[31mx\x1b[0m");
    }
}
