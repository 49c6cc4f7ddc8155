//! Colours and progress lines only on a terminal, and no colours if NO_COLOR is set.

use std::io::IsTerminal;

pub(crate) use crate::bounded::harmless::harmless;
use std::os::fd::AsFd;

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

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
        if self.colour { format!("{}{text}{PLAIN}", ink.code()) } else { text.to_owned() }
    }
}

/// Ends a colour.
const PLAIN: &str = "\x1b[0m";

impl Ink {
    const ALL: [Self; 4] = [Self::Dim, Self::Good, Self::Bad, Self::Caution];

    fn code(self) -> &'static str {
        match self {
            Self::Dim => "\x1b[2m",
            Self::Good => "\x1b[32m",
            Self::Bad => "\x1b[31m",
            Self::Caution => "\x1b[33m",
        }
    }
}

/// The convention: any value but the empty one turns colours off.
fn colours_wanted() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// Text made harmless for a terminal, but the colours that this program itself uses stay.
pub(crate) fn harmless_but_colours(text: &str) -> String {
    let colours = || Ink::ALL.into_iter().map(Ink::code).chain([PLAIN]);
    let mut safe = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\x1b') {
        let (before, escape) = rest.split_at(at);
        safe.push_str(&harmless(before));
        let known = colours().find(|colour| escape.starts_with(colour));
        safe.push_str(known.unwrap_or("\u{fffd}"));
        rest = escape.get(known.map_or(1, str::len)..).unwrap_or_default();
    }
    safe.push_str(&harmless(rest));
    safe
}

/// A name that others chose, made harmless and kept on its line.
pub(crate) fn harmless_name(name: &str) -> String {
    harmless(name).replace(['\n', '\t'], "\u{fffd}")
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

/// Columns of a terminal that does not say how wide it is.
const USUAL_COLUMNS: usize = 80;

/// How many columns a terminal has now.
pub(crate) fn columns(terminal: &impl AsFd) -> usize {
    let size = rustix::termios::tcgetwinsize(terminal).ok();
    size.map(|size| usize::from(size.ws_col)).filter(|columns| *columns > 0).unwrap_or(USUAL_COLUMNS)
}

/// How many columns the text takes; a wide character takes two.
pub(crate) fn width(text: &str) -> usize {
    text.width()
}

/// The text, cut so that it takes at most so many columns.
pub(crate) fn fit(text: &str, columns: usize) -> String {
    if width(text) <= columns {
        return text.to_owned();
    }
    let (mut cut, mut taken) = (String::new(), 1);
    for character in text.chars() {
        taken += character.width().unwrap_or(0);
        if taken > columns {
            break;
        }
        cut.push(character);
    }
    if columns > 0 { format!("{cut}…") } else { cut }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_colours_of_this_program_pass() {
        let own = Look { live: true, colour: true }.paint(Ink::Bad, "no");
        assert_eq!(harmless_but_colours(&format!("{own}\t\n")), format!("{own}\t\n"));
        assert_eq!(harmless_but_colours("\x1b[8mhidden\x1b[0m\x1b"), "\u{fffd}[8mhidden\x1b[0m\u{fffd}");
        assert_eq!(harmless_but_colours("a\u{9b}2J\x07"), "a\u{fffd}2J\u{fffd}");
    }

    #[test]
    fn a_name_makes_no_line_of_its_own() {
        assert_eq!(harmless_name("a  b\n\tc\r\u{85}\x1b"), "a  b\u{fffd}\u{fffd}c\u{fffd}\u{fffd}\u{fffd}");
    }

    #[test]
    fn long_text_is_cut_to_one_line() {
        assert_eq!(one_line("  a\n b\t\tc ", 10), "a b c");
        assert_eq!(one_line("abcdef", 4), "abc…");
        assert_eq!(one_line("abcd", 4), "abcd");
    }

    #[test]
    fn text_is_cut_by_the_columns_that_it_takes() {
        assert_eq!(fit("abcdef", 6), "abcdef");
        assert_eq!(fit("abcdef", 5), "abcd…");
        assert_eq!(fit("日本語テキスト", 8), "日本語…");
        assert_eq!(fit("日本語テキスト", 7), "日本語…");
        assert_eq!(fit("日本", 4), "日本");
        assert_eq!((fit("ab", 1), fit("ab", 0)), ("…".to_owned(), String::new()));
        for columns in 0..20 {
            assert!(width(&fit("a日b本c語d", columns)) <= columns);
        }
    }

    #[test]
    fn without_colours_text_stays_as_it_is() {
        let plain = Look { live: true, colour: false };
        assert_eq!(plain.paint(Ink::Bad, "x"), "x");
        assert_eq!(Look { live: true, colour: true }.paint(Ink::Bad, "x"), "\x1b[31mx\x1b[0m");
    }
}
