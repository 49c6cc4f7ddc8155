//! Names of files that lead elsewhere on another system, or control the terminal that shows them.

/// Why a file at this path in a run's folder does not go to other machines, or nothing.
pub(crate) fn objection(path_rel: &str) -> Option<&'static str> {
    let (_, below) = path_rel.split_once('/').unwrap_or(("", path_rel));
    let objections = [
        (path_rel.chars().any(char::is_control), "its path has a control character"),
        (path_rel.contains('\\'), "its path has a backslash"),
        (begins_with_drive(path_rel) || begins_with_drive(below), "its path begins with a drive letter"),
    ];
    objections.into_iter().find_map(|(holds, reason)| holds.then_some(reason))
}

/// Whether a path begins with a drive, as one on Windows does.
pub(crate) fn begins_with_drive(path: &str) -> bool {
    matches!(path.as_bytes(), [letter, b':', ..] if letter.is_ascii_alphabetic())
}
