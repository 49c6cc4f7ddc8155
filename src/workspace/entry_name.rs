//! Which names in a zip may become paths.

use crate::domain::file_name::begins_with_drive;

/// Longest name, in bytes.
const MAX_NAME_BYTES: usize = 1024;
/// Longest part between slashes: what file systems take.
const MAX_PART_BYTES: usize = 255;
const MAX_DEPTH: usize = 32;

/// Why a name may not become a path, or nothing.
pub(crate) fn objection(name: &str) -> Option<&'static str> {
    // A folder's entry ends with one slash; the name before it follows the same rules.
    let name = name.strip_suffix('/').unwrap_or(name);
    let parts = || name.split('/');
    let objections = [
        (name.is_empty(), "it is empty"),
        (name.len() > MAX_NAME_BYTES, "it is longer than 1024 bytes"),
        (name.contains('\0'), "it contains a NUL character"),
        (name.chars().any(char::is_control), "it contains a control character"),
        (name.contains('\\'), "it contains a backslash"),
        (name.starts_with('/'), "it is an absolute path"),
        (begins_with_drive(name), "it begins with a drive letter"),
        (parts().any(|part| part == ".."), "it leads out of the folder with `..`"),
        (parts().any(|part| part.is_empty() || part == "."), "it has an empty part or `.`"),
        (parts().any(|part| part.len() > MAX_PART_BYTES), "a part of it is longer than 255 bytes"),
        (parts().count() > MAX_DEPTH, "it is nested deeper than 32 folders"),
    ];
    objections.into_iter().find_map(|(holds, reason)| holds.then_some(reason))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn ordinary_names_are_accepted() {
        let deepest = vec!["d"; MAX_DEPTH].join("/");
        for name in ["a", "a/b.txt", "a/", "données/été.csv", "..a", "a..b", "...", ".hidden", "C", "1:2", &deepest]
        {
            assert_eq!(objection(name), None, "{name}");
        }
    }

    #[test]
    fn each_unsafe_name_is_refused_for_its_reason() {
        let (long, wide) = (["abcd"; 210].join("/"), "x".repeat(256));
        let deep = vec!["d"; MAX_DEPTH + 1].join("/");
        for (name, reason) in [
            ("", "it is empty"),
            ("/", "it is empty"),
            ("/etc/passwd", "it is an absolute path"),
            ("//host/share", "it is an absolute path"),
            ("..", "it leads out of the folder with `..`"),
            ("a/../../b", "it leads out of the folder with `..`"),
            ("a/..", "it leads out of the folder with `..`"),
            ("C:/windows", "it begins with a drive letter"),
            ("c:x", "it begins with a drive letter"),
            ("..\\x", "it contains a backslash"),
            ("a\0.txt", "it contains a NUL character"),
            ("a\nb", "it contains a control character"),
            ("a\u{85}b", "it contains a control character"),
            ("a//b", "it has an empty part or `.`"),
            ("./a", "it has an empty part or `.`"),
            ("a//", "it has an empty part or `.`"),
            (&wide, "a part of it is longer than 255 bytes"),
            (&long, "it is longer than 1024 bytes"),
            (&deep, "it is nested deeper than 32 folders"),
        ] {
            assert_eq!(objection(name), Some(reason), "{name:?}");
        }
    }

    proptest! {
        #[test]
        fn an_accepted_name_stays_below_its_folder(name in "[a-c./\\\\:\\x00-\\x02]{0,12}") {
            if objection(&name).is_none() {
                let ordinary = |part| matches!(part, std::path::Component::Normal(_));
                prop_assert!(std::path::Path::new(&name).components().all(ordinary), "{name:?}");
            }
        }
    }
}
