//! The run in this process, on the embedded store.

use std::path::{Path, PathBuf};
use std::sync::Once;
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Map, Value};
use tokio::sync::mpsc;

use crate::bounded;
use crate::cli::connect::data_folder;
use crate::cli::failure::Failure;
use crate::cli::logging;
use crate::cli::run::event_channel::{EVENTS_WAITING, Events};
use crate::cli::run::outcome::{ArtifactsAt, Outcome};
use crate::cli::run::request::{SkillPlace, Wanted};
use crate::domain::codes::ErrorCode;
use crate::domain::event::Event;
use crate::domain::ids::{RunId, Seq};
use crate::domain::interaction::InteractionId;
use crate::domain::similar::most_like;
use crate::fcmp::read_envelope;
use crate::orchestrator::{CreateRequest, Created, Delivery, Orchestrator};
use crate::registry::{Registry, builtin};
use crate::settings::{Described, Log, LogLevel, Settings, Source};
use crate::store::EventBatch;
use crate::workspace::{Layout, Sent, SentPart};

/// Bytes of events read at once.
const READ_BYTES: usize = 256 * 1024;

pub(crate) struct Embedded {
    orchestrator: Orchestrator,
    skill_id: String,
}

impl Embedded {
    /// Opens the data folder and recovers its runs.
    pub(crate) async fn open(settings: Settings, skill: &SkillPlace) -> Result<Self, Failure> {
        let (registry, skill_id) = match skill {
            SkillPlace::Installed(id) => {
                (Registry::new(&settings.paths.skills_dir).with_agents(&settings.paths.agents_dir), id.clone())
            }
            SkillPlace::Folder(folder) => {
                let (skills_dir, name) = parent_and_name(folder)?;
                (Registry::new(skills_dir), name)
            }
        };
        // Looked up before anything is opened, so that a wrong name changes nothing.
        let missing = matches!(registry.lookup(&skill_id), Err(crate::registry::NotUsable::NotFound));
        let carried = missing && matches!(skill, SkillPlace::Installed(_)) && builtin::has(&skill_id);
        if missing && !carried {
            return Err(unknown_skill(&skill_id, &registry, &settings.paths.skills_dir, skill));
        }
        let closed = data_folder::close(&settings)?;
        // Whoever waits for another process opens again.
        static LOGGING: Once = Once::new();
        LOGGING.call_once(|| {
            log(&settings);
            closed.report();
        });
        let store = data_folder::open_store(&settings)?;
        let registry = if carried {
            let folder = Layout::new(&settings.paths.data_dir).builtin_skills();
            Registry::new(builtin::write(&folder).map_err(Failure::broken("write the demo skills"))?)
        } else {
            registry
        };
        let orchestrator = data_folder::take_over(store, registry, settings).await?;
        Ok(Self { orchestrator, skill_id })
    }

    pub(crate) async fn create(&self, wanted: &Wanted) -> Result<Created, Failure> {
        let request: CreateRequest =
            serde_json::from_value(wanted.body(&self.skill_id)).map_err(Failure::broken("make the request"))?;
        Ok(self.orchestrator.create(request, None).await?)
    }

    pub(crate) async fn rerun(&self, run: RunId, patch: Map<String, Value>) -> Result<Created, Failure> {
        let again = self.orchestrator.rerun_of(run, patch).await?;
        Ok(self.orchestrator.rerun(again, None).await?)
    }

    pub(crate) async fn upload(&self, run: RunId, files: Vec<SentPart>) -> Result<(), Failure> {
        self.orchestrator.upload(run, Delivery { files: Sent { zip: None, parts: files }, package: None }).await?;
        Ok(())
    }

    pub(crate) fn follow(&self, run: RunId) -> Events {
        let (events, shown) = mpsc::channel(EVENTS_WAITING);
        let orchestrator = self.orchestrator.clone();
        tokio::spawn(async move {
            if let Err(failure) = follow(&orchestrator, run, &events).await {
                // The receiver is gone: nothing is shown any more.
                let _ = events.send(Err(failure)).await;
            }
        });
        shown
    }

    pub(crate) async fn cancel(&self, run: RunId, reason: &str) -> Result<(), Failure> {
        self.orchestrator.cancel(run, "user", reason).await?;
        Ok(())
    }

    pub(crate) async fn delete(&self, run: RunId) -> Result<(), Failure> {
        self.orchestrator.remove(run).await?;
        Ok(())
    }

    pub(crate) async fn reply(&self, run: RunId, question: InteractionId, response: Value) -> Result<(), Failure> {
        self.orchestrator.reply(run, question, response, None, None).await?;
        Ok(())
    }

    pub(crate) async fn outcome(&self, run: RunId) -> Result<Outcome, Failure> {
        let (job, state) = self.orchestrator.job_and_state(run).await?;
        let job = serde_json::to_value(job).map_err(Failure::broken("read the job"))?;
        let paths = self.orchestrator.log().folder(run).await?;
        let result = self.orchestrator.log().result(&state).await?;
        let result = bounded::json::from_str(result.get()).map_err(Failure::broken("read the result"))?;
        let failure = self.orchestrator.log().explain_failure(run).await?;
        let failure = failure.map(serde_json::to_value).transpose().map_err(Failure::broken("explain the failure"))?;
        Ok(Outcome::new(job, result, ArtifactsAt::Folder(paths.root)).explained(failure))
    }

    /// Lets other runs of the data folder finish, and exports the log.
    pub(crate) async fn close(&self) {
        self.orchestrator.drain(Duration::from_secs(self.orchestrator.settings().http.drain_grace_seconds)).await;
    }
}

/// Sends the run's events until the terminal one.
async fn follow(
    orchestrator: &Orchestrator,
    run: RunId,
    events: &mpsc::Sender<Result<Bytes, Failure>>,
) -> Result<(), Failure> {
    // Watch before reading: an append between the two would be missed.
    let mut head = orchestrator.log().watch(run);
    let mut pages = orchestrator.log().events(run, Seq::START).in_pages_of(READ_BYTES);
    loop {
        let page = pages.next_page().await?.unwrap_or_default();
        for (_, bytes) in page.iter().flat_map(EventBatch::events) {
            let last = matches!(
                read_envelope(&bytes).map_err(Failure::broken("read an event"))?.event,
                Some(Event::Completed(_) | Event::Failed(_))
            );
            if events.send(Ok(bytes)).await.is_err() || last {
                return Ok(());
            }
        }
        // A closed watch means that the log was sealed: all of it can be read.
        if page.is_empty() && head.changed().await.is_err() {
            head = orchestrator.log().watch(run);
        }
    }
}

/// Beside the events only warnings are shown, unless a level was set; the log file has every line.
fn log(settings: &Settings) {
    let asked = |found: &&Described| found.key == "log_level" && found.source != Source::Default;
    let level = if settings.describe().iter().find(asked).is_some() { settings.log.level } else { LogLevel::Warn };
    // No requests are answered here.
    if let Err(error) = logging::to_file(&Log { access: None, ..settings.log.clone() }, level) {
        logging::to_terminal(level);
        tracing::warn!(file = %settings.log.file.display(), %error, "the log file cannot be written");
    }
}

/// The folder's parent as a skills folder, and the skill's name in it.
fn parent_and_name(folder: &Path) -> Result<(PathBuf, String), Failure> {
    let unusable = |reason: &str| Failure::Usage(format!("{} is not a skill's folder: {reason}", folder.display()));
    let real = folder.canonicalize().map_err(|error| unusable(&error.to_string()))?;
    if !real.is_dir() {
        return Err(unusable("it is a file"));
    }
    match (real.parent(), real.file_name().and_then(|name| name.to_str())) {
        (Some(parent), Some(name)) => Ok((parent.to_owned(), name.to_owned())),
        _ => Err(unusable("it has no name")),
    }
}

fn unknown_skill(id: &str, registry: &Registry, skills_dir: &Path, place: &SkillPlace) -> Failure {
    let own = builtin::ids().into_iter().map(str::to_owned);
    let meant = registry.similar(id).or_else(|| most_like(id, own));
    let meant = meant.map(|meant| format!("; did you mean {meant:?}?\n  ")).unwrap_or_else(|| "; ".to_owned());
    let message = match place {
        SkillPlace::Folder(_) => format!(
            "a skill's folder is named like the skill, and {id:?} cannot be a skill's name: \
             a-z, 0-9 and single - inside are allowed"
        ),
        SkillPlace::Installed(_) if Path::new(id).is_dir() => {
            format!("no skill {id:?} is installed in {}; to run the folder, write ./{id}", skills_dir.display())
        }
        SkillPlace::Installed(_) => format!(
            "no skill {id:?} is installed in {}{meant}see `skill-runner skill list`, or name another --skills-dir\n  \
             the program has demo skills of its own: {}",
            skills_dir.display(),
            builtin::ids().join(", ")
        ),
    };
    Failure::refused(ErrorCode::SkillNotFound, message)
}
