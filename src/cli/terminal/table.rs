//! Tables for people: aligned columns, the last of which is wrapped to the width of the terminal.

use std::io::{self, IsTerminal};

use crate::cli::terminal::look::{self, width};

/// Fewest columns for a last cell beside the others; with less, it stands below them.
const LAST_MIN: usize = 24;
/// How far a cell that stands below the others is indented.
const BELOW: usize = 6;

/// The width that standard output allows: that of the terminal, and any elsewhere.
pub(crate) fn columns() -> usize {
    let out = io::stdout();
    if out.is_terminal() { look::columns(&out) } else { usize::MAX }
}

/// The lines of a table. Columns in which every cell but the first row's is empty are left out.
pub(crate) fn lines(rows: &[Vec<String>], columns: usize) -> Vec<String> {
    let count = rows.iter().map(Vec::len).max().unwrap_or(0);
    let cell = |row: &Vec<String>, at: usize| row.get(at).cloned().unwrap_or_default();
    let used: Vec<usize> =
        (0..count).filter(|at| rows.len() == 1 || rows.iter().skip(1).any(|row| !cell(row, *at).is_empty())).collect();
    let Some((last, before)) = used.split_last() else { return Vec::new() };
    let widths: Vec<usize> =
        before.iter().map(|at| rows.iter().map(|row| width(&cell(row, *at))).max().unwrap_or(0)).collect();
    let indent: usize = widths.iter().map(|wide| wide + 2).sum();
    let longest = rows.iter().map(|row| width(&cell(row, *last))).max().unwrap_or(0);
    let room = columns.saturating_sub(indent);
    let beside = room >= LAST_MIN.min(longest);
    rows.iter()
        .flat_map(|row| {
            let cells = before.iter().zip(&widths).map(|(at, wide)| {
                let cell = cell(row, *at);
                format!("{cell}{}  ", " ".repeat(wide - width(&cell)))
            });
            let head: String = cells.collect();
            let text = cell(row, *last);
            if beside {
                let wrapped = wrapped(&text, room);
                let hanging = wrapped.iter().skip(1).map(|line| format!("{}{line}", " ".repeat(indent)));
                let first = format!("{head}{}", wrapped.first().cloned().unwrap_or_default());
                std::iter::once(first.trim_end().to_owned()).chain(hanging).collect::<Vec<_>>()
            } else {
                let below = wrapped(&text, columns.saturating_sub(BELOW));
                let below = below.into_iter().map(|line| format!("{}{line}", " ".repeat(BELOW)));
                std::iter::once(head.trim_end().to_owned()).chain(below).collect()
            }
        })
        .collect()
}

/// The words of a text on lines of at most so many columns; a longer word is cut.
pub(crate) fn wrapped(text: &str, columns: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in look::harmless(text).split_whitespace() {
        match lines.last_mut() {
            Some(line) if width(line) + 1 + width(word) <= columns => {
                line.push(' ');
                line.push_str(word);
            }
            Some(_) | None => lines.extend(pieces(word, columns)),
        }
    }
    lines
}

/// A word in pieces of at most so many columns.
fn pieces(word: &str, columns: usize) -> Vec<String> {
    let mut pieces = vec![String::new()];
    for letter in word.chars() {
        let mut bytes = [0; 4];
        let letter: &str = letter.encode_utf8(&mut bytes);
        match pieces.last_mut() {
            Some(piece) if piece.is_empty() || width(piece) + width(letter) <= columns => piece.push_str(letter),
            Some(_) | None => pieces.push(letter.to_owned()),
        }
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows() -> Vec<Vec<String>> {
        let row = |cells: [&str; 4]| cells.map(str::to_owned).to_vec();
        vec![
            row(["FIELD", "TYPE", "DEFAULT", "ABOUT"]),
            row(["text", "string", "", "The text whose words are counted, in any language."]),
            row(["図書館", "integer", "", "A library."]),
        ]
    }

    #[test]
    fn the_last_column_is_wrapped_and_empty_ones_are_left_out() {
        assert_eq!(
            lines(&rows(), 44),
            [
                "FIELD   TYPE     ABOUT",
                "text    string   The text whose words are",
                "                 counted, in any language.",
                "図書館  integer  A library.",
            ]
        );
        assert_eq!(lines(&rows(), usize::MAX).len(), 3);
    }

    #[test]
    fn without_room_the_last_cell_stands_below() {
        assert_eq!(
            lines(&rows(), 34)[2..6],
            ["text    string", "      The text whose words are", "      counted, in any language.", "図書館  integer"]
        );
        assert_eq!(wrapped("a 0123456789 b", 4), ["a", "0123", "4567", "89 b"]);
        for columns in [34, 44, 60, 120] {
            assert!(lines(&rows(), columns).iter().all(|line| width(line) <= columns), "{columns}");
        }
    }
}
