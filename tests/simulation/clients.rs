//! What clients do: they create, upload, answer, cancel, install and clean up at any time, and remember what they were told.
//!
//! What they expect of each answer is in `expectations.rs`; those who read logs are in `readers.rs`.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use skill_runner::domain::ids::RunId;
use skill_runner::domain::interaction::{Interaction, InteractionId, InteractionKind};
use skill_runner::orchestrator::{Delivery, ListFilter, Orchestrator, Replied};

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
    Follow,
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
                (if self.world.node() > 0 { 3 } else { 0 }, Act::Follow),
                (if self.world.node() > 0 && self.world.skills.is_some() { 8 } else { 2 }, Act::Install),
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
                Act::Read => self.read_any(self.run()).await,
                Act::Follow => self.follow_any(self.run()).await,
                Act::Install => self.install().await,
                Act::CleanUp => self.clean_up().await,
            }
        }
    }

    fn run(&self) -> Option<RunId> {
        let book = self.world.book.lock().unwrap();
        if book.created.is_empty() { None } else { Some(self.world.dice.pick(&book.created).run_id) }
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
            (if self.world.node() > 0 && self.world.skills.is_some() { 4 } else { 0 }, json!({"skill_id": "demo"})),
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
            if let (Some(once), Some(twice)) = futures_util::future::join(once, twice).await {
                self.world.book.lock().unwrap().equal.push((once, twice));
            }
            return;
        }
        let key = dice.once_in(2).then(|| format!("key-{}", self.world.book.lock().unwrap().number()));
        self.create_with(body, key).await;
    }

    /// A run that shares its result with equal ones.
    pub fn twin_body() -> Value {
        let options = json!({"hard_timeout_seconds": 60, "stall_timeout_seconds": 30, "no_cache": false});
        json!({"skill_id": "tiny", "runtime_options": options})
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

    /// The run, if it was taken.
    pub async fn create_with(&self, body: Value, key: Option<String>) -> Option<RunId> {
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
        let run = answer.as_ref().ok().map(|created| created.run_id);
        self.holds_creation(&words, body, key, known, answer);
        run
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
        if let (Some(once), Some(twice)) = futures_util::future::join(once, twice).await {
            self.holds_two_receipts(run, key.as_deref(), &once, &twice);
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
        self.holds_repeat(&first, again);
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

    /// Installs a version of a package, where this world has its own skills.
    async fn install(&self) {
        if self.world.skills.is_none() {
            return;
        }
        let version = 1 + self.world.dice.below(VERSIONS);
        let words = format!("install version {version}");
        self.world.note(format!("client: {words}"));
        let _installs = Installs::on(&self.world);
        let mut told = match self.service.install(self.set.folder.join(format!("demo-{version}.zip"))).await {
            Ok(told) => told,
            Err(error) => return self.refused(&words, &error),
        };
        let id = told.borrow().request_id;
        self.world.book.lock().unwrap().installs.insert(id, false);
        // The record is whole at any time; its last word is said once.
        while told.borrow_and_update().finished_at.is_none() {
            if told.changed().await.is_err() {
                return;
            }
        }
        let outcome = told.borrow().error.as_ref().map(|error| error.code.clone());
        self.world.note(format!("client: {words}: {outcome:?}"));
        self.world.book.lock().unwrap().installs.insert(id, outcome.is_none());
        self.holds_installation(&words, version, outcome.as_deref());
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
}

/// A client installs a package on the node that has its turn.
struct Installs(Arc<World>, usize);

impl Installs {
    fn on(world: &Arc<World>) -> Self {
        let node = world.node();
        *world.book.lock().unwrap().installing.entry(node).or_default() += 1;
        Self(world.clone(), node)
    }
}

impl Drop for Installs {
    fn drop(&mut self) {
        // The lock may be poisoned where a world breaks.
        if let Ok(mut book) = self.0.book.lock()
            && let Some(count) = book.installing.get_mut(&self.1)
        {
            *count -= 1;
        }
    }
}

/// An answer that fits, and by its number is like no other where the question allows it.
pub fn answer(question: &Interaction, number: u64) -> Value {
    match question.kind {
        InteractionKind::ChooseOne => question.options[0].value.clone(),
        InteractionKind::Confirm | InteractionKind::RiskAck => json!(true),
        InteractionKind::FillFields => json!({"name": format!("answer {number}")}),
        InteractionKind::OpenText => json!(format!("answer {number}")),
    }
}
