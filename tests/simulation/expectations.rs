//! What clients expect of every answer: the service is held to what they were told before.

use std::time::Duration;

use serde_json::{Value, json};
use skill_runner::domain::causes::chain;
use skill_runner::domain::ids::RunId;
use skill_runner::domain::statechart::Status;
use skill_runner::orchestrator::{Created, Error, Replied};
use skill_runner::store;

use crate::book::Reply;
use crate::clients::{Client, answer};

impl Client {
    /// A refusal that is not of the kind that any client must expect.
    pub fn refused(&self, doing: &str, error: &Error) {
        self.world.note(format!("client: {doing}: {}", chain(error)));
        let expected = match error {
            Error::Refused(_) | Error::Rejected { .. } | Error::QueueFull { .. } | Error::ShuttingDown => true,
            Error::Store(store::Error::Unreachable { .. }) | Error::Blobs(_) if self.world.node() > 0 => {
                self.world.is_troubled()
            }
            Error::Store(store::Error::Full { .. }) => self.world.is_troubled(),
            // A run whose failure cannot be logged cannot be canceled either.
            Error::Io { doing, .. } if doing == "cancel the run" => self.world.is_troubled(),
            // The actor of a run does not look at what others write: until it writes itself, its log takes nothing.
            // Nor does a cancel wait for long until a run is recovered that its service has taken over.
            Error::RunBusy { .. } if self.world.node() > 0 && self.world.is_troubled() => true,
            Error::RunBusy { run } => {
                let book = self.world.book.lock().unwrap();
                book.written_by_others.iter().any(|other| other.to_string() == *run)
            }
            Error::IdempotencyConflict | Error::NotRecovered { .. } => true,
            // Whoever is asked first may know it before all packages are there.
            Error::SkillNotFound { id, .. } if id == "demo" => self.world.book.lock().unwrap().installed.is_none(),
            Error::RunNotFound { .. } | Error::FilesGone { .. } => !self.world.book.lock().unwrap().deleted.is_empty(),
            Error::Store(_)
            | Error::SkillNotFound { .. }
            | Error::PackageInvalid { .. }
            | Error::InstallsBusy { .. }
            | Error::TooManyAwaitUpload { .. }
            | Error::InsufficientStorage { .. }
            | Error::SeqOutOfRange { .. }
            | Error::NotReady
            | Error::FieldNotFound { .. }
            | Error::Contract(_)
            | Error::SandboxMissing { .. }
            | Error::Corrupt { .. }
            | Error::Damaged { .. }
            | Error::FilesBusy
            | Error::RequestsBusy
            | Error::FilesTooLarge { .. }
            | Error::Blobs(_)
            | Error::Io { .. } => false,
        };
        if !expected {
            self.world.violated(format!("{doing} was answered with: {}", chain(error)));
        }
    }

    /// The answer to a creation; `known` is what was first sent and told under its key.
    pub fn holds_creation(
        &self,
        words: &str,
        body: Value,
        key: Option<String>,
        known: Option<(Value, Created)>,
        answer: Result<Created, Error>,
    ) {
        match (&answer, &known) {
            (Ok(created), Some((_, first))) => {
                let gone = self.world.book.lock().unwrap().deleted.contains(&first.run_id);
                // As clients see them.
                let same = json!(created) == json!(first);
                if !same && !gone {
                    self.world.violated(format!("{words}: {created:?} where the first answer was {first:?}"));
                }
            }
            (Ok(created), None) => {
                self.world.note(format!("client: {words}: {}", self.world.name(created.run_id)));
                let mut book = self.world.book.lock().unwrap();
                if !book.created.contains(created) {
                    book.created.push(created.clone());
                }
                // What was sent first under this key may have been another body, whose answer was lost.
                if let Some(entry) = key.as_ref().and_then(|key| book.keys.get_mut(key)) {
                    *entry = (body, Some(created.clone()));
                }
            }
            (Err(Error::IdempotencyConflict), Some((first_body, first))) => {
                let gone = self.world.book.lock().unwrap().deleted.contains(&first.run_id);
                if *first_body == body && !gone {
                    self.world.violated(format!("{words}: the same body is said to be another"));
                }
            }
            (Err(error), _) => self.refused(words, error),
        }
    }

    /// Two replies to one question were accepted at once.
    pub fn holds_two_receipts(&self, run: RunId, key: Option<&str>, once: &Replied, twice: &Replied) {
        let name = self.world.name(run);
        if key.is_none() {
            self.world.violated(format!("{name} took two replies to one question"));
        } else if once != twice {
            self.world.violated(format!("{name}: {once:?} and {twice:?} for one key"));
        }
    }

    /// An acknowledged reply was sent once more: with a key there is the same receipt, without one it is refused.
    pub fn holds_repeat(&self, first: &Reply, again: Option<Replied>) {
        let gone = self.world.book.lock().unwrap().deleted.contains(&first.run);
        let wanted = first.key.as_ref().map(|_| first.receipt.clone());
        if again != wanted && !gone && !(again.is_none() && self.world.is_troubled()) {
            self.world.violated(format!("{first:?} was answered the second time with {again:?}"));
        }
    }

    /// An installation ended, perhaps with an error.
    pub fn holds_installation(&self, words: &str, version: u64, error: Option<&str>) {
        match error {
            None => {
                let mut book = self.world.book.lock().unwrap();
                book.installed = book.installed.max(Some(version));
            }
            // It is not newer than what is there.
            Some("VERSION_NOT_NEWER") => {}
            // Its node lost the store, or its lease, and others have said so; what is on record is looked at in the end.
            Some("STORE_UNREACHABLE" | "ORCHESTRATOR_RESTART_INTERRUPTED") if self.world.node() > 0 => {}
            Some(other) => self.world.violated(format!("{words} ended with {other}")),
        }
    }

    /// See a run to a place where it may stay: final, or waiting for somebody. Answers, uploads or cancels now and then.
    pub async fn see_through(&self, run: RunId) {
        let name = self.world.name(run);
        for _ in 0..40 {
            let patience = match self.service.state(run).await {
                Ok(state) if state.awaiting_upload => Duration::ZERO,
                // Longer than every clock of all runs together.
                Ok(_) | Err(_) => Duration::from_secs(3600),
            };
            let state = match self.service.wait(run, patience).await {
                Ok(state) => state,
                Err(error) => return self.world.violated(format!("{name}: {}", chain(&error))),
            };
            match state.status() {
                Status::Succeeded | Status::Failed | Status::Canceled => return,
                Status::Queued if state.awaiting_upload => match self.world.dice.below(4) {
                    0 => return,
                    1 => self.cancel(run).await,
                    _ => self.upload(run, true).await,
                },
                Status::WaitingUser => {
                    let Some(pending) = state.pending() else {
                        return self.world.violated(format!("{name} waits without a question"));
                    };
                    if state.options.interactive_auto_reply {
                        tokio::time::sleep(Duration::from_secs(state.options.interactive_reply_timeout_sec + 60)).await;
                        if self.service.state(run).await.is_ok_and(|later| later.head_seq == state.head_seq) {
                            return self.world.violated(format!("nobody decided for the user of {name}"));
                        }
                        continue;
                    }
                    if self.world.dice.once_in(3) {
                        return;
                    }
                    let number = self.world.book.lock().unwrap().number();
                    let response = answer(&pending.interaction, number);
                    let key = Some(format!("reply-{number}"));
                    if self.reply(run, pending.interaction.interaction_id, response, key).await.is_none() {
                        return self.world.violated(format!("{name}: a good answer was refused"));
                    }
                }
                Status::Queued | Status::Running => {
                    return self.world.violated(format!("{name} is {} for ever", state.status().as_str()));
                }
            }
        }
        self.world.violated(format!("{name} goes on for ever"));
    }
}
