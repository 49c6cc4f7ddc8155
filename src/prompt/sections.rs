//! The prompts of a run in one text: the first as it is, each later one below a line that tells it apart.

/// What the prompt of a turn is called.
pub(crate) fn of_turn(number: u32) -> String {
    format!("turn {number}")
}

/// The line above a prompt that is called so.
pub(crate) fn heading(name: &str) -> String {
    format!("\n\n----- {name} -----\n\n")
}

/// Where the prompts of so many turns end in the text of all.
pub(crate) fn end_of(prompts: &[u8], turns: u32) -> usize {
    if turns == 0 {
        return 0;
    }
    let next = heading(&of_turn(turns.saturating_add(1)));
    prompts.windows(next.len()).position(|window| window == next.as_bytes()).unwrap_or(prompts.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_prompts_of_some_turns_are_the_beginning_of_all() {
        let all = format!("Do it.{}Better.{}Ann", heading("turn 1, repair"), heading(&of_turn(2)));
        let shown = |turns: u32| &all[..end_of(all.as_bytes(), turns)];
        assert_eq!(
            [shown(0), shown(1), shown(2), shown(9)],
            ["", "Do it.\n\n----- turn 1, repair -----\n\nBetter.", &all, &all]
        );
    }
}
