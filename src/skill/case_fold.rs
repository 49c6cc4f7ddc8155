//! Names of which a file system that ignores case makes one.

use std::collections::BTreeMap;

/// The name as a file system that ignores case would compare it.
pub(crate) fn folded(name: &str) -> String {
    // First to upper case: `ſ` and `s`, or `ß` and `ss`, meet only there.
    name.strip_suffix('/').unwrap_or(name).to_uppercase().to_lowercase()
}

/// The first path that meets another one, itself or by a folder on its way, when case is ignored. The same path given
/// twice does not count.
pub(crate) fn first_clash<'a>(paths: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    // Folder and folded part → its number as a folder, and how it was first written: no longer than the paths together.
    let mut seen: BTreeMap<(usize, String), (usize, &str)> = BTreeMap::new();
    for path in paths {
        let mut folder = 0;
        for part in path.strip_suffix('/').unwrap_or(path).split('/') {
            let next = seen.len() + 1;
            let (number, written) = *seen.entry((folder, folded(part))).or_insert((next, part));
            if written != part {
                return Some(path);
            }
            folder = number;
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_differ_only_in_case_fold_to_the_same() {
        for (one, other) in [("Report.MD", "report.md"), ("É", "é"), ("straße", "STRASSE"), ("dir/", "DIR")] {
            assert_eq!(folded(one), folded(other));
        }
        assert_ne!(folded("a"), folded("b"));
    }

    #[test]
    fn a_file_or_a_folder_on_its_way_that_meets_another_is_found() {
        for (paths, clash) in [
            (&["a/x", "a/y", "a/", "b/a", "b/A.txt"][..], None),
            (&["a/x", "a/x"], None),
            (&["x", "X"], Some("X")),
            (&["a/x", "A/y"], Some("A/y")),
            (&["a/", "A/"], Some("A/")),
            (&["a/b/c/x", "a/B/d/y"], Some("a/B/d/y")),
            (&["straße/x", "STRASSE/y"], Some("STRASSE/y")),
        ] {
            assert_eq!(first_clash(paths.iter().copied()), clash, "{paths:?}");
        }
    }
}
