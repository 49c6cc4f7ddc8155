//! `migrate`: the log of a data folder moves to another store; its files stay where they are.

use std::io::{self, Read, Write};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::cli::connect::data_folder::{new_store_in, open_empty_store, open_store};
use crate::cli::connect::runs::{OfflineLog, Runs};
use crate::cli::failure::Failure;
use crate::cli::global::Global;
use crate::cli::inspect::audit::audit_stored;
use crate::cli::logging;
use crate::cli::terminal::fold::to_stderr;
use crate::cli::terminal::look::harmless_name;
use crate::cli::terminal::output;
use crate::domain::ids::RunId;
use crate::orchestrator::{Copied, copy_store};
use crate::settings::{LogLevel, Problem, Settings, StoreKind};
use crate::store::{RunFilter, Switch};
use crate::workspace::Layout;

/// How often progress is told.
const PROGRESS_EVERY: Duration = Duration::from_secs(2);
/// Rows looked at in one step.
const PAGE: usize = 256;
/// Most characters of what is read from standard input.
const STORE_MAX: u64 = 4096;

/// Moves the log of the data directory to another store
///
/// The setting `store` names where the runs are, --to where they go. No service may use the data directory meanwhile. The runs are
/// copied, every copy is audited and compared, and only then the new store takes the place of the old one, which is kept.
/// Whatever interrupts it before that, nothing has changed; call it again and it begins anew. Files of runs stay where they are.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Afterwards set `store` to the new store and start the service. The folder old-store of the data directory can be removed then.
A database that holds runs already is refused.

Examples:
  printenv DATABASE_URL | skill-runner migrate --to -
  SKILL_RUNNER_STORE=$DATABASE_URL skill-runner migrate --to sled")]
pub(crate) struct Args {
    /// The new store: sled, the URL of a database, or - to read it from standard input, where nobody else sees its password
    #[arg(long, value_name = "STORE")]
    to: String,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

pub(crate) fn migrate(global: &Global, args: &Args) -> Result<(), Failure> {
    logging::to_terminal(LogLevel::Warn);
    let settings = global.settings(&[])?;
    let to = target(&args.to)?;
    let layout = Layout::new(&settings.paths.data_dir);
    let switch = Switch::new(layout.data(), &layout.new_store(), &layout.old_store());
    let copied = if switch.has_begun()? {
        check_same(&layout, &to)?;
        None
    } else {
        Some(copy(&settings, &layout, &to, &switch)?)
    };
    switch.complete()?;
    let old = layout.old_store();
    if args.json {
        let runs = copied.map(|(copied, _)| copied.runs);
        let damaged = copied.map(|(_, damaged)| damaged);
        return output::json(
            &json!({"runs": runs, "damaged_before": damaged, "store": to.to_string(), "old_store": old}),
        );
    }
    let done = match copied {
        Some((Copied { runs, .. }, _)) => format!("{runs} runs were copied and audited"),
        None => "the move that was cut short is complete".to_owned(),
    };
    output::line(&format!(
        "{done}\n  set store to {to}, start the service, and remove {} when all is well",
        old.display()
    ))
}

fn target(given: &str) -> Result<StoreKind, Failure> {
    let mut text = given.to_owned();
    if given == "-" {
        text.clear();
        io::stdin().take(STORE_MAX).read_to_string(&mut text).map_err(Failure::broken("read the new store"))?;
    }
    StoreKind::parse(text.trim()).map_err(|message| {
        Failure::Configuration(vec![Problem { key: "--to".to_owned(), place: "the new store".to_owned(), message }])
    })
}

/// A move that was cut short can be completed alone, to the store it was going to.
fn check_same(layout: &Layout, to: &StoreKind) -> Result<(), Failure> {
    match new_store_in(&layout.new_store())? {
        Some(begun) if begun != to.to_string() => {
            Err(Failure::Usage(format!("a move to {begun} was cut short: complete it first, with that as --to")))
        }
        _ => Ok(()),
    }
}

/// Fills the new store, holds it against the old one, and lets nobody use the old one any more. Returns what was copied, and how
/// many runs were damaged before.
fn copy(settings: &Settings, layout: &Layout, to: &StoreKind, switch: &Switch) -> Result<(Copied, u64), Failure> {
    let from = &settings.store.kind;
    if from == to {
        return Err(Failure::Usage(format!("the runs are in this store already: {to}")));
    }
    let old = layout.old_store();
    if Layout::new(&old).store().symlink_metadata().is_ok() {
        let old = old.display();
        return Err(Failure::Usage(format!("{old} has the store of an earlier move; remove it, or put it elsewhere")));
    }
    if !layout.store().exists() {
        let folder = settings.paths.data_dir.display();
        return Err(Failure::NotFound(format!(
            "there are no runs in {folder}\n  choose the data directory with --data-dir"
        )));
    }
    let source = open_store(settings)?;
    let target = open_empty_store(to, &layout.new_store())?;
    let (old, new) =
        (OfflineLog::new(source.clone(), layout.clone())?, OfflineLog::new(target.clone(), layout.clone())?);
    let total: u64 = old.wait(async { source.counts(&RunFilter::default()).await })?.values().sum();
    let progress = Progress::new(total);
    let copied = old.wait(copy_store(&*source, &*target, &|copied| progress.tell("copied", copied.runs)))?;
    if old.wait(async { source.open_runs().await })? != old.wait(async { target.open_runs().await })? {
        return Err(Failure::Broken(
            "the new store has other unfinished runs than the old one; nothing was changed".into(),
        ));
    }
    let (old, new) = (Runs::Store(old), Runs::Store(new));
    let damaged = compare(settings, &old, &new, copied.runs, &progress)?;
    switch.begin()?;
    Ok((copied, damaged))
}

/// Holds every run in the new store against the old one, and audits it. Returns how many were damaged before, and still are.
fn compare(settings: &Settings, old: &Runs, new: &Runs, runs: u64, progress: &Progress) -> Result<u64, Failure> {
    let (Runs::Store(before), Runs::Store(now)) = (old, new) else { return Ok(0) };
    let (mut last, mut checked, mut damaged) = (None, 0, 0);
    loop {
        let rows = now.wait(now.log.rows(last, PAGE))?;
        if rows != before.wait(before.log.rows(last, PAGE))? {
            return Err(Failure::Broken(
                "the new store has other rows than the old one; nothing was changed".to_owned(),
            ));
        }
        let Some((next, _)) = rows.last() else { break };
        last = Some(*next);
        for (run, _) in &rows {
            let found = audited(settings, new, *run)?;
            if !found.is_empty() {
                judge(*run, &found, &audited(settings, old, *run)?)?;
                damaged += 1;
            }
            checked += 1;
            progress.tell("audited", checked);
        }
    }
    if checked != runs {
        return Err(Failure::Broken(format!("{runs} runs were copied, and {checked} are there; nothing was changed")));
    }
    Ok(damaged)
}

/// What an audit finds wrong with a run.
fn audited(settings: &Settings, runs: &Runs, run: RunId) -> Result<Vec<String>, Failure> {
    match audit_stored(settings, runs, run) {
        Ok(report) => {
            Ok(report.violations.iter().map(|it| format!("{}: {} {}", it.file, it.rule, it.message)).collect())
        }
        // It is so damaged that it cannot be read to its end.
        Err(Failure::Refused { code, message, .. }) => Ok(vec![format!("{code}: {message}")]),
        Err(failure) => Err(failure),
    }
}

/// What the old store has as well was damaged before; a copy cannot mend it.
fn judge(run: RunId, found: &[String], before: &[String]) -> Result<(), Failure> {
    let first = found.first().map_or("", String::as_str);
    if found == before {
        to_stderr(&format!("run {run} was damaged before, and is copied as it is: {}", harmless_name(first)));
        return Ok(());
    }
    Err(Failure::Broken(format!("the copy of run {run} is not what it was; nothing was changed: {first}")))
}

/// Tells how far it has come, every now and then.
struct Progress {
    total: u64,
    told: Mutex<Instant>,
}

impl Progress {
    fn new(total: u64) -> Self {
        Self { total, told: Mutex::new(Instant::now()) }
    }

    fn tell(&self, done: &str, runs: u64) {
        let Ok(mut told) = self.told.lock() else { return };
        if told.elapsed() >= PROGRESS_EVERY {
            *told = Instant::now();
            // Nobody may be there to read it.
            let _ = writeln!(io::stderr(), "{runs} of {} runs {done}", self.total);
        }
    }
}
