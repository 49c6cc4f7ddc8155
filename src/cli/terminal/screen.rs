//! Shows a run's events while it runs: what matters in short, or with -v every event; a progress bar on a terminal.

use std::io::{self, Write};

use crate::bounded;
use crate::cli::terminal::dialogue::Dialogue;
use crate::cli::terminal::event_line::summary;
use crate::cli::terminal::fold::folded;
use crate::cli::terminal::look::{Ink, Look, columns, fit, harmless, harmless_but_colours, one_line, width};
use crate::convergence::{DONE_MARKER, without_blocks};
use crate::domain::event::Event;
use crate::fcmp::{Envelope, read_envelope};

/// Clears the line of the cursor.
const CLEAR: &str = "\r\x1b[2K";
/// Longest name of a type of events.
const TYPE_MAX: usize = 100;
const BAR_CELLS: usize = 20;
/// Columns that the bar needs beside a message of some use; on a narrower terminal there is only the percentage.
const BAR_FROM_COLUMNS: usize = 48;

/// Where events are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shown {
    /// Standard output is for the result.
    OnStderr,
    OnStdout,
}

pub(crate) struct Screen {
    shown: Shown,
    look: Look,
    /// Every event, one line each.
    verbose: bool,
    /// What the progress line says: percentage and message.
    bar: Option<(f64, String)>,
    /// What the assistant said last.
    said: String,
}

impl Screen {
    pub(crate) fn new(shown: Shown, verbose: bool) -> Self {
        let look = match shown {
            Shown::OnStderr => Look::of(&io::stderr()),
            Shown::OnStdout => Look::of(&io::stdout()),
        };
        Self { shown, look, verbose, bar: None, said: String::new() }
    }

    pub(crate) fn look(&self) -> Look {
        self.look
    }

    pub(crate) fn show(&mut self, event: &[u8]) {
        let envelope = match read_envelope(event) {
            Ok(envelope) => envelope,
            Err(error) => return self.line(&format!("an event cannot be read: {error}")),
        };
        if let Some(Event::Progress(progress)) = &envelope.event
            && self.look.live
        {
            return self.draw(progress.percent, one_line(&progress.message, columns_of(self.shown)));
        }
        if self.verbose {
            let (seq, name) = (envelope.seq, one_line(&envelope.type_name, TYPE_MAX));
            return self.line(format!("#{seq} {name} {}", summary(&envelope)).trim_end());
        }
        if let Some(Event::AssistantMessage(message)) = &envelope.event {
            self.said = words(&message.text);
        }
        if let Some((ink, text)) = brief(&envelope) {
            let text = match ink {
                Some(ink) => self.look.paint(ink, &text),
                None => text,
            };
            self.line(&text);
        }
    }

    /// Shows a question. If the assistant has just said the same, only what can be answered is shown.
    pub(crate) fn ask(&mut self, dialogue: &Dialogue) {
        let prompt = harmless(dialogue.question().prompt.trim());
        let repeated = !self.verbose && self.said == prompt;
        self.line(&if repeated { dialogue.answers() } else { dialogue.shown() });
    }

    pub(crate) fn say(&mut self, text: &str) {
        self.line(text);
    }

    /// Removes the progress line.
    pub(crate) fn clear(&mut self) {
        if self.bar.take().is_some() {
            self.write(CLEAR, "");
        }
    }

    fn line(&mut self, text: &str) {
        let bar = self.bar.clone();
        self.clear();
        let text = if self.look.live { folded(text, columns_of(self.shown)) } else { text.to_owned() };
        self.write("", &format!("{text}\n"));
        if let Some((percent, message)) = bar {
            self.draw(percent, message);
        }
    }

    fn draw(&mut self, percent: f64, message: String) {
        // Measured each time: the window may have been made narrower.
        let line = bar(percent, &message, columns_of(self.shown));
        self.write(CLEAR, &line);
        self.bar = Some((percent, message));
    }

    /// Writes text that controls the terminal by nothing but what stands before it. A failed write does not stop the run.
    fn write(&mut self, control: &str, text: &str) {
        let text = format!("{control}{}", harmless_but_colours(text));
        let _ = match self.shown {
            Shown::OnStderr => io::stderr().write_all(text.as_bytes()),
            Shown::OnStdout => io::stdout().write_all(text.as_bytes()).and_then(|()| io::stdout().flush()),
        };
    }
}

fn columns_of(shown: Shown) -> usize {
    match shown {
        Shown::OnStderr => columns(&io::stderr()),
        Shown::OnStdout => columns(&io::stdout()),
    }
}

/// What a person who waits for a result wants to know of an event; none for what only says how the run is kept.
fn brief(envelope: &Envelope) -> Option<(Option<Ink>, String)> {
    let event = envelope.event.as_ref()?;
    let dim = |text: String| Some((Some(Ink::Dim), text));
    match event {
        Event::Started(_) => dim(format!("run {}: {}", envelope.run_id, summary(envelope))),
        Event::Uploaded(_) => dim(format!("files: {}", summary(envelope))),
        Event::CacheHit(_) => dim(summary(envelope)),
        Event::AssistantMessage(message) => Some((None, words(&message.text))).filter(|(_, text)| !text.is_empty()),
        Event::ToolCall(_) => dim(format!("tool {}", summary(envelope))),
        Event::CommandExecution(_) => dim(format!("$ {}", summary(envelope))),
        Event::Progress(_) => dim(summary(envelope)),
        Event::ReplyAccepted(reply) => dim(format!("answered: {}", one_line(&reply.response_preview, 200))),
        Event::AutoDecided(decided) => dim(format!(
            "nobody answered question {} within {} s, so the policy {} decided",
            decided.interaction_id,
            decided.timeout_sec,
            one_line(&decided.policy, 100)
        )),
        Event::RetryScheduled(_) => Some((Some(Ink::Caution), format!("begun again: {}", summary(envelope)))),
        Event::Warned(_) => Some((Some(Ink::Caution), format!("warning: {}", summary(envelope)))),
        Event::CancelRequested(_) => dim(format!("cancel requested {}", summary(envelope))),
        Event::Recovered(_) => dim(format!("recovered: {}", summary(envelope))),
        // The question is shown by whoever can say how to answer it, and the end with the result.
        Event::InputRequired(_)
        | Event::StateChanged(_)
        | Event::TurnStarted(_)
        | Event::SessionBound(_)
        | Event::AssistantReasoning(_)
        | Event::UsageReported(_)
        | Event::RawStdout(_)
        | Event::RawStderr(_)
        | Event::Normalized(_)
        | Event::ArtifactIndexed(_)
        | Event::Completed(_)
        | Event::Failed(_) => None,
    }
}

/// What the assistant says to people: not the result, which is shown at the end, nor the form of a question.
fn words(text: &str) -> String {
    let text = without_blocks(&harmless(text)).replace(DONE_MARKER, "");
    let text = text.trim();
    let is_result = bounded::json::from_str::<serde::de::IgnoredAny>(text).is_ok();
    if is_result { String::new() } else { text.to_owned() }
}

/// The progress line. It never takes the last column, where some terminals wrap.
fn bar(percent: f64, message: &str, columns: usize) -> String {
    let percent = percent.clamp(0.0, 100.0);
    let number = format!("{percent:>3.0}% ");
    let columns = columns.saturating_sub(1);
    let head = if columns >= BAR_FROM_COLUMNS {
        let full = (percent / 100.0 * BAR_CELLS as f64).floor() as usize;
        format!("{}{} {number}", "█".repeat(full), "░".repeat(BAR_CELLS - full))
    } else {
        number
    };
    let left = columns.saturating_sub(width(&head));
    fit(&format!("{head}{}", fit(message, left)), columns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bar_is_as_full_as_the_percentage_says() {
        assert_eq!(bar(0.0, "a", 80), "░░░░░░░░░░░░░░░░░░░░   0% a");
        assert_eq!(bar(50.0, "half way", 80), "██████████░░░░░░░░░░  50% half way");
        assert_eq!(bar(1e9, "", 80), "████████████████████ 100% ");
        assert_eq!(bar(f64::NAN, "x", 80).chars().filter(|cell| *cell == '░').count(), BAR_CELLS);
    }

    #[test]
    fn of_what_the_assistant_says_results_and_forms_of_questions_are_left_out() {
        for (text, shown) in [
            ("I looked.\n", "I looked."),
            ("{\"name\": \"Ann\"}\n__SKILL_DONE__\n", ""),
            ("One thing.\n<ASK_USER_YAML>\nprompt: Who?\n</ASK_USER_YAML>\n", "One thing."),
            ("<ASK_USER_YAML>\nprompt: Who?\n", ""),
            ("One.\n<ASK_USER_YAML>a</ASK_USER_YAML>\n<ASK_USER_YAML>b</ASK_USER_YAML>", "One."),
        ] {
            assert_eq!(words(text), shown, "{text}");
        }
    }

    #[test]
    fn the_bar_stays_on_its_line_whatever_the_width_and_the_message() {
        let message = "図書館の本を一冊ずつ読んでいます, one by one, and e\u{301}ach with care, for a long time";
        for columns in 0..130 {
            let line = bar(33.0, message, columns);
            assert!(width(&line) < columns.max(1), "{columns}: {line}");
        }
        assert_eq!(bar(40.0, "computing", 30), " 40% computing");
        assert_eq!(bar(40.0, message, 60).chars().next(), Some('█'));
    }
}
