//! `export`: a finished run as one file.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use serde_json::json;

use crate::cli::connect::runs::Runs;
use crate::cli::failure::Failure;
use crate::cli::global::Global;
use crate::cli::logging;
use crate::cli::terminal::output;
use crate::domain::ids::RunId;
use crate::export::Export;
use crate::files::{Unnamed, WithinRoom};
use crate::settings::LogLevel;

/// Writes a finished run to one file, for `audit` and `replay` on any machine
///
/// The file is a zip with the log, the raw streams, the artifacts, the result, the prompt, the inputs and a list of
/// hashes. The same run always gives the same bytes. A run that has not ended is refused, because only its last event
/// proves the log. Uploaded files and the skill itself are not included.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  skill-runner export last -o run.zip")]
pub(crate) struct Args {
    /// Id of the run, its first characters, or `last`
    id: String,
    /// File to write; an existing file is replaced [default: <run id>.zip]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Print one JSON document about what was written
    #[arg(long)]
    json: bool,
    /// URL of the service to ask [default: the running service of the data directory, else the store]
    #[arg(long, value_name = "URL")]
    server: Option<String>,
}

pub(crate) fn export(global: &Global, args: &Args) -> Result<(), Failure> {
    let settings = global.settings(&[])?;
    logging::to_terminal(LogLevel::Warn);
    let runs = Runs::open(&settings, args.server.as_deref())?;
    let run = runs.resolve(&args.id)?;
    let path = args.output.clone().unwrap_or_else(|| PathBuf::from(format!("{run}.zip")));
    let folder = path.parent().filter(|folder| *folder != Path::new("")).unwrap_or(Path::new("."));
    let writing = || format!("write {}", path.display());
    // Named at the end, so that a partial file never has the final name, and none stays if the command is killed.
    let mut unnamed = Unnamed::for_path(&path, 0o644).map_err(Failure::broken(writing()))?;
    write(&runs, run, unnamed.file(), folder, settings.limits.min_free_bytes)?;
    let export = Export::open(&unnamed.path()).map_err(Failure::broken(writing()))?;
    let (Some(contents), []) = (export.contents(), export.flaws()) else {
        return Err(Failure::Broken(format!("the export of run {run} is not valid; nothing was written")));
    };
    let (files, bytes) = (contents.files.len(), unnamed.file().metadata().map_or(0, |found| found.len()));
    let summary = json!({"run_id": run, "file": path, "bytes": bytes, "events": contents.events, "contents": contents});
    unnamed.give_name().map_err(Failure::broken(writing()))?;
    if args.json {
        return output::json(&summary);
    }
    output::line(&format!("{}: {files} files, {bytes} bytes", path.display()))
}

/// What a service sends is written as long as the disk keeps its room.
fn write(runs: &Runs, run: RunId, file: &mut File, folder: &Path, least_free: u64) -> Result<(), Failure> {
    match runs {
        Runs::Service(client) => {
            let mut answer = client.export(run)?;
            let mut within = WithinRoom::new(file, folder, least_free);
            io::copy(&mut answer, &mut within).map(drop).map_err(Failure::broken("read the service's answer"))
        }
        Runs::Store(offline) => {
            let mut out = BufWriter::with_capacity(256 * 1024, file);
            offline.wait(offline.log.export(run))?.write(&mut out)?;
            out.flush().map_err(Failure::broken("write the export"))
        }
    }
}
