//! The completion contract: how an engine is told to answer, to finish, and where files go.

use crate::domain::request::ExecutionMode;

const AUTO: &str = include_str!("auto.md");
const INTERACTIVE: &str = include_str!("interactive.md");
/// Around the contract, so that it is recognized and never stands twice.
const BEGIN: &str = "<!-- run contract -->";
const END: &str = "<!-- end of run contract -->";

/// The contract for a mode.
pub fn text(mode: ExecutionMode) -> &'static str {
    match mode {
        ExecutionMode::Auto => AUTO,
        ExecutionMode::Interactive => INTERACTIVE,
    }
}

/// The text with the mode's contract at its end, instead of any contract it already carried.
pub fn append(document: &str, mode: ExecutionMode) -> String {
    let own = without(document);
    let gap = if own.is_empty() { "" } else { "\n\n" };
    format!("{own}{gap}{BEGIN}\n{}{END}\n", text(mode))
}

/// Whether a text carries a contract.
pub fn stands_in(document: &str) -> bool {
    document.contains(BEGIN)
}

/// The text without contracts; one whose end is missing reaches to the end of the text.
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
        let once = append(skill, ExecutionMode::Auto);
        assert!(once.starts_with("---\nname: demo\n---\n\nDo it.\n\n<!-- run contract -->\n## How"));
        assert_eq!(append(&once, ExecutionMode::Auto), once);
        let interactive = append(&once, ExecutionMode::Interactive);
        assert_eq!(interactive, append(skill, ExecutionMode::Interactive));
        assert!(interactive.contains("__SKILL_DONE__") && !once.contains("__SKILL_DONE__"));
    }

    #[test]
    fn a_contract_that_was_cut_off_is_replaced() {
        let whole = append("Do it.", ExecutionMode::Auto);
        let cut = &whole[..whole.len() - 40];
        assert_eq!(append(cut, ExecutionMode::Auto), whole);
        assert_eq!(append("", ExecutionMode::Auto).lines().next(), Some(BEGIN));
    }
}
