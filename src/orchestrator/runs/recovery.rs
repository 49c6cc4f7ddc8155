//! Start-up: end what a dead service left running, settle every open run, sweep what belongs to none.

use std::io::ErrorKind;
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::{StreamExt, stream};
use tracing::{info, warn};

use crate::domain::causes::chain;
use crate::domain::command::{Command, RestartQueued};
use crate::domain::fact::{Fact, RawRange, Stream};
use crate::domain::ids::{RequestId, RunId, Seq};
use crate::domain::outcome::{Evidence, RunError, code};
use crate::domain::run_file::RunFile;
use crate::domain::state::RunState;
use crate::domain::statechart::Status;
use crate::domain::{Effect, effects, goes_on_queued};
use crate::engine::{LineParser, Reading, StreamReader};
use crate::fcmp::read_envelope;
use crate::files;
use crate::orchestrator::admission::single_flight::Follower;
use crate::orchestrator::error::Error;
use crate::orchestrator::handle::Shared;
use crate::orchestrator::log::journal::lost_race;
use crate::orchestrator::packages::install::settle_installs;
use crate::orchestrator::turn::last_files;
use crate::orchestrator::turn::last_files::Closed;
use crate::store::{EventBatch, IndexKey};
use crate::{settings, workspace};

/// Bytes of events read at once.
const READ_BYTES: usize = 1024 * 1024;
/// Runs that are settled side by side.
const AT_ONCE: usize = 64;
/// When runs that could not be settled are tried again.
const AGAIN_AFTER: Duration = Duration::from_secs(5);
/// Newest run folders looked at for ones no log knows: a crash leaves at most the few being created.
const FOLDERS_SWEPT: usize = 1000;

/// Bring everything an earlier life of the service left into a state that is true now. Doing it twice changes nothing.
pub(crate) async fn settle(shared: &Arc<Shared>) -> Result<(), Error> {
    let data = shared.layout.data().to_owned();
    let engines = shared.engines.clone();
    let swept = shared
        .blocking
        .run("look for left-over processes", move || engines.sweep(&data))
        .await?
        .map_err(Error::io("look for left-over processes"))?;
    for process in swept {
        warn!(pid = process.pid, run.id = ?process.run, "ended a process that an earlier service left behind");
    }
    let open = shared.store.open_runs()?;
    let count = open.len();
    // Many at once share the store's commits; what they are owed follows in their order, so the queue keeps it.
    let mut settled =
        stream::iter(open).map(|run| async move { (run, settle_run(shared, run).await) }).buffered(AT_ONCE);
    let mut go_on = Vec::new();
    let mut unsettled = Vec::new();
    while let Some((run, outcome)) = settled.next().await {
        match outcome {
            Ok(state) => go_on.extend(owe(shared, &state)),
            Err(error) => {
                warn!(run.id = %run, error = %chain(&error), "a run could not be settled; trying again");
                unsettled.extend(shared.log.head(run).map(|head| (run, head.state.head_seq)));
            }
        }
    }
    drop(settled);
    if !unsettled.is_empty() {
        tokio::spawn(settle_later(Arc::downgrade(shared), unsettled));
    }
    sweep_folders(shared).await?;
    shared.go_on(go_on);
    if count > 0 {
        info!(runs = count, "settled the runs of an earlier service");
    }
    Ok(())
}

/// Settle what a full disk or the like has left unsettled: such a run would seem to go on until the next start.
async fn settle_later(shared: Weak<Shared>, mut unsettled: Vec<(RunId, Seq)>) {
    while !unsettled.is_empty() {
        tokio::time::sleep(AGAIN_AFTER).await;
        let Some(shared) = shared.upgrade() else { return };
        let mut left = Vec::new();
        for (run, head) in unsettled {
            let _claim = shared.claimed(run).await;
            // Whoever moved it on since then has settled it.
            if !shared.log.head(run).is_ok_and(|now| now.state.head_seq == head) {
                continue;
            }
            match settle_run(&shared, run).await {
                Ok(state) => {
                    shared.go_on(owe(&shared, &state).into_iter().collect());
                    shared.start_next();
                }
                Err(error) if lost_race(&error) => {}
                Err(error) => {
                    warn!(run.id = %run, error = %chain(&error), "a run could still not be settled; trying again");
                    left.push((run, head));
                }
            }
        }
        unsettled = left;
    }
}

async fn settle_run(shared: &Arc<Shared>, run: RunId) -> Result<RunState, Error> {
    let mut journal = shared.journal(run)?;
    let state = journal.state().clone();
    let restart_queued = match shared.settings.runs.restart_queued {
        settings::RestartQueued::Fail => RestartQueued::Fail,
        settings::RestartQueued::Requeue => RestartQueued::Requeue,
    };
    if !state.status.is_final() {
        let mut tails = match state.status {
            Status::Running => uncovered(shared, &state).await?,
            Status::Queued | Status::WaitingUser | Status::Succeeded | Status::Failed | Status::Canceled => vec![],
        };
        let closed = last_files(shared, &state, restart_queued).await?;
        tails.extend(closed.facts);
        journal.commit(Command::Reconcile { restart_queued, tails, evidence: closed.evidence }).await?;
    }
    Ok(journal.state().clone())
}

/// Do what a run is owed, but for what has to wait until the service is ready: that is returned.
fn owe(shared: &Arc<Shared>, state: &RunState) -> Option<Follower> {
    let run = state.run_id;
    if state.temporary {
        shared.temp_runs().insert(run);
    }
    let mut later = None;
    for effect in effects(state) {
        match effect {
            Effect::Enqueue => later = shared.line_up_again(state),
            Effect::Seal => {
                // A power cut may have torn a sealed file whose events are still in the store.
                let _ = std::fs::remove_file(shared.layout.run(run).file(RunFile::Events));
                shared.sealer.seal_soon(run);
            }
            Effect::RemovePackage => shared.remove_package_soon(state),
            // Nothing runs after a restart.
            Effect::Supervise | Effect::StopEngine => {}
            Effect::DecideAt(moment) => shared.deadlines.at(moment, run),
        }
    }
    later
}

/// The last files of a run that the restart ends; nothing for one that goes on.
async fn last_files(shared: &Arc<Shared>, state: &RunState, restart_queued: RestartQueued) -> Result<Closed, Error> {
    let goes_on = match state.status {
        Status::Queued => state.awaiting_upload || goes_on_queued(state, restart_queued),
        Status::WaitingUser => state.pending.is_some() && state.session_handle.is_some(),
        Status::Running => false,
        Status::Succeeded | Status::Failed | Status::Canceled => true,
    };
    if goes_on {
        let evidence = Evidence { streams: last_files::no_streams(), artifacts_sha256: "0".repeat(64) };
        return Ok(Closed { evidence, facts: Vec::new() });
    }
    let (status, error) = if state.cancel_requested {
        (Status::Canceled, last_files::canceled())
    } else if state.status == Status::WaitingUser {
        let message = "the service was restarted and the engine's session cannot be resumed; start the run again";
        (Status::Failed, RunError::new(code::SESSION_RESUME_FAILED, message))
    } else {
        let message = "the service ended while the run was under way; start the run again";
        (Status::Failed, RunError::new(code::ORCHESTRATOR_RESTART_INTERRUPTED, message))
    };
    last_files::without_engine(shared, state, status, error).await
}

/// Raw output that reached its file but not the log, as facts that close the gap.
pub(crate) async fn uncovered(shared: &Arc<Shared>, state: &RunState) -> Result<Vec<Fact>, Error> {
    let shared = shared.clone();
    let run = state.run_id;
    shared.blocking.clone().run("read the run's logs", move || uncovered_blocking(&shared, run)).await?
}

fn uncovered_blocking(shared: &Shared, run: RunId) -> Result<Vec<Fact>, Error> {
    let paths = shared.layout.run(run);
    let mut facts = Vec::new();
    for (stream, path) in [(Stream::Stdout, paths.file(RunFile::Stdout)), (Stream::Stderr, paths.file(RunFile::Stderr))]
    {
        let covered = covered_bytes(shared, run, stream)?;
        let doing = || format!("read {}", path.display());
        let mut file = match files::open_regular(&path) {
            Ok(file) => file,
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::InvalidInput) => continue,
            Err(error) => return Err(error.into()),
        };
        std::io::Seek::seek(&mut file, std::io::SeekFrom::Start(covered)).map_err(Error::io(doing()))?;
        let mut reader = StreamReader::new(stream, covered, crate::domain::event::RAW_TEXT_MAX);
        files::for_each_chunk(&file, Error::io(doing()), |chunk| {
            reader.push(chunk, &mut NoParser, &mut facts);
            Ok(())
        })?;
        reader.flush(&mut NoParser, &mut facts);
        file.sync_data().map_err(Error::io(doing()))?;
    }
    Ok(facts)
}

/// After a crash every line is evidence and none is news.
struct NoParser;

impl LineParser for NoParser {
    fn read(&mut self, _: Stream, _: &str) -> Reading {
        Reading::Unclaimed
    }
}

/// How far the log covers a stream.
pub(crate) fn covered_bytes(shared: &Shared, run: RunId, stream: Stream) -> Result<u64, Error> {
    let mut covered = 0;
    let mut at = Seq::START;
    loop {
        let batches = shared.log.read(run, at, READ_BYTES)?;
        if batches.is_empty() {
            return Ok(covered);
        }
        for (seq, bytes) in batches.iter().flat_map(EventBatch::events) {
            at = seq;
            let envelope = read_envelope(&bytes)
                .map_err(|error| Error::Corrupt { run: run.to_string(), message: error.to_string() })?;
            if let Some(raw) = envelope.raw_ref.filter(|raw| raw.stream == stream) {
                let RawRange { to, .. } = RawRange { stream, from: raw.byte_from, to: raw.byte_to };
                covered = covered.max(to);
            }
        }
    }
}

/// Folders of requests whose run was never created; they may hold secrets.
fn sweep_requests(shared: &Shared) -> Result<(), Error> {
    let Ok(entries) = std::fs::read_dir(shared.layout.requests()) else { return Ok(()) };
    let mut requests: Vec<RequestId> =
        entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    requests.sort_unstable();
    for request in requests.into_iter().rev().take(FOLDERS_SWEPT) {
        if shared.store.index(&IndexKey::Request(request))?.is_none() {
            let _ = files::remove_tree(&shared.layout.request(request));
        }
    }
    Ok(())
}

/// Folders of runs that were being created when the service died, which no log knows, and installations cut short.
async fn sweep_folders(shared: &Arc<Shared>) -> Result<(), Error> {
    let shared = shared.clone();
    shared
        .blocking
        .clone()
        .run("sweep left-over folders", move || {
            let _ = files::remove_tree(&shared.layout.tmp());
            settle_installs(&shared.settings.paths.skills_dir, &shared.layout)?;
            let Ok(entries) = std::fs::read_dir(shared.layout.runs()) else { return Ok(()) };
            let mut runs: Vec<RunId> =
                entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
            runs.sort_unstable();
            sweep_requests(&shared)?;
            for run in runs.into_iter().rev().take(FOLDERS_SWEPT) {
                if shared.store.index(&IndexKey::Run(run))?.is_none() {
                    warn!(run.id = %run, "removing the folder of a run that was never created");
                    let _ = workspace::remove_run(&shared.layout.run(run));
                }
            }
            Ok(())
        })
        .await?
}
