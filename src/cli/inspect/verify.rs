//! `verify`: every finished run of a data folder, audited one after the other.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::audit::Report;
use crate::bounded;
use crate::cli::connect::runs::Runs;
use crate::cli::failure::Failure;
use crate::cli::global::Global;
use crate::cli::inspect::audit::audit_stored;
use crate::cli::logging;
use crate::cli::terminal::fold::to_stderr;
use crate::cli::terminal::look::{Ink, Look, harmless, harmless_name};
use crate::cli::terminal::output;
use crate::domain::codes::{ErrorCode, Exit};
use crate::domain::ids::RunId;
use crate::export::EVENTS;
use crate::fcmp::Signer;
use crate::files;
use crate::settings::{LogLevel, Settings};
use crate::workspace::{Layout, read_signing_key};

/// How often progress is told and kept.
const PROGRESS_EVERY: Duration = Duration::from_secs(2);

/// Checks every finished run of the data directory, and names each file that is not what it was
///
/// Each run is checked as `audit` checks it: log, row, result, artifacts, uploads, raw output. Works beside the running service
/// of the data directory, which is asked for its rows, or without one. What is found is also remembered for the service if none
/// runs: the job, /v1/system and the log tell of it.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Exit status 1 if anything is damaged. How far it has come is kept in the file verify.json of the data directory, signed with its key;
--resume goes on from no other file.

Examples:
  skill-runner verify
  skill-runner verify --rate 20000000
  skill-runner verify --resume")]
pub(crate) struct Args {
    /// Go on where an earlier check was interrupted
    #[arg(long)]
    resume: bool,
    /// Read at most so many bytes a second [default: as fast as possible]
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u64).range(1..))]
    rate: Option<u64>,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// How far a check has come.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Progress {
    /// The run that was checked last; newer ones were checked before it.
    last: Option<RunId>,
    runs: u64,
    bytes: u64,
    damaged: Vec<Damaged>,
}

/// What is kept of it, so that nobody but who has the key of the data folder says what was checked.
#[derive(Debug, Serialize, Deserialize)]
struct Kept<Progress> {
    progress: Progress,
    signature: String,
}

/// A damaged file of a run.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Damaged {
    run_id: RunId,
    file: String,
    message: String,
}

pub(crate) fn verify(global: &Global, args: &Args) -> Result<(), Failure> {
    logging::to_terminal(LogLevel::Warn);
    let settings = global.settings(&[])?;
    let runs = Runs::open(&settings, None)?;
    let layout = Layout::new(&settings.paths.data_dir);
    let place = layout.verify_progress();
    // A key that is damaged is told of by the runs that it signed.
    let signer = read_signing_key(&layout).ok().flatten();
    let mut progress = if args.resume { earlier(&place, signer.as_ref())? } else { Progress::default() };
    let by_earlier = progress.runs;
    walk(&settings, &runs, args.rate, signer.as_ref(), &mut progress)?;
    files::remove_file(&place).map_err(Failure::broken("remove the progress file"))?;
    let Progress { runs, bytes, damaged, .. } = progress;
    if args.json {
        let ok = damaged.is_empty();
        output::json(
            &json!({"ok": ok, "runs": runs, "runs_by_earlier_command": by_earlier, "bytes": bytes, "damaged": damaged}),
        )?;
    } else {
        output::line(&told(runs, by_earlier, &damaged, Look::of(&io::stdout())))?;
    }
    if damaged.is_empty() { Ok(()) } else { Err(Failure::Reported(Exit::Failed)) }
}

/// How far an earlier command came; nothing that anybody else says counts.
fn earlier(place: &Path, signer: Option<&Signer>) -> Result<Progress, Failure> {
    let nothing =
        || Failure::NotFound("no interrupted check is there to be resumed; run it without --resume".to_owned());
    let text = files::read_optional(place).map_err(Failure::broken("read the progress file"))?.ok_or_else(nothing)?;
    let kept: Option<Kept<Progress>> = bounded::json::from_slice(&text).ok();
    let signed = |kept: &Kept<Progress>| {
        let note = note(&kept.progress).ok();
        note.zip(signer).is_some_and(|(note, signer)| signer.has_signed_note(&note, &kept.signature))
    };
    Ok(kept.filter(signed).map_or_else(
        || {
            to_stderr(&format!(
                "{} is not signed with the key of this data directory, so nothing counts as checked; beginning anew",
                place.display()
            ));
            Progress::default()
        },
        |kept| kept.progress,
    ))
}

/// What is signed of it.
fn note(progress: &Progress) -> Result<Vec<u8>, Failure> {
    let text = serde_json::to_vec(progress).map_err(Failure::broken("write the progress file"))?;
    Ok([b"verify\n".as_slice(), &text].concat())
}

fn walk(
    settings: &Settings,
    runs: &Runs,
    rate: Option<u64>,
    signer: Option<&Signer>,
    progress: &mut Progress,
) -> Result<(), Failure> {
    let layout = Layout::new(&settings.paths.data_dir);
    let (began, already) = (Instant::now(), progress.bytes);
    let mut told = Instant::now();
    loop {
        let before = progress.last;
        let page = runs.finished_before(before)?;
        let Some(last) = page.last else { return Ok(()) };
        if let Some(before) = before.filter(|before| last >= *before) {
            return Err(Failure::Broken(format!(
                "the list of runs does not go on: {last} is not older than {before}\n  restart the service, or stop it, and run this again"
            )));
        }
        for run in page.finished {
            check(settings, runs, run, progress)?;
            progress.last = Some(run);
            progress.runs += 1;
            progress.bytes += size(&layout.run(run).root);
            if let Some(rate) = rate {
                let due = Duration::from_secs_f64((progress.bytes - already) as f64 / rate as f64);
                std::thread::sleep(due.saturating_sub(began.elapsed()));
            }
            if told.elapsed() >= PROGRESS_EVERY {
                told = Instant::now();
                keep(&layout, signer, progress)?;
            }
        }
        progress.last = Some(last);
    }
}

fn keep(layout: &Layout, signer: Option<&Signer>, progress: &Progress) -> Result<(), Failure> {
    if let Some(signer) = signer {
        let kept = Kept { progress, signature: signer.sign_note(&note(progress)?) };
        let text = serde_json::to_vec(&kept).map_err(Failure::broken("write the progress file"))?;
        files::write_durably(&layout.verify_progress(), &text).map_err(Failure::broken("write the progress file"))?;
    }
    let (runs, mib) = (progress.runs, progress.bytes >> 20);
    // Nobody may be there to read it.
    let _ = writeln!(io::stderr(), "{runs} runs checked, {mib} MiB, {} damaged files", progress.damaged.len());
    Ok(())
}

fn check(settings: &Settings, runs: &Runs, run: RunId, progress: &mut Progress) -> Result<(), Failure> {
    let report = match audit_stored(settings, runs, run) {
        Ok(report) => report,
        // It was deleted meanwhile.
        Err(Failure::Refused { code, .. }) if code == ErrorCode::RequestNotFound.as_str() => return Ok(()),
        Err(Failure::Refused { code, message, details }) => {
            let file = details["file"].as_str().unwrap_or(EVENTS).to_owned();
            let message = format!("{code}: {message}");
            runs.remember(run, &[(file.as_str(), message.as_str())]);
            progress.damaged.push(Damaged { run_id: run, file, message });
            return Ok(());
        }
        Err(failure) => return Err(failure),
    };
    let found = files_in(run, &report);
    runs.remember(run, &found.iter().map(|it| (it.file.as_str(), it.message.as_str())).collect::<Vec<_>>());
    progress.damaged.extend(found);
    Ok(())
}

/// The damaged files that a report names, each with its first finding.
fn files_in(run: RunId, report: &Report) -> Vec<Damaged> {
    let mut known = BTreeSet::new();
    let first = report.violations.iter().filter(|found| known.insert(found.file.clone()));
    first
        .map(|found| Damaged {
            run_id: run,
            file: found.file.clone(),
            message: format!("{}: {}", found.rule, found.message),
        })
        .collect()
}

fn size(folder: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(folder) else { return 0 };
    let sizes = entries.flatten().map(|entry| match entry.metadata() {
        Ok(found) if found.is_dir() => size(&entry.path()),
        Ok(found) => found.len(),
        Err(_) => 0,
    });
    sizes.sum()
}

fn told(runs: u64, by_earlier: u64, damaged: &[Damaged], look: Look) -> String {
    let mut lines: Vec<String> = damaged
        .iter()
        .map(|it| {
            format!("run {} {}: {}", it.run_id, look.paint(Ink::Bad, &harmless_name(&it.file)), harmless(&it.message))
        })
        .collect();
    let by = if by_earlier > 0 { format!(", of them {by_earlier} by an earlier command") } else { String::new() };
    lines.push(match damaged.len() {
        0 => format!("{runs} runs checked{by}: {}", look.paint(Ink::Good, "ok")),
        many => format!("{runs} runs checked{by}: {}", look.paint(Ink::Bad, &format!("{many} damaged files"))),
    });
    lines.join("\n")
}
