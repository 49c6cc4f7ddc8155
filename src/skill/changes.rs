//! What differs between two packages: files that were added, removed or changed, and the lines that differ.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::unified_diff::unified_diff;

/// Most lines of both sides together that are compared line by line, in one file and in all.
const LINES_MAX: usize = 20_000;
/// Most bytes of both sides together that are compared line by line, in one file and in all.
pub(crate) const BYTES_MAX: usize = 2 * 1024 * 1024;
/// Lines shown around each difference.
const CONTEXT: usize = 3;

/// The content of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Content {
    Text(String),
    /// Not text, or too long to be compared: known by its hash.
    Other {
        sha256: String,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Kind {
    Added,
    Removed,
    Changed,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Change {
    pub(crate) path: String,
    pub(crate) change: Kind,
    /// The lines that differ, in the unified form; none if they were not compared.
    pub(crate) diff: Option<String>,
}

/// The files that differ, by path.
pub(crate) fn changes(before: &BTreeMap<String, Content>, after: &BTreeMap<String, Content>) -> Vec<Change> {
    let paths: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    let mut left = Left { lines: LINES_MAX, bytes: BYTES_MAX };
    let mut found = Vec::new();
    for path in paths {
        let (old, new) = (before.get(path), after.get(path));
        let change = match (old, new) {
            (Some(old), Some(new)) if old == new => continue,
            (Some(_), Some(_)) => Kind::Changed,
            (Some(_), None) => Kind::Removed,
            (None, _) => Kind::Added,
        };
        let diff = match (text(old), text(new)) {
            (Some(old), Some(new)) => diff(old, new, &mut left),
            _ => None,
        };
        found.push(Change { path: path.clone(), change, diff });
    }
    found
}

/// The text of a file; that of a missing one is empty.
fn text(content: Option<&Content>) -> Option<&str> {
    match content {
        None => Some(""),
        Some(Content::Text(text)) => Some(text),
        Some(Content::Other { .. }) => None,
    }
}

/// What may still be compared.
struct Left {
    lines: usize,
    bytes: usize,
}

fn diff(old: &str, new: &str, left: &mut Left) -> Option<String> {
    let lines = left.lines.checked_sub(old.lines().count() + new.lines().count())?;
    let bytes = left.bytes.checked_sub(old.len() + new.len())?;
    *left = Left { lines, bytes };
    Some(unified_diff(old, new, CONTEXT))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(of: &[(&str, &str)]) -> BTreeMap<String, Content> {
        of.iter().map(|(path, text)| ((*path).to_owned(), Content::Text((*text).to_owned()))).collect()
    }

    #[test]
    fn every_file_that_differs_is_told_with_its_lines() {
        let mut before = files(&[("a", "1\n2\n3\n"), ("gone", "x\n"), ("same", "s")]);
        let mut after = files(&[("a", "1\ntwo\n3\n"), ("new", "y"), ("same", "s")]);
        before.insert("image".to_owned(), Content::Other { sha256: "1".to_owned() });
        after.insert("image".to_owned(), Content::Other { sha256: "2".to_owned() });
        let told = |path: &str, change, diff: Option<&str>| Change {
            path: path.to_owned(),
            change,
            diff: diff.map(str::to_owned),
        };
        assert_eq!(
            changes(&before, &after),
            [
                told("a", Kind::Changed, Some("@@ -1,3 +1,3 @@\n 1\n-2\n+two\n 3\n")),
                told("gone", Kind::Removed, Some("@@ -1 +0,0 @@\n-x\n")),
                told("image", Kind::Changed, None),
                told("new", Kind::Added, Some("@@ -0,0 +1 @@\n+y\n")),
            ]
        );
    }

    #[test]
    fn files_of_very_many_lines_are_told_without_them() {
        let long = "x\n".repeat(LINES_MAX);
        let changes = changes(&files(&[]), &files(&[("long", &long), ("next", "y\n"), ("zlong", &long)]));
        let compared: Vec<bool> = changes.iter().map(|change| change.diff.is_some()).collect();
        assert_eq!(compared, [true, false, false]);
    }

    #[test]
    fn files_of_very_many_bytes_are_told_without_their_lines() {
        let long = "x".repeat(BYTES_MAX / 2);
        let before = files(&[("a", &long), ("b", "1")]);
        let other = "y".repeat(BYTES_MAX / 2);
        let after = files(&[("a", &other), ("b", "2"), ("c", "3")]);
        let changes = changes(&before, &after);
        let compared: Vec<bool> = changes.iter().map(|change| change.diff.is_some()).collect();
        assert_eq!(compared, [true, false, false]);
    }
}
