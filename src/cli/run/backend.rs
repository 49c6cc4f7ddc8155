//! Where a run is carried out: in a running service, or in this process on the embedded store.

use std::path::Path;

use serde_json::{Map, Value};

use crate::cli::connect::client::Client;
use crate::cli::connect::data_folder::{LOOK_AGAIN, Waiting};
use crate::cli::connect::service_address;
use crate::cli::failure::Failure;
use crate::cli::logging;
use crate::cli::run::embedded::Embedded;
use crate::cli::run::event_channel::Events;
use crate::cli::run::outcome::Outcome;
use crate::cli::run::remote::Remote;
use crate::cli::run::request::{SkillPlace, Wanted};
use crate::domain::ids::RunId;
use crate::domain::interaction::InteractionId;
use crate::orchestrator::Created;
use crate::settings::{LogLevel, Settings};
use crate::workspace::SentPart;

pub(crate) enum Backend {
    Embedded(Embedded),
    Remote(Remote),
}

impl Backend {
    /// The named service, else the running one of the data folder, else this process.
    pub(crate) async fn open(settings: Settings, server: Option<&str>, skill: &SkillPlace) -> Result<Self, Failure> {
        let mut waiting = Waiting::default();
        let (client, same_machine) = loop {
            if let Some(url) = server {
                break (Client::new(url, settings.http.token.as_ref())?, false);
            }
            let looked = settings.clone();
            let found = tokio::task::spawn_blocking(move || service_address::running_service(&looked)).await;
            if let Some(client) = found.ok().flatten() {
                break (client, true);
            }
            match Embedded::open(settings.clone(), skill).await {
                // A run in another process ends, or a service begins.
                Err(Failure::Busy(busy)) => waiting.tell(&busy),
                opened => return opened.map(Self::Embedded),
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        };
        logging::to_terminal(LogLevel::Warn);
        let skill_id = match skill {
            SkillPlace::Installed(id) => id.clone(),
            SkillPlace::Folder(folder) => installed_id(&settings, folder, client.base())?,
        };
        let files = same_machine.then(|| settings.paths.data_dir.clone());
        Ok(Self::Remote(Remote::new(client, skill_id, files)))
    }

    pub(crate) async fn create(&self, wanted: &Wanted) -> Result<Created, Failure> {
        match self {
            Self::Embedded(embedded) => embedded.create(wanted).await,
            Self::Remote(remote) => remote.create(wanted).await,
        }
    }

    /// A run that asks for the same as an earlier one.
    pub(crate) async fn rerun(&self, run: RunId, patch: Map<String, Value>) -> Result<Created, Failure> {
        match self {
            Self::Embedded(embedded) => embedded.rerun(run, patch).await,
            Self::Remote(remote) => remote.rerun(run, patch).await,
        }
    }

    pub(crate) async fn upload(&self, run: RunId, files: Vec<SentPart>) -> Result<(), Failure> {
        match self {
            Self::Embedded(embedded) => embedded.upload(run, files).await,
            Self::Remote(remote) => remote.upload(run, files).await,
        }
    }

    pub(crate) fn follow(&self, run: RunId) -> Events {
        match self {
            Self::Embedded(embedded) => embedded.follow(run),
            Self::Remote(remote) => remote.follow(run),
        }
    }

    pub(crate) async fn cancel(&self, run: RunId, reason: &str) -> Result<(), Failure> {
        match self {
            Self::Embedded(embedded) => embedded.cancel(run, reason).await,
            Self::Remote(remote) => remote.cancel(run).await,
        }
    }

    /// Deletes a run that has ended.
    pub(crate) async fn delete(&self, run: RunId) -> Result<(), Failure> {
        match self {
            Self::Embedded(embedded) => embedded.delete(run).await,
            Self::Remote(remote) => remote.delete(run).await,
        }
    }

    pub(crate) async fn reply(&self, run: RunId, question: InteractionId, response: Value) -> Result<(), Failure> {
        match self {
            Self::Embedded(embedded) => embedded.reply(run, question, response).await,
            Self::Remote(remote) => remote.reply(run, question, response).await,
        }
    }

    pub(crate) async fn outcome(&self, run: RunId) -> Result<Outcome, Failure> {
        match self {
            Self::Embedded(embedded) => embedded.outcome(run).await,
            Self::Remote(remote) => remote.outcome(run).await,
        }
    }

    /// Ends what this process started.
    pub(crate) async fn close(&self) {
        match self {
            Self::Embedded(embedded) => embedded.close().await,
            Self::Remote(_) => {}
        }
    }
}

/// The id of a skill given by its folder: a service only knows the skills of its own skills folder.
fn installed_id(settings: &Settings, folder: &Path, server: &str) -> Result<String, Failure> {
    let real = |path: &Path| path.canonicalize().ok();
    let found = real(folder);
    let parent = found.as_deref().and_then(Path::parent);
    let name = found.as_deref().and_then(Path::file_name).and_then(|name| name.to_str());
    match name {
        Some(name) if parent.is_some() && parent == real(&settings.paths.skills_dir).as_deref() => Ok(name.to_owned()),
        Some(_) | None => Err(Failure::Usage(format!(
            "the service at {server} runs installed skills only, and {} is not in its skills folder\n  \
             install it with `skill-runner skill install`, or run it in this process with another --data-dir",
            folder.display()
        ))),
    }
}
