//! A run's events on the screen, and its questions answered on standard input.

use std::io::BufRead;

use tokio::sync::mpsc;

use crate::cli::failure::Failure;
use crate::cli::run::backend::Backend;
use crate::cli::terminal::dialogue::{Dialogue, Heard};
use crate::cli::terminal::screen::Screen;
use crate::domain::codes::ErrorCode;
use crate::domain::event::Event;
use crate::domain::ids::RunId;
use crate::domain::statechart::Status;
use crate::fcmp::read_envelope;

/// Shows the run to its end; how it ended. Every question is asked on the screen; each line of standard input answers.
pub(crate) async fn follow(backend: &Backend, run: RunId, screen: &mut Screen) -> Result<Option<Status>, Failure> {
    let mut events = backend.follow(run);
    let mut lines: Option<mpsc::Receiver<String>> = None;
    let mut open: Option<Dialogue> = None;
    let mut ended = None;
    loop {
        let line = async {
            match &mut lines {
                Some(lines) => lines.recv().await,
                None => None,
            }
        };
        tokio::select! {
            event = events.recv() => {
                let Some(event) = event else { return Ok(ended) };
                let event = event?;
                screen.show(&event);
                match read_envelope(&event).ok().and_then(|envelope| envelope.event) {
                    Some(Event::InputRequired(question)) => {
                        let dialogue = Dialogue::new(*question);
                        screen.ask(&dialogue);
                        open = Some(dialogue);
                        // Standard input is read only if a run asks.
                        lines.get_or_insert_with(standard_input);
                    }
                    // Another client answered, or the question was withdrawn.
                    Some(Event::StateChanged(change)) if change.to != Status::WaitingUser => open = None,
                    Some(Event::Completed(completed)) => ended = Some(completed.status),
                    Some(Event::Failed(failed)) => ended = Some(failed.status),
                    Some(_) | None => {}
                }
            }
            line = line, if open.is_some() => {
                let Some(dialogue) = open.take() else { continue };
                let Some(line) = line else { return Err(unanswered(run, &dialogue)) };
                open = answered(backend, run, screen, dialogue, &line).await?;
            }
        }
    }
}

/// Takes a line; the dialogue where it goes on.
async fn answered(
    backend: &Backend,
    run: RunId,
    screen: &mut Screen,
    mut dialogue: Dialogue,
    line: &str,
) -> Result<Option<Dialogue>, Failure> {
    let response = match dialogue.hear(line) {
        Heard::More(text) => {
            screen.say(&text);
            return Ok(Some(dialogue));
        }
        Heard::Answer(response) => response,
    };
    match backend.reply(run, dialogue.question().interaction_id, response).await {
        Ok(()) => Ok(None),
        // Another client answered first; the events show it.
        Err(Failure::Refused { code, message, .. })
            if code == ErrorCode::InteractionStale || code == ErrorCode::InteractionNotPending =>
        {
            screen.say(&format!("the answer was too late: {message}"));
            Ok(None)
        }
        Err(Failure::Refused { message, .. }) => {
            screen.say(&message);
            screen.say(&dialogue.shown());
            Ok(Some(Dialogue::new(dialogue.question().clone())))
        }
        Err(failure) => Err(failure),
    }
}

fn unanswered(run: RunId, dialogue: &Dialogue) -> Failure {
    Failure::Broken(format!(
        "standard input has ended, and the run waits for an answer to question {}\n  \
         start a service on this data directory with `skill-runner serve`, then answer with `skill-runner reply {run}`",
        dialogue.question().interaction_id
    ))
}

/// The lines of standard input, read on a thread of their own: a read that blocks must not hold up the run.
fn standard_input() -> mpsc::Receiver<String> {
    let (send, lines) = mpsc::channel(1);
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            if send.blocking_send(line).is_err() {
                return;
            }
        }
    });
    lines
}
