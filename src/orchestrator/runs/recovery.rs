//! Start-up: end what a dead service left running, recover every open run, sweep what belongs to none.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::stream::FuturesUnordered;
use futures_util::{StreamExt, stream};
use tracing::{info, warn};

use crate::domain::causes::chain;
use crate::domain::command::{Command, RestartQueued};
use crate::domain::ids::{RequestId, RunId, Seq};
use crate::domain::state::RunState;
use crate::domain::statechart::Status;
use crate::engine;
use crate::files;
use crate::orchestrator::admission::effects::{perform_again, tell_end, wake};
use crate::orchestrator::admission::spent_config;
use crate::orchestrator::environment::unbroken;
use crate::orchestrator::error::Error;
use crate::orchestrator::log::journal::{Journal, lost_race, not_owner};
use crate::orchestrator::packages::install::recover_installs;
use crate::orchestrator::packages::record::Records;
use crate::orchestrator::packages::share_installs::share_end;
use crate::orchestrator::runs::actor::record_uncovered;
use crate::orchestrator::runs::dispatch::give_back;
use crate::orchestrator::shared::Shared;
use crate::orchestrator::shared::single_flight::Follower;
use crate::orchestrator::turn::{at_rest, process};
use crate::store::{IndexKey, Labels};
use crate::workspace::{EngineHome, Layout, removable};
use crate::{settings, workspace};

/// Runs that are recovered side by side.
const AT_ONCE: usize = 64;
/// Waiting and queued runs that are recovered before the service is ready; all others later, or when something is asked of
/// them.
const RECOVERED_FIRST: usize = 64;
/// A run that was running with more events than this is recovered later, too: all of them are read, which takes a second for each
/// hundred thousand or two.
const EVENTS_READ_FIRST: Seq = Seq(200_000);
/// When runs that could not be recovered are tried again.
const AGAIN_AFTER: Duration = Duration::from_secs(5);
/// Newest run folders looked at for ones no log knows: a crash leaves at most the few being created.
const FOLDERS_SWEPT: usize = 1000;

/// Bring everything an earlier process of the service left into a state that is true now. Doing it twice changes
/// nothing.
pub(crate) async fn recover(shared: &Arc<Shared>) -> Result<(), Error> {
    sweep_processes(shared).await?;
    let open = shared.store.open_runs().await?;
    let Open { now, later, over } = sort(shared, open).await?;
    if !over.is_empty() {
        shared.sealer.seal_anew(over);
    }
    // Many at once share the store's commits; what follows from each is done in their order, so the queue keeps it.
    let mut recovered =
        stream::iter(now).map(|run| async move { (run, recover_run(shared, run).await) }).buffered(AT_ONCE);
    let mut ready = Vec::new();
    let mut failed = Vec::new();
    while let Some((run, outcome)) = recovered.next().await {
        match outcome {
            Ok(state) => ready.extend(follow_up(shared, &state).await),
            Err(error) => {
                warn!(run.id = %run, error = %chain(&error), "a run could not be recovered; trying again");
                failed.extend(NotRecovered::now(shared, run).await);
            }
        }
    }
    drop(recovered);
    if !failed.is_empty() {
        tokio::spawn(recover_later(Arc::downgrade(shared), failed));
    }
    sweep_folders(shared).await?;
    recover_packages(shared).await?;
    wake(shared, ready);
    if !later.is_empty() {
        shared.unrecovered.add(&later);
        tokio::spawn(recover_in_background(Arc::downgrade(shared)));
    }
    let recovered = shared.recovered.load(Relaxed);
    if recovered > 0 {
        info!(runs = recovered, in_background = later.len(), "recovered the runs of an earlier service");
    }
    Ok(())
}

async fn sweep_processes(shared: &Arc<Shared>) -> Result<(), Error> {
    let data = shared.layout.data().to_owned();
    let engines = shared.engines.clone();
    let doing = "look for left-over processes";
    let swept = shared.blocking.run(doing, move || engines.sweep(&data)).await?.map_err(Error::io(doing))?;
    for process in swept {
        warn!(pid = process.pid, run.id = ?process.run, "ended a process that an earlier service left behind");
    }
    Ok(())
}

/// What an earlier process of this service left on this machine. Its runs are the concern of all services.
pub(crate) async fn recover_here(shared: &Arc<Shared>) -> Result<(), Error> {
    sweep_processes(shared).await?;
    sweep_folders(shared).await
}

/// Open runs by what is to be done with them, each in the order of their ids.
#[derive(Default)]
struct Open {
    /// To be recovered before the service is ready.
    now: Vec<RunId>,
    /// To be recovered when the service is ready.
    later: Vec<RunId>,
    /// To be sealed alone.
    over: Vec<RunId>,
}

/// Looks at no more of each row than it needs: there may be ten thousand.
async fn sort(shared: &Shared, runs: Vec<RunId>) -> Result<Open, Error> {
    let mut open = Open::default();
    let mut first = RECOVERED_FIRST;
    for run in runs {
        let row = shared.store.index(&IndexKey::Run(run)).await?;
        let labels = row.and_then(|row| Labels::of_row(&row));
        if let Some(labels) = labels.as_ref().filter(|labels| !labels.status.is_final()) {
            shared.recovered.fetch_add(1, Relaxed);
            shared.metrics.found(&labels.engine, labels.status);
        }
        let ran = labels.as_ref().is_some_and(|labels| labels.status == Status::Running);
        let list = match labels {
            Some(labels) if labels.status.is_final() && !labels.temporary => &mut open.over,
            Some(_) if ran && shared.store.head(&run).await? > EVENTS_READ_FIRST => &mut open.later,
            Some(labels) if may_wait(shared, labels.status) => match first.checked_sub(1) {
                Some(left) => {
                    first = left;
                    &mut open.now
                }
                None => &mut open.later,
            },
            Some(_) | None => &mut open.now,
        };
        list.push(run);
    }
    Ok(open)
}

/// Whether nothing of the run went on when the service ended, and nothing has to go on at once.
fn may_wait(shared: &Shared, status: Status) -> bool {
    match status {
        Status::WaitingUser => true,
        // Those that are not ended keep their order in the queue.
        Status::Queued => shared.settings.runs.restart_queued == settings::RestartQueued::Fail,
        Status::Running | Status::Succeeded | Status::Failed | Status::Canceled => false,
    }
}

/// Recover the runs for which the start did not wait. Whatever stays is recovered by the next start.
async fn recover_in_background(shared: Weak<Shared>) {
    let mut failed = Vec::new();
    let mut under_way = FuturesUnordered::new();
    loop {
        let Some(shared) = shared.upgrade().filter(|shared| !shared.closing.is_cancelled()) else { return };
        // One with a long log keeps nobody waiting for the others.
        for run in shared.unrecovered.take(AT_ONCE - under_way.len()) {
            let shared = shared.clone();
            under_way.push(async move { (run, recover_one(&shared, run).await) });
        }
        let Some((run, outcome)) = under_way.next().await else { break };
        match outcome {
            Ok(()) => {}
            Err(error) if lost_race(&error) => {}
            Err(error) => {
                warn!(run.id = %run, error = %chain(&error), "a run could not be recovered; trying again");
                failed.extend(NotRecovered::now(&shared, run).await);
            }
        }
        // What could not be recovered can be read all the same.
        shared.unrecovered.remove(&[run]);
    }
    recover_later(shared, failed).await;
}

/// Without the run's lock: who has it and wants to write waits for this.
pub(super) async fn recover_one(shared: &Arc<Shared>, run: RunId) -> Result<(), Error> {
    let state = recover_run(shared, run).await?;
    wake(shared, follow_up(shared, &state).await.into_iter().collect());
    Ok(())
}

/// A run that could not be recovered, as it was then.
pub(super) struct NotRecovered {
    run: RunId,
    status: Status,
    turns: u32,
    head: Seq,
}

impl NotRecovered {
    /// `None` if its row cannot be read.
    pub(super) async fn now(shared: &Shared, run: RunId) -> Option<Self> {
        let state = shared.log.head(run).await.ok()?.state;
        Some(Self { run, status: state.status(), turns: state.turns, head: state.head_seq })
    }

    /// Whether somebody moved it on since then, who has recovered it.
    fn moved_on(&self, now: &Self) -> bool {
        match self.status {
            // An attempt that failed half-way, or a cancel that did, may have logged the rest of its output: that is not its end.
            Status::Running => (now.status, now.turns) != (self.status, self.turns),
            Status::Queued | Status::WaitingUser | Status::Succeeded | Status::Failed | Status::Canceled => {
                now.head != self.head
            }
        }
    }
}

/// Recover what a full disk or the like has prevented: such a run would seem to go on until the next start.
pub(super) async fn recover_later(shared: Weak<Shared>, mut failed: Vec<NotRecovered>) {
    while !failed.is_empty() {
        tokio::time::sleep(AGAIN_AFTER).await;
        let Some(shared) = shared.upgrade() else { return };
        let mut left = Vec::new();
        for before in failed {
            let run = before.run;
            let _lock = shared.run_locks.lock(run).await;
            if NotRecovered::now(&shared, run).await.is_none_or(|now| before.moved_on(&now)) {
                left_to_others(&shared, run);
                continue;
            }
            match recover_run(&shared, run).await {
                Ok(state) => {
                    wake(&shared, follow_up(&shared, &state).await.into_iter().collect());
                    if let Some(member) = &shared.member {
                        let _taking = member.taking.lock().await;
                        member.recovered(run);
                        give_back(&shared, member, run).await;
                    }
                }
                Err(error) if not_owner(&error) => left_to_others(&shared, run),
                Err(error) => {
                    warn!(run.id = %run, error = %chain(&error), "a run could still not be recovered; trying again");
                    left.push(before);
                }
            }
        }
        failed = left;
    }
}

/// Somebody else says what became of the run: what was made of its files here is not what is on record.
fn left_to_others(shared: &Shared, run: RunId) {
    if let Some(member) = &shared.member {
        member.recovered(run);
        shared.files().forget(run);
    }
}

/// Decide what becomes of one run, and log it. One for which this breaks keeps neither others from being recovered nor the service from
/// starting.
async fn recover_run(shared: &Arc<Shared>, run: RunId) -> Result<RunState, Error> {
    let broke = || Err(Error::io("recover the run")(std::io::Error::other("its recovery panicked")));
    unbroken("recover a run", recover_unguarded(shared, run)).await.unwrap_or_else(broke)
}

async fn recover_unguarded(shared: &Arc<Shared>, run: RunId) -> Result<RunState, Error> {
    // Not by `Shared::journal`, which waits until the run is recovered.
    let mut journal = Journal::open(shared.pen(), run).await?;
    if journal.state().status().is_final() {
        return Ok(journal.state().clone());
    }
    let restart_queued = match shared.settings.runs.restart_queued {
        // The queue is not this service's own.
        _ if shared.member.is_some() => RestartQueued::Requeue,
        settings::RestartQueued::Fail => RestartQueued::Fail,
        settings::RestartQueued::Requeue => RestartQueued::Requeue,
    };
    if journal.state().status() == Status::Running {
        settle_home(shared, journal.state()).await;
        // Before what is left of its output is looked at: an actor that was overtaken has left files that are not the run's.
        shared.ensure_files(journal.state()).await?.keep();
        record_uncovered(shared, &mut journal).await?;
    }
    let command = Command::Reconcile { restart_queued, facts: Vec::new() };
    at_rest::log(shared, &mut journal, command).await?;
    if journal.state().status().is_final() {
        tell_end(shared, journal.state());
    }
    Ok(journal.state().clone())
}

/// The engine died with the service: what it left in its home is put in order.
async fn settle_home(shared: &Arc<Shared>, state: &RunState) {
    let Some(adapter) = engine::adapter_named(&state.engine) else { return };
    let own = shared.layout.run(state.run_id).home;
    let home = EngineHome::new(own, &shared.settings.paths.agent_home.join(adapter.name()), adapter.home);
    process::settle(shared, state.run_id, Some(home)).await;
}

/// Do what the run needs now, but for what has to wait until the service is ready: that is returned.
async fn follow_up(shared: &Arc<Shared>, state: &RunState) -> Option<Follower> {
    if state.temporary {
        shared.temp_runs().insert(state.run_id);
    }
    if state.awaiting_upload && !state.status().is_final() {
        shared.still_awaits(state);
    }
    perform_again(shared, state).await
}

/// Installations that were cut short. Among several services, nothing of an earlier process may change a skill any more.
pub(crate) async fn recover_packages(shared: &Arc<Shared>) -> Result<(), Error> {
    let (owned, made) = (shared.clone(), shared.made_changes().await?);
    let recover = move || recover_installs(&owned.settings.paths.skills_dir, &owned.layout, &made);
    for install in shared.blocking.run("recover installations", recover).await? {
        let told = share_end(shared, install.clone()).await;
        if told != install {
            let records = Records::new(&shared.layout);
            shared.blocking.run("write down what others have found", move || records.write(&told)).await??;
        }
    }
    Ok(())
}

/// Folders of runs and requests that were being created or deleted when the service died.
async fn sweep_folders(shared: &Arc<Shared>) -> Result<(), Error> {
    let owned = shared.clone();
    let listed = shared.blocking.run("sweep left-over folders", move || {
        let _ = files::remove_tree(&owned.layout.tmp());
        owned.shared_skills.sweep();
        owned.environments.remove_half_made();
        remove_half_made(&owned.layout);
        let mut runs = newest::<RunId>(&owned.layout.runs());
        runs.extend(newest::<RunId>(&owned.layout.sealed()));
        runs.extend(newest::<RunId>(&owned.layout.homes()));
        runs.sort_unstable();
        runs.dedup();
        (newest::<RequestId>(&owned.layout.requests()), runs)
    });
    let (requests, runs) = listed.await?;
    let (mut known, mut unknown) = (Known::default(), Known::default());
    let mut over = Vec::new();
    for request in requests {
        let row = shared.store.index(&IndexKey::Request(request)).await?;
        if let Some(row) = &row
            && is_over(shared, row).await?
        {
            over.push(request);
        }
        if row.is_some() { &mut known } else { &mut unknown }.requests.push(request);
    }
    for run in runs {
        let row = shared.store.index(&IndexKey::Run(run)).await?;
        if row.is_some() { &mut known } else { &mut unknown }.runs.push(run);
    }
    let (layout, are_shared) = (shared.layout.clone(), shared.files().are_shared());
    let lost = shared.blocking.run("remove left-over folders", move || {
        keep(&layout, &known);
        // The service died between the end of their runs and this.
        over.into_iter().for_each(|request| spent_config::remove(&layout, request));
        remove_unfinished(&layout, unknown, are_shared)
    });
    let lost = lost.await?;
    shared.lost_runs.found(lost.runs, lost.requests.len());
    if let Some(trouble) = shared.lost_runs.in_words() {
        warn!("{trouble}");
    }
    Ok(())
}

/// Whether the run is over that the row of a request names.
async fn is_over(shared: &Shared, request: &[u8]) -> Result<bool, Error> {
    let Ok(run) = request.try_into().map(RunId::from_bytes) else { return Ok(false) };
    let row = shared.store.index(&IndexKey::Run(run)).await?;
    Ok(row.and_then(|row| Labels::of_row(&row)).is_some_and(|labels| labels.status.is_final()))
}

/// Runs and requests of which there are files.
#[derive(Default)]
struct Known {
    runs: Vec<RunId>,
    requests: Vec<RequestId>,
}

/// What is on record stays, though the service died before it could say so, or before it deleted the row.
fn keep(layout: &Layout, known: &Known) {
    for run in &known.runs {
        let _ = removable::unmark_run(&layout.run(*run));
    }
    for request in &known.requests {
        let _ = removable::unmark(&layout.request(*request));
        // What was being unpacked for it.
        files::remove_hidden(&layout.request(*request));
    }
}

/// Removes what was being created or deleted when the service died; returns what the store has lost. Where files are shared, what
/// is known to be as in the shared files was deleted by another service.
fn remove_unfinished(layout: &Layout, unknown: Known, are_shared: bool) -> Known {
    let mut lost = Known::default();
    for request in unknown.requests {
        let folder = layout.request(request);
        match removable::is_marked(&folder) {
            Some(marked) if marked || are_shared => drop(files::remove_tree(&folder)),
            Some(_) => lost.requests.push(request),
            None => {}
        }
    }
    for run in unknown.runs {
        let paths = layout.run(run);
        if are_shared && paths.state.symlink_metadata().is_ok() {
            let _ = workspace::remove_run(&paths);
        } else if removable::is_removable(&paths) {
            warn!(run.id = %run, "removing what was left of a run that was being created or deleted");
            let _ = workspace::remove_run(&paths);
        } else {
            lost.runs.push(run);
        }
    }
    lost
}

/// Removes folders that an earlier process began to make.
fn remove_half_made(layout: &Layout) {
    for folder in [layout.runs(), layout.homes(), layout.shared_results()] {
        // What stays is removed at the next start.
        files::remove_hidden(&folder);
    }
}

/// The newest of the ids that folders and sealed logs are named by.
fn newest<Id: std::str::FromStr + Ord>(folder: &std::path::Path) -> Vec<Id> {
    let names = files::names_in(folder).unwrap_or_default();
    let mut ids: Vec<Id> = names.iter().filter_map(|name| id_in(name.to_str()?)).collect();
    ids.sort_unstable();
    let skip = ids.len().saturating_sub(FOLDERS_SWEPT);
    ids.split_off(skip)
}

fn id_in<Id: std::str::FromStr>(name: &str) -> Option<Id> {
    name.strip_suffix(".jsonl").unwrap_or(name).parse().ok()
}
