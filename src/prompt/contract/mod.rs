//! The completion contract: how an engine is told to answer, to finish, and where files go.

use crate::domain::request::ExecutionMode;
use crate::domain::run_file::RunFile;
use crate::skill::manifest::{Entrypoint, EntrypointKind, Prompt, ResultMode};

const AUTO: &str = include_str!("auto.md");
const INTERACTIVE: &str = include_str!("interactive.md");
const AUTO_WORDS: &str = include_str!("auto_words.md");
const INTERACTIVE_WORDS: &str = include_str!("interactive_words.md");
/// The lines around the contract, by which it is found and replaced.
const BEGIN: &str = "<!-- run contract -->";
const END: &str = "<!-- end of run contract -->";

/// How an engine is to hand over its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer<'a> {
    /// The result is its last message.
    Message,
    /// The result is the argument of this tool of the engine.
    Tool(&'a str),
    /// The result is in this file of the run.
    File(&'a str),
    /// Text, from which a script makes the result.
    Words,
    /// The result is its last message, JSON or not.
    Text,
}

impl<'a> Answer<'a> {
    /// The answer that a skill needs from an engine; `tool` is the one by which this engine's model hands over a result.
    pub(crate) fn of(entrypoint: &'a Entrypoint, tool: Option<&'a str>) -> Self {
        match entrypoint.kind {
            EntrypointKind::Hybrid => Self::Words,
            EntrypointKind::Prompt | EntrypointKind::Script if takes_text(&entrypoint.prompt) => Self::Text,
            EntrypointKind::Prompt | EntrypointKind::Script => match (result_file(&entrypoint.prompt), tool) {
                (Some(file), _) => Self::File(file),
                (None, Some(tool)) => Self::Tool(tool),
                (None, None) => Self::Message,
            },
        }
    }
}

/// Whether the last message is the result, JSON or not.
pub(crate) fn takes_text(prompt: &Prompt) -> bool {
    prompt.result_mode == Some(ResultMode::Message)
}

/// The file that the engine is told to write its result to.
pub(crate) fn result_file(prompt: &Prompt) -> Option<&str> {
    match prompt.result_mode {
        Some(ResultMode::Stdout | ResultMode::Message) => None,
        Some(ResultMode::File) => Some(prompt.result_file.as_deref().unwrap_or(RunFile::Result.name())),
        None => prompt.result_file.as_deref(),
    }
}

/// The contract for a mode.
pub(crate) fn text(mode: ExecutionMode, answer: Answer<'_>) -> String {
    let (base, done) = match (mode, answer) {
        (ExecutionMode::Auto, Answer::Words) => return AUTO_WORDS.to_owned(),
        (ExecutionMode::Interactive, Answer::Words) => return INTERACTIVE_WORDS.to_owned(),
        (ExecutionMode::Auto, Answer::Message) => (
            AUTO,
            "When everything is done, answer with the result as one JSON object that satisfies the output schema: your last \
             message holds that object and nothing else, no code fence and no text around it."
                .to_owned(),
        ),
        (ExecutionMode::Auto, Answer::Tool(tool)) => (
            AUTO,
            format!(
                "When everything is done, hand over the result by calling the tool `{tool}` once. Its arguments are the \
                 result: one JSON object that satisfies the output schema. Do not write the result into a message \
                 instead, and say nothing after the call."
            ),
        ),
        (ExecutionMode::Auto, Answer::File(file)) => (
            AUTO,
            format!(
                "When everything is done, write the result to the file `{file}` in the run's folder: one JSON object that \
                 satisfies the output schema, and nothing else. Then end with a short message that does not repeat it."
            ),
        ),
        (ExecutionMode::Interactive, Answer::File(file)) => (
            INTERACTIVE,
            format!(
                "When everything is done, and only then, write the result to the file `{file}` in the run's folder: one JSON \
                 object that satisfies the output schema, and nothing else. Then end with a message that has \
                 `__SKILL_DONE__` on a line of its own."
            ),
        ),
        (ExecutionMode::Auto, Answer::Text) => (
            AUTO,
            "When everything is done, end with a message that tells the result. Where the instructions ask for JSON, that \
             message holds the JSON."
                .to_owned(),
        ),
        (ExecutionMode::Interactive, Answer::Text) => (
            INTERACTIVE,
            "When everything is done, and only then, end with a message that tells the result and has `__SKILL_DONE__` on a \
             line of its own."
                .to_owned(),
        ),
        // A turn that may ask has no tool for its result.
        (ExecutionMode::Interactive, Answer::Message | Answer::Tool(_)) => (
            INTERACTIVE,
            "When everything is done, and only then, answer with the result as one JSON object that satisfies the output \
             schema, with the member `\"__SKILL_DONE__\": true` added, and nothing else around it."
                .to_owned(),
        ),
    };
    base.replace("{done}", &done)
}

/// The text with the contract at its end; a contract that it already has is replaced.
pub(crate) fn append(document: &str, mode: ExecutionMode, answer: Answer<'_>) -> String {
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
        let once = append(skill, ExecutionMode::Auto, Answer::Message);
        assert!(once.starts_with("---\nname: demo\n---\n\nDo it.\n\n<!-- run contract -->\n## How"));
        assert_eq!(append(&once, ExecutionMode::Auto, Answer::Message), once);
        let interactive = append(&once, ExecutionMode::Interactive, Answer::Message);
        assert_eq!(interactive, append(skill, ExecutionMode::Interactive, Answer::Message));
        assert!(interactive.contains("__SKILL_DONE__") && !once.contains("__SKILL_DONE__"));
    }

    #[test]
    fn a_contract_that_was_cut_off_is_replaced() {
        let whole = append("Do it.", ExecutionMode::Auto, Answer::Message);
        let cut = &whole[..whole.len() - 40];
        assert_eq!(append(cut, ExecutionMode::Auto, Answer::Message), whole);
        assert_eq!(append("", ExecutionMode::Auto, Answer::Message).lines().next(), Some(BEGIN));
    }

    #[test]
    fn the_contract_says_how_this_engine_hands_over_this_result() {
        let told = |mode, answer: Answer<'_>| {
            let contract = text(mode, answer);
            assert!(!contract.contains("{done}"), "{contract}");
            let says = |words: &str| contract.contains(words);
            (says("your last message holds that object"), says("calling the tool `T`"), says("the file `out/r.json`"))
        };
        assert_eq!(told(ExecutionMode::Auto, Answer::Message), (true, false, false));
        assert_eq!(told(ExecutionMode::Auto, Answer::Tool("T")), (false, true, false));
        assert_eq!(told(ExecutionMode::Auto, Answer::File("out/r.json")), (false, false, true));
        assert_eq!(told(ExecutionMode::Interactive, Answer::File("out/r.json")), (false, false, true));
        assert_eq!(told(ExecutionMode::Interactive, Answer::Tool("T")), (false, false, false));
        let prompt = |mode, file: Option<&str>| Prompt {
            result_mode: mode,
            result_file: file.map(str::to_owned),
            ..Prompt::default()
        };
        assert_eq!(result_file(&prompt(Some(ResultMode::File), None)), Some("result/result.json"));
        assert_eq!(result_file(&prompt(Some(ResultMode::File), Some("a.json"))), Some("a.json"));
        assert_eq!(result_file(&prompt(None, Some("a.json"))), Some("a.json"));
        assert_eq!(result_file(&prompt(Some(ResultMode::Stdout), Some("a.json"))), None);
        assert_eq!(result_file(&prompt(None, None)), None);
    }
}
