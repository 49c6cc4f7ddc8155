//! `audit`: whether a run's log, streams and artifacts are what the run wrote.

mod artifacts;
mod folder;
mod log;
mod report;
mod row;
mod streams;

use std::io;
use std::path::{Path, PathBuf};

use super::failure::Failure;
use super::global::Global;
use super::runs::Runs;
use super::terminal::Look;
use super::{logging, output};
use crate::domain::ids::{RunId, Seq};
use crate::settings::LogLevel;
use crate::workspace::Layout;
use folder::RunFolder;
use report::Report;

/// Checks a run's log, streams and artifacts, and says what is wrong and where
///
/// Checked are the ordering rules OR-01 to OR-07, the schema of every event, the proof (hash chain, raw streams, list
/// of artifacts), every artifact's content, and for a run of the data directory that its stored row is what its
/// events amount to.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  skill-runner audit 0192f3c1-8a54-7cc2-b0a1-d2f8a6c1e9b7
  skill-runner audit ./data/runs/0192f3c1-8a54-7cc2-b0a1-d2f8a6c1e9b7
  skill-runner audit ./events.jsonl --json")]
pub(super) struct Args {
    /// Request id or run id, a run's folder, or an event log alone
    target: String,
    /// One JSON document
    #[arg(long)]
    json: bool,
}

/// Checks the run.
pub(super) fn audit(global: &Global, args: &Args) -> Result<(), Failure> {
    logging::to_terminal(LogLevel::Warn);
    let path = Path::new(&args.target);
    let report = if args.target.parse::<RunId>().is_ok() {
        stored_run(global, &args.target)?
    } else if path.is_dir() {
        RunFolder::new(path).audit()?
    } else if path.is_file() {
        log_file(path)?
    } else {
        let target: String = args.target.chars().take(200).collect();
        return Err(Failure::Broken(format!("{target:?} is neither a run's id nor its folder nor an event log")));
    };
    if args.json {
        output::json(&report)?;
    } else {
        output::line(&report.told(Look::of(&io::stdout())))?;
    }
    if report.ok { Ok(()) } else { Err(Failure::Said) }
}

/// A run of the data folder: its files, its events wherever they are, and its row.
fn stored_run(global: &Global, id: &str) -> Result<Report, Failure> {
    let settings = global.settings(&[])?;
    let runs = Runs::open(&settings, None)?;
    let run = runs.resolve(id)?;
    let folder = RunFolder::new(&Layout::new(&settings.paths.data_dir).run(run).root);
    let mut audit = folder.begin();
    if folder.events_jsonl().is_file() {
        audit.take_file(folder.events_jsonl())?;
    } else {
        runs.events(run, Seq(1), None, |event| {
            audit.take(event);
            Ok(())
        })?;
    }
    let row = runs.row(run)?;
    let mut report = folder.finish(audit, |audit, report| row::check(row, audit, report))?;
    report.run_id.get_or_insert(run);
    Ok(report)
}

/// A log: with its run's folder, where it stands in one, else by itself.
fn log_file(path: &Path) -> Result<Report, Failure> {
    let path: PathBuf = std::path::absolute(path).map_err(Failure::broken("find the working directory"))?;
    let logs = path.parent().filter(|logs| logs.ends_with("logs"));
    match logs.and_then(Path::parent) {
        Some(root) if root.join("manifest.json").exists() => RunFolder::with_log(root, path.clone()).audit(),
        Some(_) | None => folder::log_alone(&path),
    }
}
