//! Reads what a script writes: progress lines on standard error, `NN% message`, and the answer on standard output.

use super::answered::AnswerSoFar;
use crate::domain::event::{Event, Progress};
use crate::domain::fact::Stream;
use crate::domain::json_text::{JSON_TEXT_MAX, beginning};
use crate::engine::reader::{LineParser, Reading};

/// Claims progress lines; everything else stays raw.
#[derive(Debug, Default)]
pub(crate) struct ScriptParser {
    answer: AnswerSoFar,
}

impl ScriptParser {
    /// Whether the script has given its answer and nothing else is expected of it.
    pub(crate) fn answered(&self) -> bool {
        self.answer.is_whole()
    }
}

impl LineParser for ScriptParser {
    fn read(&mut self, stream: Stream, line: &str) -> Reading {
        match stream {
            Stream::Stderr => match progress(line) {
                Some(progress) => Reading::Events(vec![Event::Progress(progress)]),
                None => Reading::Unclaimed,
            },
            Stream::Stdout | Stream::Pty => {
                self.answer.add(line);
                Reading::Unclaimed
            }
        }
    }

    fn passed_by(&mut self, stream: Stream) {
        match stream {
            Stream::Stdout | Stream::Pty => self.answer = AnswerSoFar::Unclear,
            Stream::Stderr => {}
        }
    }
}

/// Whether a line of standard error reports progress.
pub(crate) fn is_progress(line: &str) -> bool {
    progress(line).is_some()
}

fn progress(line: &str) -> Option<Progress> {
    let (number, message) = line.trim_start().split_once('%')?;
    let plain = number.len() <= 12 && !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    let separated = message.is_empty() || message.starts_with(char::is_whitespace);
    if !plain || !separated {
        return None;
    }
    let percent: f64 = number.parse().ok()?;
    (percent <= 100.0).then(|| Progress { percent, message: beginning(message.trim(), JSON_TEXT_MAX).to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_line_that_begins_with_a_percentage_is_progress() {
        let seen = |line: &str| progress(line).map(|progress| (progress.percent, progress.message));
        assert_eq!(seen("50% half way"), Some((50.0, "half way".into())));
        assert_eq!(seen("  99.5%"), Some((99.5, String::new())));
        assert_eq!(seen("100% done "), Some((100.0, "done".into())));
        for line in ["101% x", "-1% x", "50 % x", "about 50% x", "%", "50%off", "1e1% x", "", "inf% x", "1.2.3% x"] {
            assert_eq!(seen(line), None, "{line:?}");
        }
    }
}
