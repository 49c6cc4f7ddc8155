//! `audit`: whether a run's log, streams and artifacts are what the run wrote.

mod artifacts;
mod files;
mod log;
#[cfg(test)]
mod mutations;
mod report;
mod result;
mod row;
mod streams;
mod whole;

use std::io;
use std::path::Path;

use super::failure::Failure;
use super::global::Global;
use super::runs::Runs;
use super::terminal::Look;
use super::{logging, output};
use crate::domain::ids::{RunId, Seq};
use crate::export::{EVENTS, Export, Piece};
use crate::settings::LogLevel;
use crate::workspace::Layout;
use files::RunFiles;
use report::Report;
use whole::LogIn;

/// Checks a run's log, streams and artifacts, and says what is wrong and where
///
/// Checked are the ordering rules OR-01 to OR-07, the schema of every event, the proof (hash chain, raw streams, list
/// of artifacts), every artifact's content, and that the result says what the log says. For a run of the data directory
/// its stored row must be what its events amount to; for an export, every byte of the file must be the one that was
/// written. An export needs neither a service nor a data directory.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Exit status 1 when something is wrong; each finding names its rule, its file, and the event or the byte.

Examples:
  skill-runner audit 0192f3c1-8a54-7cc2-b0a1-d2f8a6c1e9b7
  skill-runner audit run.zip
  skill-runner audit ./data/runs/0192f3c1-8a54-7cc2-b0a1-d2f8a6c1e9b7
  skill-runner audit ./events.jsonl --json")]
pub(super) struct Args {
    /// Request id or run id, an export, a run's folder, or an event log alone
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
        whole::folder(path, None)?
    } else if path.is_file() {
        file(path)?
    } else {
        let target: String = args.target.chars().take(200).collect();
        return Err(Failure::Broken(format!("{target:?} is neither a run's id nor its folder, export or event log")));
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
    let files = RunFiles::Folder(Layout::new(&settings.paths.data_dir).run(run).root);
    let mut audit = whole::begin(&files);
    let log = if let Some(log) = files.open(EVENTS) {
        audit.take_file(&log)?;
        LogIn::File
    } else {
        runs.events(run, Seq(1), None, |event| {
            audit.take(event);
            Ok(())
        })?;
        LogIn::Store
    };
    let row = runs.row(run)?;
    let mut report = whole::finish(&files, audit, log, |outcome, report| row::check(row, outcome, report))?;
    report.run_id.get_or_insert(run);
    Ok(report)
}

/// An export, or a log: with its run's folder, where it stands in one, else by itself.
fn file(path: &Path) -> Result<Report, Failure> {
    if Export::is_meant(path) {
        return whole::export(path);
    }
    let path = std::path::absolute(path).map_err(Failure::broken("find the working directory"))?;
    let opened = std::fs::File::open(&path).and_then(Piece::whole);
    let log = opened.map_err(Failure::broken(format!("read {}", path.display())))?;
    let logs = path.parent().filter(|logs| logs.ends_with("logs"));
    match logs.and_then(Path::parent) {
        Some(root) if root.join("manifest.json").exists() => whole::folder(root, Some(log)),
        Some(_) | None => whole::log_alone(&log),
    }
}
