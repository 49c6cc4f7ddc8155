//! The run in a service, over HTTP.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value};
use tokio::sync::mpsc;

use crate::cli::connect::calls::Reply;
use crate::cli::connect::client::Client;
use crate::cli::connect::event_stream;
use crate::cli::failure::Failure;
use crate::cli::run::event_channel::{EVENTS_WAITING, Events};
use crate::cli::run::outcome::{ArtifactsAt, Outcome};
use crate::cli::run::request::Wanted;
use crate::domain::ids::RunId;
use crate::domain::interaction::InteractionId;
use crate::domain::statechart::Status;
use crate::orchestrator::Created;
use crate::workspace::{Layout, SentPart};

pub(crate) struct Remote {
    client: Client,
    skill_id: String,
    /// The service's data folder, where it is on this machine.
    data_dir: Option<PathBuf>,
}

impl Remote {
    pub(crate) fn new(client: Client, skill_id: String, data_dir: Option<PathBuf>) -> Self {
        Self { client, skill_id, data_dir }
    }

    pub(crate) async fn create(&self, wanted: &Wanted) -> Result<Created, Failure> {
        let body = wanted.body(&self.skill_id);
        self.call(move |client| client.create(&body)).await
    }

    pub(crate) async fn rerun(&self, run: RunId, patch: Map<String, Value>) -> Result<Created, Failure> {
        self.call(move |client| client.rerun(run, patch)).await
    }

    pub(crate) async fn upload(&self, run: RunId, files: Vec<SentPart>) -> Result<(), Failure> {
        self.call(move |client| client.upload_files(run, &files)).await
    }

    pub(crate) fn follow(&self, run: RunId) -> Events {
        let (events, shown) = mpsc::channel(EVENTS_WAITING);
        let client = self.client.clone();
        tokio::task::spawn_blocking(move || {
            let sent = event_stream::follow(&client, run, |event| Ok(events.blocking_send(Ok(event)).is_ok()));
            if let Err(failure) = sent {
                // The receiver is gone: nothing is shown any more.
                let _ = events.blocking_send(Err(failure));
            }
        });
        shown
    }

    pub(crate) async fn cancel(&self, run: RunId) -> Result<(), Failure> {
        self.call(move |client| client.cancel(run)).await.map(drop)
    }

    pub(crate) async fn delete(&self, run: RunId) -> Result<(), Failure> {
        self.call(move |client| client.remove(run)).await.map(drop)
    }

    pub(crate) async fn reply(&self, run: RunId, question: InteractionId, response: Value) -> Result<(), Failure> {
        let reply = Reply { question, response, key: None };
        self.call(move |client| client.reply(run, reply)).await.map(drop)
    }

    pub(crate) async fn outcome(&self, run: RunId) -> Result<Outcome, Failure> {
        let (client, data_dir) = (self.client.clone(), self.data_dir.clone());
        let asked = move || outcome(&client, run, data_dir.as_deref());
        tokio::task::spawn_blocking(asked).await.map_err(Failure::broken("ask the service"))?
    }

    async fn call<T: Send + 'static>(
        &self,
        call: impl FnOnce(&Client) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        let client = self.client.clone();
        tokio::task::spawn_blocking(move || call(&client)).await.map_err(Failure::broken("ask the service"))?
    }
}

/// How a run of a service ended. Blocks.
pub(crate) fn outcome(client: &Client, run: RunId, data_dir: Option<&Path>) -> Result<Outcome, Failure> {
    let job = client.job(run)?.document;
    let result = client.result(run)?.result;
    // An older service explains successes alone; the error is in the result in any case.
    let failed = result["status"] != Status::Succeeded.as_str();
    let failure = failed.then(|| client.explain(run).ok()).flatten().map(|told| told.document);
    let artifacts = match data_dir {
        Some(data_dir) => ArtifactsAt::Folder(Layout::new(data_dir).run(run).root),
        None => ArtifactsAt::Service(client.base().to_owned()),
    };
    Ok(Outcome::new(job, result, artifacts).explained(failure))
}
