//! Long lines, broken between words where a terminal is too narrow for them.

use std::io::{self, IsTerminal};

use crate::cli::failure::Failure;
use crate::cli::terminal::look::{columns, width};
use crate::cli::terminal::output;

/// What a command that people copy begins with; it stays whole.
const COMMAND: &str = "skill-runner";

/// Writes a line to standard output. What a terminal has no room for goes to lines of its own, `hang` columns to the right.
pub(crate) fn line(text: &str, hang: usize) -> Result<(), Failure> {
    let stdout = io::stdout();
    if stdout.is_terminal() { output::line(&wrapped(text, columns(&stdout), hang)) } else { output::line(text) }
}

fn wrapped(text: &str, columns: usize, hang: usize) -> String {
    let mut lines = vec![String::new()];
    for word in words(text) {
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
/// the end of the line, is one word.
fn words(text: &str) -> Vec<&str> {
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
        let end = word[end..].find(' ').map_or(word.len(), |at| end + at);
        let spaces = word[end..].len() - word[end..].trim_start_matches(' ').len();
        let (taken, behind) = rest.split_at(indent + end + spaces);
        words.push(taken);
        rest = behind;
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_broken_between_words_and_a_command_stays_whole() {
        let fix = "        fix: to have it here: skill-runner engines --install opencode";
        assert_eq!(
            wrapped(fix, 40, 8),
            "        fix: to have it here:\n        skill-runner engines --install opencode"
        );
        assert_eq!(wrapped(fix, 120, 8), fix);
        assert_eq!(
            wrapped("next: `skill-runner logs abc` shows it all", 20, 2),
            "next:\n  `skill-runner logs abc`\n  shows it all"
        );
        assert_eq!(wrapped("日本語 日本語", 8, 0), "日本語\n日本語");
        assert_eq!(wrapped("onelongword", 4, 2), "onelongword");
        assert_eq!(wrapped("", 4, 2), "");
        assert_eq!(wrapped("\x1b[32mok\x1b[0m yes", 6, 2), "\x1b[32mok\x1b[0m yes");
    }
}
