//! Shows a run's events while it runs: with a progress line on a terminal, as one line per event elsewhere.

use std::io::{self, Write};

use crate::cli::terminal::event_line::summary;
use crate::cli::terminal::look::{Ink, Look, harmless, one_line};
use crate::domain::event::Event;
use crate::fcmp::{Envelope, read_envelope};

const BAR_CELLS: usize = 20;
/// Longest message beside the bar, so that the line is not wrapped on the usual terminal.
const MESSAGE_MAX: usize = 45;

pub(crate) struct Screen {
    out: Box<dyn Write>,
    look: Look,
    /// The progress line on the screen.
    bar: Option<String>,
}

impl Screen {
    /// On standard output, or on standard error if standard output is used for a document.
    pub(crate) fn new(stdout_is_taken: bool) -> Self {
        let (out, look): (Box<dyn Write>, Look) = if stdout_is_taken {
            (Box::new(io::stderr()), Look::of(&io::stderr()))
        } else {
            (Box::new(io::stdout()), Look::of(&io::stdout()))
        };
        Self { out, look, bar: None }
    }

    pub(crate) fn look(&self) -> Look {
        self.look
    }

    pub(crate) fn show(&mut self, event: &[u8]) {
        let envelope = match read_envelope(event) {
            Ok(envelope) => envelope,
            Err(error) => return self.line(&format!("an event cannot be read: {error}")),
        };
        if !self.look.live {
            let (seq, name) = (envelope.seq, &envelope.type_name);
            return self.line(format!("#{seq} {name} {}", summary(&envelope)).trim_end());
        }
        match &envelope.event {
            Some(Event::Progress(progress)) => self.draw(bar(progress.percent, &progress.message)),
            Some(Event::AssistantMessage(message)) => self.line(harmless(&message.text).trim_end()),
            // The result is shown at the end, and the rest would bury it.
            Some(Event::RawStdout(_) | Event::Completed(_) | Event::Failed(_) | Event::Normalized(_)) => {}
            Some(Event::Warned(_)) => self.note(Ink::Caution, &envelope),
            Some(
                Event::Started(_)
                | Event::Uploaded(_)
                | Event::CacheHit(_)
                | Event::StateChanged(_)
                | Event::TurnStarted(_)
                | Event::SessionBound(_)
                | Event::AssistantReasoning(_)
                | Event::ToolCall(_)
                | Event::CommandExecution(_)
                | Event::UsageReported(_)
                | Event::RawStderr(_)
                | Event::InputRequired(_)
                | Event::ReplyAccepted(_)
                | Event::AutoDecided(_)
                | Event::ArtifactIndexed(_)
                | Event::CancelRequested(_)
                | Event::Recovered(_),
            )
            | None => self.note(Ink::Dim, &envelope),
        }
    }

    pub(crate) fn say(&mut self, text: &str) {
        self.line(text);
    }

    /// Removes the progress line.
    pub(crate) fn clear(&mut self) {
        if self.bar.take().is_some() {
            self.write("\r\x1b[2K");
        }
    }

    fn note(&mut self, ink: Ink, envelope: &Envelope) {
        let text = format!("{} {}", envelope.type_name, summary(envelope));
        self.line(&self.look.paint(ink, text.trim_end()));
    }

    fn line(&mut self, text: &str) {
        let bar = self.bar.clone();
        self.clear();
        self.write(&format!("{text}\n"));
        if let Some(bar) = bar {
            self.draw(bar);
        }
    }

    fn draw(&mut self, bar: String) {
        self.write(&format!("\r\x1b[2K{bar}"));
        self.bar = Some(bar);
    }

    /// A failed write does not stop the run.
    fn write(&mut self, text: &str) {
        let _ = self.out.write_all(text.as_bytes()).and_then(|()| self.out.flush());
    }
}

fn bar(percent: f64, message: &str) -> String {
    let percent = percent.clamp(0.0, 100.0);
    let full = (percent / 100.0 * BAR_CELLS as f64).floor() as usize;
    let (full, empty) = ("█".repeat(full), "░".repeat(BAR_CELLS - full));
    format!("{full}{empty} {percent:>3.0}% {}", one_line(message, MESSAGE_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bar_is_as_full_as_the_percentage_says() {
        assert_eq!(bar(0.0, "a"), "░░░░░░░░░░░░░░░░░░░░   0% a");
        assert_eq!(bar(50.0, "half\nway"), "██████████░░░░░░░░░░  50% half way");
        assert_eq!(bar(1e9, ""), "████████████████████ 100% ");
        assert_eq!(bar(f64::NAN, "x").chars().filter(|cell| *cell == '░').count(), BAR_CELLS);
    }
}
