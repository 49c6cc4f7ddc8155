//! An error and its causes as one line of text, for logs and messages.

use std::error::Error;

/// The error and its causes, in one line.
pub fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("open the door")]
    struct Outer(#[source] std::fmt::Error);

    #[test]
    fn every_cause_is_told_after_its_effect() {
        let cause = std::fmt::Error;
        assert_eq!(chain(&Outer(cause)), format!("open the door: {cause}"));
        assert_eq!(chain(&cause), cause.to_string());
    }
}
