//! Two texts compared line by line, in the unified form.
//!
//! Only the comparison itself is taken from the crate: its type for whole texts brings every algorithm it has, which makes the
//! program half a megabyte larger.

use std::fmt::Write;
use std::ops::Range;

use similar::algorithms::{Capture, Compact, Replace, myers};
use similar::{ChangeTag, DiffOp};

/// The lines that differ, with so many lines around them.
pub(super) fn unified_diff(old: &str, new: &str, context: usize) -> String {
    let (old, new) = (lines(old), lines(new));
    let mut found = Compact::new(Replace::new(Capture::new()), &old[..], &new[..]);
    let Ok(()) = myers::diff(&mut found, &old[..], 0..old.len(), &new[..], 0..new.len());
    let mut text = String::new();
    for hunk in found.into_inner().into_inner().into_grouped_ops(context) {
        write_hunk(&mut text, &hunk, &old, &new);
    }
    text
}

fn lines(text: &str) -> Vec<&str> {
    text.split_inclusive('\n').collect()
}

fn write_hunk(text: &mut String, hunk: &[DiffOp], old: &[&str], new: &[&str]) {
    let (Some(first), Some(last)) = (hunk.first(), hunk.last()) else { return };
    let before = place(first.old_range().start..last.old_range().end);
    let after = place(first.new_range().start..last.new_range().end);
    // Writing to a string cannot fail.
    let _ = writeln!(text, "@@ -{before} +{after} @@");
    for change in hunk.iter().flat_map(|step| step.iter_changes(old, new)) {
        text.push(match change.tag() {
            ChangeTag::Equal => ' ',
            ChangeTag::Delete => '-',
            ChangeTag::Insert => '+',
        });
        text.push_str(change.value());
        if !change.value().ends_with('\n') {
            text.push('\n');
        }
    }
}

/// Where lines begin and how many they are; no lines are said to begin at the line before.
fn place(lines: Range<usize>) -> String {
    match lines.len() {
        0 => format!("{},0", lines.start),
        1 => format!("{}", lines.start + 1),
        count => format!("{},{count}", lines.start + 1),
    }
}

#[cfg(test)]
mod tests {
    use super::unified_diff;

    #[test]
    fn changes_far_apart_are_hunks_of_their_own_and_lines_without_an_end_get_one() {
        let old = "a\nb\nc\nd\ne\nf\ng\nh\ni";
        let new = "A\nb\nc\nd\ne\nf\ng\nh\ni\nj";
        assert_eq!(unified_diff(old, new, 1), "@@ -1,2 +1,2 @@\n-a\n+A\n b\n@@ -8,2 +8,3 @@\n h\n-i\n+i\n+j\n");
        assert_eq!(unified_diff(old, old, 3), "");
        assert_eq!(unified_diff("", "x\r\n", 3), "@@ -0,0 +1 @@\n+x\r\n");
    }
}
