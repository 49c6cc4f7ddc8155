//! The completion contract: how an engine is told to answer, to finish, and where files go.

use crate::domain::request::ExecutionMode;
use crate::skill::manifest::EntrypointKind;

const AUTO: &str = include_str!("auto.md");
const INTERACTIVE: &str = include_str!("interactive.md");
const AUTO_WORDS: &str = include_str!("auto_words.md");
const INTERACTIVE_WORDS: &str = include_str!("interactive_words.md");
/// The lines around the contract, by which it is found and replaced.
const BEGIN: &str = "<!-- run contract -->";
const END: &str = "<!-- end of run contract -->";

/// What an engine is to answer with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    Result,
    /// Text, from which a script makes the result.
    Words,
}

impl Answer {
    /// The answer that skills of a kind need from their engine.
    pub(crate) fn of(kind: EntrypointKind) -> Self {
        match kind {
            EntrypointKind::Prompt | EntrypointKind::Script => Self::Result,
            EntrypointKind::Hybrid => Self::Words,
        }
    }
}

/// The contract for a mode.
pub(crate) fn text(mode: ExecutionMode, answer: Answer) -> &'static str {
    match (mode, answer) {
        (ExecutionMode::Auto, Answer::Result) => AUTO,
        (ExecutionMode::Interactive, Answer::Result) => INTERACTIVE,
        (ExecutionMode::Auto, Answer::Words) => AUTO_WORDS,
        (ExecutionMode::Interactive, Answer::Words) => INTERACTIVE_WORDS,
    }
}

/// The text with the contract at its end; a contract that it already has is replaced.
pub(crate) fn append(document: &str, mode: ExecutionMode, answer: Answer) -> String {
    let own = without(document);
    let gap = if own.is_empty() { "" } else { "\n\n" };
    format!("{own}{gap}{BEGIN}\n{}{END}\n", text(mode, answer))
}

/// Whether a text has a contract.
pub(crate) fn stands_in(document: &str) -> bool {
    document.contains(BEGIN)
}

/// The text without contracts; one without an end line reaches to the end of the text.
fn without(document: &str) -> String {
    let mut own = String::with_capacity(document.len());
    let mut rest = document;
    while let Some((before, contract)) = rest.split_once(BEGIN) {
        own.push_str(before);
        rest = contract.split_once(END).map_or("", |(_, after)| after);
    }
    own.push_str(rest);
    own.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_contract_stands_once_at_the_end_however_often_it_is_appended() {
        let skill = "---\nname: demo\n---\n\nDo it.\n";
        let once = append(skill, ExecutionMode::Auto, Answer::Result);
        assert!(once.starts_with("---\nname: demo\n---\n\nDo it.\n\n<!-- run contract -->\n## How"));
        assert_eq!(append(&once, ExecutionMode::Auto, Answer::Result), once);
        let interactive = append(&once, ExecutionMode::Interactive, Answer::Result);
        assert_eq!(interactive, append(skill, ExecutionMode::Interactive, Answer::Result));
        assert!(interactive.contains("__SKILL_DONE__") && !once.contains("__SKILL_DONE__"));
    }

    #[test]
    fn a_contract_that_was_cut_off_is_replaced() {
        let whole = append("Do it.", ExecutionMode::Auto, Answer::Result);
        let cut = &whole[..whole.len() - 40];
        assert_eq!(append(cut, ExecutionMode::Auto, Answer::Result), whole);
        assert_eq!(append("", ExecutionMode::Auto, Answer::Result).lines().next(), Some(BEGIN));
    }
}
