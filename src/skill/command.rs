//! Commands of a manifest: one string, split into words without a shell.

use std::path::Path;

/// A command that cannot be split into words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotACommand {
    /// No word at all.
    #[error("the command is empty")]
    Empty,
    /// A quote that never ends.
    #[error("the command has an unclosed {quote} quote")]
    UnclosedQuote { quote: char },
    /// A backslash with nothing after it.
    #[error("the command ends in a backslash")]
    DanglingBackslash,
    /// A byte no process can be given.
    #[error("the command holds a NUL character")]
    Nul,
}

/// The command's words: blanks separate, quotes and backslashes protect, nothing is expanded.
pub fn split(command: &str) -> Result<Vec<String>, NotACommand> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut chars = command.chars();
    while let Some(next) = chars.next() {
        match next {
            '\0' => return Err(NotACommand::Nul),
            '\'' => word.get_or_insert_default().push_str(&single_quoted(&mut chars)?),
            '"' => word.get_or_insert_default().push_str(&double_quoted(&mut chars)?),
            '\\' => word.get_or_insert_default().push(chars.next().ok_or(NotACommand::DanglingBackslash)?),
            blank if blank.is_whitespace() => words.extend(word.take()),
            other => word.get_or_insert_default().push(other),
        }
    }
    words.extend(word);
    if words.first().is_none_or(String::is_empty) { Err(NotACommand::Empty) } else { Ok(words) }
}

fn single_quoted(chars: &mut std::str::Chars<'_>) -> Result<String, NotACommand> {
    let (inside, rest) = chars.as_str().split_once('\'').ok_or(NotACommand::UnclosedQuote { quote: '\'' })?;
    *chars = rest.chars();
    Ok(inside.into())
}

fn double_quoted(chars: &mut std::str::Chars<'_>) -> Result<String, NotACommand> {
    let unclosed = NotACommand::UnclosedQuote { quote: '"' };
    let mut inside = String::new();
    loop {
        match chars.next().ok_or(unclosed)? {
            '"' => return Ok(inside),
            '\\' => match chars.next().ok_or(unclosed)? {
                protected @ ('"' | '\\' | '$' | '`') => inside.push(protected),
                // As in a shell, the backslash stays before anything else.
                other => inside.extend(['\\', other]),
            },
            other => inside.push(other),
        }
    }
}

/// The path of the package that a word names, if it could be one: `./scripts/run.py` means `scripts/run.py`.
pub(crate) fn package_path(word: &str) -> &str {
    word.strip_prefix("./").unwrap_or(word)
}

/// The words with every file of the package replaced by its path in the run's copy.
pub fn in_copy(words: &[String], in_package: impl Fn(&str) -> bool, copy: &Path) -> Vec<String> {
    let place = |word: &String| {
        let path = package_path(word);
        if in_package(path) { copy.join(path).to_string_lossy().into_owned() } else { word.clone() }
    };
    words.iter().map(place).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_split_at_blanks_and_kept_together_by_quotes() {
        for (command, words) in [
            ("python3 scripts/run.py", &["python3", "scripts/run.py"][..]),
            ("  a \t b\n", &["a", "b"]),
            ("sh -c 'echo $HOME; exit'", &["sh", "-c", "echo $HOME; exit"]),
            (r#"a "b \"c\" \n $d" e"#, &["a", r#"b "c" \n $d"#, "e"]),
            (r"a\ b c\'d", &["a b", "c'd"]),
            ("x'y z'\"w\" ''", &["xy zw", ""]),
        ] {
            assert_eq!(split(command).unwrap(), words, "{command}");
        }
    }

    #[test]
    fn a_command_that_is_not_one_says_why() {
        for (command, why) in [
            ("", NotACommand::Empty),
            (" \n", NotACommand::Empty),
            ("'' a", NotACommand::Empty),
            ("a 'b", NotACommand::UnclosedQuote { quote: '\'' }),
            ("a \"b\\\"", NotACommand::UnclosedQuote { quote: '"' }),
            ("a \\", NotACommand::DanglingBackslash),
            ("a\0", NotACommand::Nul),
        ] {
            assert_eq!(split(command), Err(why), "{command:?}");
        }
    }

    #[test]
    fn only_files_of_the_package_move_into_the_copy() {
        let words = split("python3 ./scripts/run.py scripts/run.py artifacts/x.md scripts /scripts/run.py").unwrap();
        let moved = in_copy(&words, |path| path == "scripts/run.py", Path::new("/runs/1/skill"));
        let expected = [
            "python3",
            "/runs/1/skill/scripts/run.py",
            "/runs/1/skill/scripts/run.py",
            "artifacts/x.md",
            "scripts",
            "/scripts/run.py",
        ];
        assert_eq!(moved, expected);
    }
}
