//! Long lines of text, broken between words.

use std::io::{self, IsTerminal, Write};

use unicode_width::UnicodeWidthChar;

use crate::cli::terminal::look::{columns, harmless_but_colours, width};

/// What a command that people copy begins with; it stays whole.
const COMMAND: &str = "skill-runner";

/// Every line of a text, broken between words; what follows the first part of a line is further to the right than it.
pub(crate) fn folded(text: &str, columns: usize) -> String {
    let fold = |line: &str| wrapped(line, columns, line.len() - line.trim_start_matches(' ').len() + 2);
    text.split('\n').map(fold).collect::<Vec<_>>().join("\n")
}

/// Writes a text to standard error, broken between words on a terminal, which only the program's own colours control. Nobody is
/// told if nobody reads it.
pub(crate) fn to_stderr(text: &str) {
    let mut stderr = io::stderr();
    let text = harmless_but_colours(text);
    let _ = match stderr.is_terminal() {
        true => writeln!(stderr, "{}", folded(&text, columns(&stderr))),
        false => writeln!(stderr, "{text}"),
    };
}

/// A line, broken between words so that each part has this many columns at most; all but the first are `hang` columns to the right.
pub(crate) fn wrapped(text: &str, columns: usize, hang: usize) -> String {
    let mut lines = vec![String::new()];
    for word in words(text, columns.saturating_sub(hang)) {
        let line = lines.last().map_or(0, |line| shown_width(line));
        let begun = lines.last().is_some_and(|line| !line.trim().is_empty());
        if begun && line + shown_width(word.trim_end_matches(' ')) > columns {
            lines.push(" ".repeat(hang));
        }
        if let Some(line) = lines.last_mut() {
            line.push_str(word);
        }
    }
    lines.iter().map(|line| line.trim_end()).collect::<Vec<_>>().join("\n")
}

/// The columns that a text takes; colours take none.
fn shown_width(text: &str) -> usize {
    let mut parts = text.split('\x1b');
    let first = parts.next().map_or(0, width);
    first + parts.map(|part| width(part.split_once('m').map_or(part, |(_, shown)| shown))).sum::<usize>()
}

/// The words of a line, each with the spaces behind it; leading spaces are the first one's. A command in backticks, and one at
/// the end of the line, is one word, if there is room for it.
fn words(text: &str, room: usize) -> Vec<&str> {
    let mut words = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let indent = rest.len() - rest.trim_start_matches(' ').len();
        let word = &rest[indent..];
        let end = match word.strip_prefix('`').and_then(|command| command.find('`')) {
            Some(closing) => closing + 2,
            None if word.starts_with(COMMAND) => word.len(),
            None => 0,
        };
        let command = if width(&word[..end]) > room { 0 } else { end };
        let space = word[command..].find(' ').map_or(word.len(), |at| command + at);
        let end = if command > 0 { space } else { first_wide(&word[..space]).unwrap_or(space) };
        let spaces = word[end..].len() - word[end..].trim_start_matches(' ').len();
        let (taken, behind) = rest.split_at(indent + end + spaces);
        words.push(taken);
        rest = behind;
    }
    words
}

/// Where the first wide character ends. Text in such characters has no spaces, and is broken between any two of them.
fn first_wide(word: &str) -> Option<usize> {
    word.char_indices().find_map(|(at, letter)| (letter.width() == Some(2)).then_some(at + letter.len_utf8()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_broken_between_words_and_a_command_stays_whole() {
        let fix = "        fix: to have it here: skill-runner engines --install opencode";
        assert_eq!(
            wrapped(fix, 50, 8),
            "        fix: to have it here:\n        skill-runner engines --install opencode"
        );
        assert_eq!(wrapped(fix, 120, 8), fix);
        assert_eq!(
            wrapped("next: `skill-runner logs abc` shows it all", 26, 2),
            "next:\n  `skill-runner logs abc`\n  shows it all"
        );
        assert_eq!(wrapped("next: `skill-runner logs abc`", 16, 2), "next:\n  `skill-runner\n  logs abc`");
        assert_eq!(folded("error: one two\n  three four five", 12), "error: one\n  two\n  three four\n    five");
        assert_eq!(wrapped("日本語 日本語", 8, 0), "日本語\n日本語");
        assert_eq!(wrapped("error: 日本語テキスト、x", 14, 2), "error: 日本語\n  テキスト、x");
        assert_eq!(wrapped("`skill-runner logs 日本` shows", 24, 2), "`skill-runner logs 日本`\n  shows");
        assert_eq!(wrapped("onelongword", 4, 2), "onelongword");
        assert_eq!(wrapped("", 4, 2), "");
        assert_eq!(wrapped("\x1b[32mok\x1b[0m yes", 6, 2), "\x1b[32mok\x1b[0m yes");
    }
}
