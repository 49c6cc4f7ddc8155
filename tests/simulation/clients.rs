//! Clients: they create, upload, answer, cancel and look at any time, remember what they were told, and hold the service to it.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use skill_runner::domain::causes::chain;
use skill_runner::domain::ids::{RunId, Seq};
use skill_runner::domain::interaction::{Interaction, InteractionId, InteractionKind};
use skill_runner::domain::statechart::Status;
use skill_runner::orchestrator::{Delivery, Error, ListFilter, Orchestrator, Replied};
use skill_runner::store;

use crate::book::Reply;
use crate::stage_set::{StageSet, VERSIONS};
use crate::world::World;

/// One client.
#[derive(Clone)]
pub struct Client {
    pub world: Arc<World>,
    pub service: Orchestrator,
    pub set: Arc<StageSet>,
}

#[derive(Debug, Clone, Copy)]
enum Act {
    Create,
    CreateAgain,
    Upload,
    Reply,
    ReplyAgain,
    Cancel,
    Wait,
    Look,
    Read,
    Install,
    CleanUp,
}

/// How a question is answered.
#[derive(Debug, Clone, Copy)]
enum Manner {
    Rightly,
    /// A question that was never asked.
    Elsewhere,
    /// The question before.
    Late,
    /// With what is no answer.
    Wrongly,
    Twice,
}

impl Client {
    /// Does so many things, with pauses.
    pub async fn act(self, times: u64) {
        for _ in 0..times {
            tokio::time::sleep(self.world.dice.pause()).await;
            let act = self.world.dice.weighted(&[
                (6, Act::Create),
                (2, Act::CreateAgain),
                (3, Act::Upload),
                (10, Act::Reply),
                (2, Act::ReplyAgain),
                (2, Act::Cancel),
                (6, Act::Wait),
                (1, Act::Look),
                (2, Act::Read),
                (2, Act::Install),
                (1, Act::CleanUp),
            ]);
            // Without a run there is nothing else to do.
            let act = if self.run().is_none() { Act::Create } else { act };
            match act {
                Act::Create => self.create().await,
                Act::CreateAgain => self.create_again().await,
                Act::Upload => self.upload_any().await,
                Act::Reply => self.reply_any().await,
                Act::ReplyAgain => self.reply_again().await,
                Act::Cancel => self.cancel_any().await,
                Act::Wait => self.wait_any().await,
                Act::Look => self.look().await,
                Act::Read => self.read_any().await,
                Act::Install => self.install().await,
                Act::CleanUp => self.clean_up().await,
            }
        }
    }

    fn run(&self) -> Option<RunId> {
        let book = self.world.book.lock().unwrap();
        if book.created.is_empty() { None } else { Some(self.world.dice.pick(&book.created).run_id) }
    }

    /// A refusal that is not of the kind that any client must expect.
    fn refused(&self, doing: &str, error: &Error) {
        self.world.note(format!("client: {doing}: {}", chain(error)));
        let expected = match error {
            Error::Refused(_) | Error::Rejected { .. } | Error::QueueFull { .. } | Error::ShuttingDown => true,
            Error::Store(store::Error::Full { .. }) => self.world.chaos(),
            // A run whose failure cannot be logged cannot be canceled either.
            Error::Io { doing, .. } if doing == "cancel the run" => self.world.chaos(),
            Error::IdempotencyConflict => true,
            Error::RunNotFound { .. } | Error::FilesGone { .. } => !self.world.book.lock().unwrap().deleted.is_empty(),
            Error::Store(_)
            | Error::SkillNotFound { .. }
            | Error::PackageInvalid { .. }
            | Error::InstallsBusy { .. }
            | Error::InsufficientStorage { .. }
            | Error::SeqOutOfRange { .. }
            | Error::NotReady
            | Error::FieldNotFound { .. }
            | Error::Contract(_)
            | Error::SandboxMissing { .. }
            | Error::Corrupt { .. }
            | Error::Damaged { .. }
            | Error::Io { .. } => false,
        };
        if !expected {
            self.world.violated(format!("{doing} was answered with: {}", chain(error)));
        }
    }

    async fn create(&self) {
        if self.world.book.lock().unwrap().created.len() >= 4 {
            return;
        }
        let dice = &self.world.dice;
        let mut body = dice.weighted(&[
            (3, json!({"skill_id": "tiny"})),
            (5, json!({"skill_id": "ask", "engine": "codex"})),
            (2, json!({"skill_id": "filed"})),
            (2, json!({"skill_id": "made"})),
            (2, json!({"skill_id": "both", "engine": "codex"})),
            (2, json!({})),
        ]);
        let mut options = json!({
            "hard_timeout_seconds": dice.pick(&[20, 60]),
            "stall_timeout_seconds": dice.pick(&[0, 5, 30]),
            "no_cache": dice.once_in(2),
        });
        if body["skill_id"] == "ask" {
            options["execution_mode"] = json!("interactive");
            options["interactive_auto_reply"] = json!(dice.once_in(3));
            options["interactive_reply_timeout_sec"] = json!(dice.pick(&[2, 40]));
        }
        if dice.once_in(2) {
            options["retry"] = json!({"times": dice.pick(&[1, 3]), "backoff_seconds": dice.pick(&[0, 1, 30])});
        }
        body["runtime_options"] = options;
        if body["skill_id"] == "tiny" && dice.once_in(2) {
            // Two that are equal: one runs, the other follows it or takes its result.
            body["runtime_options"]["no_cache"] = json!(false);
            let (once, twice) = (self.create_with(body.clone(), None), self.create_with(body.clone(), None));
            futures_util::future::join(once, twice).await;
            return;
        }
        let key = dice.once_in(2).then(|| format!("key-{}", self.world.book.lock().unwrap().number()));
        self.create_with(body, key).await;
    }

    /// The same key, mostly with the same body.
    async fn create_again(&self) {
        let known: Vec<(String, Value)> = {
            let book = self.world.book.lock().unwrap();
            book.keys.iter().map(|(key, (body, _))| (key.clone(), body.clone())).collect()
        };
        if known.is_empty() {
            return;
        }
        let (key, mut body) = self.world.dice.pick(&known);
        if self.world.dice.once_in(4) {
            body["runtime_options"]["debug"] = json!(true);
        }
        self.create_with(body, Some(key)).await;
    }

    async fn create_with(&self, body: Value, key: Option<String>) {
        let words = format!("create {} key={key:?}", body["skill_id"]);
        self.world.note(format!("client: {words}"));
        let known = key.as_ref().and_then(|key| {
            let mut book = self.world.book.lock().unwrap();
            let entry = book.keys.entry(key.clone()).or_insert_with(|| (body.clone(), None));
            let known = entry.1.clone().map(|first| (entry.0.clone(), first));
            // A key lives as long as its run.
            known.filter(|(_, first)| !book.deleted.contains(&first.run_id))
        });
        let request = serde_json::from_value(body.clone()).unwrap();
        let own_skill = body.get("skill_id").is_none();
        let answer = match own_skill {
            true => self.service.create_temp(request, key.as_deref()).await,
            false => self.service.create(request, key.as_deref()).await,
        };
        if let (true, Ok(created)) = (own_skill, &answer) {
            self.world.book.lock().unwrap().own_skill.insert(created.run_id);
        }
        match (&answer, &known) {
            (Ok(created), Some((_, first))) => {
                let gone = self.world.book.lock().unwrap().deleted.contains(&first.run_id);
                if created != first && !gone {
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
            (Err(error), _) => self.refused(&words, error),
        }
    }

    async fn upload_any(&self) {
        if let Some(run) = self.run() {
            let good = self.world.dice.weighted(&[(4, true), (1, false)]);
            self.upload(run, good).await;
        }
    }

    pub async fn upload(&self, run: RunId, good: bool) {
        let own_skill = self.world.book.lock().unwrap().own_skill.contains(&run);
        let zip = match (good, own_skill) {
            (true, true) => "own.zip",
            (true, false) => "good.zip",
            (false, _) => "bad.zip",
        };
        let path = Some(self.set.folder.join(zip));
        let delivery = match own_skill {
            true => Delivery { package: path, ..Delivery::default() },
            false => path.map(Delivery::zip).unwrap_or_default(),
        };
        let words = format!("upload {zip} to {}", self.world.name(run));
        self.world.note(format!("client: {words}"));
        match self.service.upload(run, delivery).await {
            Ok(uploaded) => {
                self.world.note(format!("client: {words}: {:?}", uploaded.status));
                self.world.book.lock().unwrap().uploaded.push(run);
            }
            Err(error) => self.refused(&words, &error),
        }
    }

    async fn reply_any(&self) {
        let Some(run) = self.run() else { return };
        let pending = match self.service.pending(run).await {
            Ok(question) => question.pending,
            Err(error) => return self.refused("look at the question", &error),
        };
        let dice = &self.world.dice;
        let number = self.world.book.lock().unwrap().number();
        let open = pending.as_ref().map_or(InteractionId(1), |question| question.interaction_id);
        let fitting = pending.as_ref().map_or(json!(format!("answer {number}")), |question| answer(question, number));
        let key = dice.once_in(2).then(|| format!("reply-{number}"));
        let manner = dice.weighted(&[
            (8, Manner::Rightly),
            (1, Manner::Elsewhere),
            (1, Manner::Late),
            (1, Manner::Wrongly),
            (3, Manner::Twice),
        ]);
        let (interaction, response) = match manner {
            Manner::Rightly => (open, fitting),
            Manner::Elsewhere => (InteractionId(open.0 + 7), fitting),
            Manner::Late => (InteractionId(open.0.saturating_sub(1)), fitting),
            Manner::Wrongly => (open, Value::Null),
            Manner::Twice => return self.reply_twice(run, open, fitting, key).await,
        };
        self.reply(run, interaction, response, key).await;
    }

    /// Impatience: the same twice at once.
    async fn reply_twice(&self, run: RunId, open: InteractionId, response: Value, key: Option<String>) {
        let once = self.reply(run, open, response.clone(), key.clone());
        let twice = self.reply(run, open, response, key.clone());
        let (Some(once), Some(twice)) = futures_util::future::join(once, twice).await else { return };
        let name = self.world.name(run);
        if key.is_none() {
            self.world.violated(format!("{name} took two replies to one question"));
        } else if once != twice {
            self.world.violated(format!("{name}: {once:?} and {twice:?} for one key"));
        }
    }

    /// An acknowledged reply once more: its key gets the same receipt at any time, without one it is refused.
    async fn reply_again(&self) {
        let known = self.world.book.lock().unwrap().replies.clone();
        if known.is_empty() {
            return;
        }
        let first = self.world.dice.pick(&known);
        let again = self.reply(first.run, first.interaction, first.response.clone(), first.key.clone()).await;
        let gone = self.world.book.lock().unwrap().deleted.contains(&first.run);
        let wanted = first.key.as_ref().map(|_| first.receipt.clone());
        if again != wanted && !gone && !(again.is_none() && self.world.chaos()) {
            self.world.violated(format!("{first:?} was answered the second time with {again:?}"));
        }
    }

    pub async fn reply(
        &self,
        run: RunId,
        interaction: InteractionId,
        response: Value,
        key: Option<String>,
    ) -> Option<Replied> {
        let words = format!("reply {response} to {interaction} of {} key={key:?}", self.world.name(run));
        self.world.note(format!("client: {words}"));
        match self.service.reply(run, interaction, response.clone(), key.clone(), None).await {
            Ok(receipt) => {
                self.world.note(format!("client: {words}: accepted"));
                let reply = Reply { run, interaction, response, key, receipt: receipt.clone() };
                let mut book = self.world.book.lock().unwrap();
                if !book.replies.contains(&reply) {
                    book.replies.push(reply);
                }
                Some(receipt)
            }
            Err(error) => {
                self.refused(&words, &error);
                None
            }
        }
    }

    async fn cancel_any(&self) {
        if let Some(run) = self.run() {
            self.cancel(run).await;
        }
    }

    pub async fn cancel(&self, run: RunId) {
        let words = format!("cancel {}", self.world.name(run));
        self.world.note(format!("client: {words}"));
        match self.service.cancel(run, "client", "enough").await {
            Ok(canceled) => {
                self.world.note(format!("client: {words}: {}", canceled.message));
                if canceled.accepted {
                    self.world.book.lock().unwrap().canceled.push(run);
                }
            }
            Err(error) => self.refused(&words, &error),
        }
    }

    async fn wait_any(&self) {
        let Some(run) = self.run() else { return };
        let patience = Duration::from_secs(self.world.dice.pick(&[0, 1, 30]));
        match self.service.wait(run, patience).await {
            Ok(state) => self.world.note(format!("client: {} is {}", self.world.name(run), state.status().as_str())),
            Err(error) => self.refused("wait", &error),
        }
    }

    async fn look(&self) {
        let all = ListFilter { limit: 100, ..ListFilter::default() };
        match self.service.list(&all).await {
            Ok(listing) => self.world.note(format!("client: {} runs are listed", listing.jobs.len())),
            Err(error) => self.refused("list", &error),
        }
    }

    /// Reads a log in small pages, slowly, whatever becomes of the run meanwhile.
    async fn read_any(&self) {
        let Some(run) = self.run() else { return };
        let name = self.world.name(run);
        let head = match self.service.state(run).await {
            Ok(state) => state.head_seq,
            Err(error) => return self.refused("look", &error),
        };
        let mut events = self.service.log().events(run, Seq::START).in_pages_of(400);
        let mut last = Seq::START;
        loop {
            match events.next_page().await {
                Ok(Some(page)) => {
                    for batch in page {
                        if batch.first.0 != last.0 + 1 {
                            self.world.violated(format!("a reader of {name} was given {} after {last}", batch.first));
                        }
                        last = batch.last();
                    }
                }
                Ok(None) => break,
                Err(error) => return self.refused("read", &error),
            }
            tokio::time::sleep(self.world.dice.pause()).await;
        }
        self.world.note(format!("client: {name} is read to {last}"));
        // A proper end means that the end was reached, also while the run is deleted.
        if last < head {
            self.world.violated(format!("a reader of {name} came to the end at {last}, and {head} was there"));
        }
    }

    /// Installs a version of a package, where this world has its own skills.
    async fn install(&self) {
        if self.world.skills.is_none() {
            return;
        }
        let version = 1 + self.world.dice.below(VERSIONS);
        let words = format!("install version {version}");
        self.world.note(format!("client: {words}"));
        let mut told = match self.service.install(self.set.folder.join(format!("demo-{version}.zip"))).await {
            Ok(told) => told,
            Err(error) => return self.refused(&words, &error),
        };
        // The record is whole at any time; its last word is said once.
        while told.borrow_and_update().finished_at.is_none() {
            if told.changed().await.is_err() {
                return;
            }
        }
        let outcome = told.borrow().error.as_ref().map(|error| error.code.clone());
        self.world.note(format!("client: {words}: {outcome:?}"));
        match outcome.as_deref() {
            None => {
                let mut book = self.world.book.lock().unwrap();
                book.installed = book.installed.max(Some(version));
            }
            // It is not newer than what is there.
            Some("VERSION_NOT_NEWER") => {}
            Some(other) => self.world.violated(format!("{words} ended with {other}")),
        }
    }

    async fn clean_up(&self) {
        let all = ListFilter { limit: 100, ..ListFilter::default() };
        let jobs = match self.service.list(&all).await {
            Ok(listing) => listing.jobs,
            Err(error) => return self.refused("list", &error),
        };
        let over = jobs.iter().filter(|job| job.status.is_final()).map(|job| job.run_id);
        self.world.note("client: clean up");
        self.world.book.lock().unwrap().deleted.extend(over);
        match self.service.cleanup(None, 1).await {
            Ok(cleaned) => self.world.note(format!("client: {} runs are deleted", cleaned.runs_deleted)),
            Err(error) => self.refused("clean up", &error),
        }
        // Whatever became final meanwhile may be gone as well.
        let left = self.service.list(&all).await.map(|listing| listing.jobs).unwrap_or_default();
        let mut book = self.world.book.lock().unwrap();
        let missing: Vec<RunId> = book.created.iter().map(|created| created.run_id).collect();
        book.deleted.extend(
            missing
                .into_iter()
                .filter(|run| jobs.iter().any(|job| job.run_id == *run) && !left.iter().any(|job| job.run_id == *run)),
        );
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

/// An answer that fits, and by its number is like no other where the question allows it.
fn answer(question: &Interaction, number: u64) -> Value {
    match question.kind {
        InteractionKind::ChooseOne => question.options[0].value.clone(),
        InteractionKind::Confirm | InteractionKind::RiskAck => json!(true),
        InteractionKind::FillFields => json!({"name": format!("answer {number}")}),
        InteractionKind::OpenText => json!(format!("answer {number}")),
    }
}
