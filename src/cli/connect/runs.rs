//! Reads runs through the running service of the data folder, or else from the store.

use std::future::Future;
use std::io::BufRead;
use std::sync::Arc;

use serde_json::Value;
use tokio::runtime::Runtime;

use crate::audit::StoredRow;
use crate::cli::connect::client::Client;
use crate::cli::connect::data_folder::{LOOK_AGAIN, Waiting};
use crate::cli::connect::event_stream::next_line;
use crate::cli::connect::{data_folder, run_id, service_address};
use crate::cli::failure::Failure;
use crate::domain::ids::{RunId, Seq};
use crate::domain::statechart::Status;
use crate::fcmp::LogHead;
use crate::orchestrator::{Blocking, Error, ListFilter, RunLog};
use crate::settings::Settings;
use crate::store::{EventBatch, EventStore};
use crate::workspace::Layout;

/// Where runs are read from.
pub(crate) enum Runs {
    Service(Client),
    /// This process has the store.
    Store(OfflineLog),
}

/// Runs looked at in one step.
const PAGE: usize = 50;

/// Some runs, newest first.
pub(crate) struct RunPage {
    /// Those that are over.
    pub(crate) finished: Vec<RunId>,
    /// The oldest of all; none where there are no more.
    pub(crate) last: Option<RunId>,
}

impl RunPage {
    fn of(runs: Vec<(RunId, Status)>) -> Self {
        let last = runs.last().map(|(run, _)| *run);
        let finished = runs.into_iter().filter(|(_, status)| status.is_final()).map(|(run, _)| run).collect();
        Self { finished, last }
    }
}

/// The logs of a data folder that no service has.
pub(crate) struct OfflineLog {
    pub(crate) log: RunLog,
    runtime: Runtime,
}

impl OfflineLog {
    /// The logs in a store whose runs have their files in this data folder.
    pub(crate) fn new(store: Arc<dyn EventStore>, layout: Layout) -> Result<Self, Failure> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(Failure::broken("start the runtime"))?;
        Ok(Self { log: RunLog::new(store, layout, Blocking::Threads), runtime })
    }

    /// Wait for what is read.
    pub(crate) fn wait<T>(&self, reading: impl Future<Output = T>) -> T {
        self.runtime.block_on(reading)
    }
}

impl Runs {
    /// The named service, else the running one of the data folder, else the store. Nothing is created.
    pub(crate) fn open(settings: &Settings, server: Option<&str>) -> Result<Self, Failure> {
        if let Some(url) = server {
            return Ok(Self::Service(Client::new(url, settings.http.token.as_ref())?));
        }
        let layout = Layout::new(&settings.paths.data_dir);
        let mut waiting = Waiting::default();
        let store = loop {
            if let Some(client) = service_address::running_service(settings) {
                return Ok(Self::Service(client));
            }
            let folder = settings.paths.data_dir.display();
            let choose = "choose the data directory with --data-dir";
            match layout.store().try_exists() {
                Ok(true) => {}
                Ok(false) => return Err(Failure::NotFound(format!("there are no runs in {folder}\n  {choose}"))),
                Err(error) => return Err(Failure::Usage(format!("{folder} cannot be read: {error}\n  {choose}"))),
            }
            match data_folder::open_store(settings) {
                // A run in another process ends, or a service begins.
                Err(Failure::Busy(busy)) => waiting.tell(&busy),
                opened => break opened?,
            }
            std::thread::sleep(LOOK_AGAIN);
        };
        Ok(Self::Store(OfflineLog::new(store, layout)?))
    }

    /// The run with this request id or run id.
    pub(crate) fn resolve(&self, id: &str) -> Result<RunId, Failure> {
        match self {
            Self::Service(client) => service_address::run_of(client, id),
            Self::Store(offline) => {
                let exact = || {
                    offline.wait(offline.log.resolve(id)).map_err(|error| match error {
                        Error::RunNotFound { .. } => Failure::unknown_run(id),
                        other => other.into(),
                    })
                };
                run_id::resolve(id, exact, |before, limit| {
                    let filter = ListFilter { before, limit, ..ListFilter::default() };
                    let listed = offline.wait(offline.log.list(&filter))?;
                    Ok(listed.jobs.into_iter().map(|job| job.run_id).collect())
                })
            }
        }
    }

    /// Hands on the stored bytes of each event from `from` to `to`, without their ends of line.
    pub(crate) fn events(
        &self,
        run: RunId,
        from: Seq,
        to: Option<Seq>,
        mut each: impl FnMut(&[u8]) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        match self {
            Self::Service(client) => lines(client.history(run, from, to)?, each),
            Self::Store(offline) => {
                let last = to.unwrap_or(Seq(u64::MAX));
                let mut events = offline.log.events(run, Seq(from.0.saturating_sub(1)));
                while let Some(page) = offline.wait(events.next_page())? {
                    for (_, bytes) in page.iter().flat_map(EventBatch::events).take_while(|(seq, _)| *seq <= last) {
                        each(&bytes)?;
                    }
                    if events.at() >= last {
                        break;
                    }
                }
                Ok(())
            }
        }
    }

    /// A page of the runs before this one, newest first.
    pub(crate) fn finished_before(&self, before: Option<RunId>) -> Result<RunPage, Failure> {
        match self {
            Self::Service(client) => {
                let page = client.jobs(&ListFilter { before, limit: PAGE, ..ListFilter::default() })?.answer;
                Ok(RunPage::of(page.jobs.into_iter().map(|job| (job.run_id, job.status)).collect()))
            }
            Self::Store(offline) => {
                let rows = offline.wait(offline.log.rows(before, PAGE))?;
                // A row that cannot be read is one of a damaged run.
                let status = |row: &[u8]| LogHead::from_row(row).map_or(Status::Failed, |head| head.state.status());
                Ok(RunPage::of(rows.into_iter().map(|(run, row)| (run, status(&row))).collect()))
            }
        }
    }

    /// The run as a job.
    pub(crate) fn job(&self, run: RunId) -> Result<Value, Failure> {
        match self {
            Self::Service(client) => Ok(client.job(run)?.document),
            Self::Store(offline) => {
                serde_json::to_value(offline.wait(offline.log.job(run))?).map_err(Failure::broken("read the run"))
            }
        }
    }

    /// Keeps what is damaged of a run for the service; a running one finds out by itself.
    pub(crate) fn remember(&self, run: RunId, damaged: &[(&str, &str)]) {
        let Self::Store(offline) = self else { return };
        offline.log.remember_damage(run, damaged);
    }

    /// What is kept of a run besides its log.
    pub(crate) fn row(&self, run: RunId) -> Result<StoredRow, Failure> {
        match self {
            Self::Service(client) => Ok(StoredRow::Job(client.job(run)?.document)),
            Self::Store(offline) => Ok(StoredRow::Head(Box::new(offline.wait(offline.log.head(run))?))),
        }
    }
}

/// Hands on each line without its end.
pub(crate) fn lines(mut from: impl BufRead, mut each: impl FnMut(&[u8]) -> Result<(), Failure>) -> Result<(), Failure> {
    let mut line = Vec::new();
    while next_line(&mut from, &mut line).map_err(Failure::broken("read the events"))? {
        if line.last() == Some(&b'\n') {
            line.pop();
        }
        each(&line)?;
    }
    Ok(())
}
