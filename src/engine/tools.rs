//! `allowed-tools` of a skill: the tools of an agent CLI that its model may use, in the names of the open format.

use serde_json::Value;

/// A tool, or some of its uses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AllowedTool {
    pub(crate) name: String,
    /// What stands in parentheses behind the name, such as `git:*`.
    pub(crate) uses: Option<String>,
}

/// How a CLI is held to some of its tools.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ToolControl {
    /// Its own names for those of the open format; a name that is not listed is its own, too, where `others` says so.
    names: &'static [(&'static str, &'static [&'static str])],
    others: bool,
    /// Where it keeps to what stands in parentheses.
    uses: Uses,
    /// What else it is not held to by a list of tools.
    beyond: Beyond,
}

/// What of a list of tools a CLI is not held to, whatever stands in parentheses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Beyond {
    Nothing,
    /// It has no switch for the tool that changes files; where it runs no commands either, it can be held to read.
    EditsBesideTheShell,
    /// Its setting is only known from its documentation.
    Untried,
}

/// Something that a skill says of tools and an engine is not held to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct NotKept {
    pub(crate) asked: &'static str,
    /// What of the engine is the reason, to be read behind its name.
    pub(crate) why: &'static str,
}

const PARENTHESES: NotKept =
    NotKept { asked: "what stands in parentheses in allowed-tools", why: "has no setting for it" };
const EDITS: NotKept = NotKept {
    asked: "allowed-tools without Edit and Write",
    why: "has no switch for its tool that changes files, and commands can change them, too",
};
const UNTRIED: NotKept = NotKept {
    asked: "allowed-tools",
    why: "is told by its setting coreTools, and whether it obeys could not be tried",
};

/// For which tools a CLI can be held to some uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Uses {
    OfEveryTool,
    OfTheShell,
    Never,
}

/// The tool that runs commands.
const SHELL: &str = "Bash";
/// The tools that change files.
const EDITORS: [&str; 4] = ["Edit", "MultiEdit", "NotebookEdit", "Write"];

/// Whether commands can be run with these tools.
pub(crate) fn run_commands(tools: &[AllowedTool]) -> bool {
    tools.iter().any(|tool| tool.name == SHELL)
}

/// Whether files can be changed with these tools, but for commands.
pub(crate) fn change_files(tools: &[AllowedTool]) -> bool {
    tools.iter().any(|tool| EDITORS.contains(&tool.name.as_str()))
}

impl ToolControl {
    /// A CLI with the names of the open format.
    pub(crate) const OPEN_FORMAT: ToolControl =
        ToolControl { names: &[], others: true, uses: Uses::OfEveryTool, beyond: Beyond::Nothing };

    /// A CLI with names of its own.
    pub(crate) const fn named(names: &'static [(&'static str, &'static [&'static str])], uses: Uses) -> Self {
        ToolControl { names, others: false, uses, beyond: Beyond::Nothing }
    }

    /// The same, which is not held to something else besides.
    pub(crate) const fn but(self, beyond: Beyond) -> Self {
        ToolControl { beyond, ..self }
    }

    /// What it is not held to of these tools.
    pub(crate) fn does_not_keep(&self, tools: &[AllowedTool]) -> Vec<NotKept> {
        let parentheses = (!tools.iter().all(|tool| self.keeps(tool))).then_some(PARENTHESES);
        let beyond = match self.beyond {
            Beyond::Nothing => None,
            Beyond::EditsBesideTheShell => (run_commands(tools) && !change_files(tools)).then_some(EDITS),
            Beyond::Untried => Some(UNTRIED),
        };
        // What is not kept as a whole has no parts.
        match beyond {
            Some(UNTRIED) => vec![UNTRIED],
            beyond => parentheses.into_iter().chain(beyond).collect(),
        }
    }

    /// Whether it keeps to everything that is said of this tool.
    fn keeps(&self, tool: &AllowedTool) -> bool {
        tool.uses.is_none()
            || match self.uses {
                Uses::OfEveryTool => true,
                Uses::OfTheShell => tool.name == SHELL,
                Uses::Never => false,
            }
    }

    /// The CLI's own names of a tool; none if it has no such tool.
    pub(crate) fn names_of<'a>(&self, tool: &'a AllowedTool) -> Vec<&'a str> {
        match self.names.iter().find(|(name, _)| *name == tool.name) {
            Some((_, own)) => own.to_vec(),
            None if self.others => vec![&tool.name],
            None => Vec::new(),
        }
    }

    /// The CLI's own names of these tools, with the beginning of a command in parentheses: `run_shell_command(git)`.
    pub(crate) fn with_commands<'a>(&self, tools: &'a [AllowedTool]) -> impl Iterator<Item = String> + use<'a> {
        let control = *self;
        let own =
            tools.iter().flat_map(move |tool| control.names_of(tool).into_iter().map(|name| (name, tool.command())));
        own.map(|(name, command)| command.map_or(name.to_owned(), |command| format!("{name}({command})")))
    }
}

impl AllowedTool {
    /// The beginning that a command of the shell must have: `git` in `git:*`, `git *` and `git`.
    pub(crate) fn command(&self) -> Option<&str> {
        let uses = self.uses.as_deref().filter(|_| self.name == SHELL)?.trim();
        Some(uses.strip_suffix('*').map_or(uses, |uses| uses.trim_end_matches([':', ' '])))
    }

    /// As the open format writes it.
    pub(crate) fn written(&self) -> String {
        match &self.uses {
            Some(uses) => format!("{}({uses})", self.name),
            None => self.name.clone(),
        }
    }

    fn read(text: &str) -> Option<AllowedTool> {
        let (name, uses) = match text.split_once('(') {
            Some((name, uses)) => (name, Some(uses.strip_suffix(')')?)),
            None => (text, None),
        };
        // It becomes an argument of the CLI: it must not look like an option.
        let is_name = name.starts_with(|first: char| first.is_ascii_alphabetic())
            && name.chars().all(|c| c.is_ascii_alphanumeric() || "_-.*".contains(c));
        let uses = uses.filter(|uses| !["", "*"].contains(uses)).map(str::to_owned);
        let plain = !uses.as_deref().is_some_and(|uses| uses.chars().any(char::is_control));
        (is_name && plain).then(|| AllowedTool { name: name.to_owned(), uses })
    }
}

/// The tools of a list, or of a text in which spaces or commas separate them. None if nothing is listed: then every tool may be used.
pub(crate) fn read(written: Option<&Value>) -> Option<Vec<AllowedTool>> {
    let texts: Vec<&str> = match written? {
        Value::String(text) => separate(text),
        Value::Array(tools) => tools.iter().filter_map(Value::as_str).map(str::trim).collect(),
        _ => Vec::new(),
    };
    let texts: Vec<&str> = texts.into_iter().filter(|text| !text.is_empty()).collect();
    // A name that cannot be one allows nothing.
    (!texts.is_empty()).then(|| texts.into_iter().filter_map(AllowedTool::read).collect())
}

/// Spaces and commas inside parentheses do not separate.
fn separate(text: &str) -> Vec<&str> {
    let mut depth = 0_usize;
    text.split(|c: char| {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth == 0 && (c == ',' || c.is_whitespace())
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn written(value: Value) -> Option<Vec<String>> {
        read(Some(&value)).map(|tools| tools.iter().map(AllowedTool::written).collect())
    }

    #[test]
    fn a_list_is_read_as_text_and_as_an_array_and_one_that_says_nothing_allows_everything() {
        let three = Some(vec!["Read".to_owned(), "Bash(git add:*)".to_owned(), "Grep".to_owned()]);
        assert_eq!(written(json!("Read Bash(git add:*)  Grep")), three);
        assert_eq!(written(json!("Read, Bash(git add:*),Grep")), three);
        assert_eq!(written(json!(["Read", "Bash(git add:*)", "Grep"])), three);
        assert_eq!(written(json!("Bash(*)")), Some(vec!["Bash".to_owned()]));
        for nothing in [json!(""), json!(" , "), json!([]), json!(null), json!(7)] {
            assert_eq!(written(nothing), None);
        }
        assert_eq!(read(None), None);
    }

    #[test]
    fn what_cannot_be_the_name_of_a_tool_allows_nothing_and_is_no_option_of_a_cli() {
        for odd in ["--dangerously-skip-permissions", "-p", "(x)", "Bash(git", "Bash(a\nb)", "a=b"] {
            assert_eq!(written(json!([odd])), Some(Vec::new()), "{odd:?}");
        }
    }

    #[test]
    fn the_beginning_of_a_command_is_found_in_each_way_to_write_it() {
        for (text, prefix) in [("Bash(git:*)", "git"), ("Bash(git add *)", "git add"), ("Bash(ls)", "ls")] {
            assert_eq!(AllowedTool::read(text).unwrap().command(), Some(prefix), "{text}");
        }
        assert_eq!(AllowedTool::read("Bash").unwrap().command(), None);
    }
}
