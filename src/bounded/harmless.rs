//! Text that others wrote, made safe to show on a terminal.

/// The text without any character that moves the cursor or changes the terminal; each is shown as �.
pub(crate) fn harmless(text: &str) -> String {
    text.chars().map(|character| if shown(character) { character } else { '\u{fffd}' }).collect()
}

fn shown(character: char) -> bool {
    character == '\n' || character == '\t' || !(character.is_control() || turns_direction(character))
}

/// Characters that change the direction of text and so make a line look different from its content.
fn turns_direction(character: char) -> bool {
    matches!(character, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_engine_cannot_move_the_cursor() {
        assert_eq!(harmless("a\x1b[2Jb\r\nc\td\u{202e}"), "a\u{fffd}[2Jb\u{fffd}\nc\td\u{fffd}");
    }
}
