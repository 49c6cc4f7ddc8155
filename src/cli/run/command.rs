//! `run`: one run from start to end, with its events while it runs and its result at the end.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::cli::failure::Failure;
use crate::cli::global::Global;
use crate::cli::run::args::Args;
use crate::cli::run::backend::Backend;
use crate::cli::run::in_flags::in_flags;
use crate::cli::run::request::{Asked, Wanted};
use crate::cli::run::{conversation, input_files};
use crate::cli::runtime::runtime;
use crate::cli::stop_signals::Stop;
use crate::cli::terminal::fold::to_stderr;
use crate::cli::terminal::output;
use crate::cli::terminal::screen::{Screen, Shown};
use crate::domain::codes::{ErrorCode, Exit};
use crate::domain::ids::RunId;
use crate::domain::statechart::Status;
use crate::settings::Settings;
use crate::workspace::SentPart;

pub(crate) fn run(global: &Global, args: Args) -> Result<(), Failure> {
    let settings = global.settings(&[])?;
    let told = Told { as_json: args.json, verbose: args.verbose };
    let server = args.server.clone();
    let asked = Asked::New(Wanted::of(args)?);
    carry_out(settings, server.as_deref(), asked, told)
}

/// Makes the run and tells about it to its end.
pub(super) fn carry_out(settings: Settings, server: Option<&str>, asked: Asked, told: Told) -> Result<(), Failure> {
    let done = runtime()?.block_on(run_to_its_end(settings, server, asked, told));
    match done {
        Err(failure) if told.as_json => {
            // With --json, an error is printed as JSON, too.
            if let Some(document) = failure.to_json() {
                output::json(&document)?;
            }
            Err(failure)
        }
        done => done,
    }
}

/// How the run is told about.
#[derive(Debug, Clone, Copy)]
pub(super) struct Told {
    pub(super) as_json: bool,
    pub(super) verbose: bool,
}

/// Makes the run and gives it its files. One that cannot have them is not left behind: it would wait for ever.
async fn begin(backend: &Backend, asked: Asked, files: Vec<SentPart>) -> Result<RunId, Failure> {
    let again = matches!(asked, Asked::Again { .. });
    let created = match asked {
        Asked::New(wanted) => backend.create(&wanted).await?,
        Asked::Again { run, patch, .. } => backend.rerun(run, patch).await?,
    };
    let run = created.run_id;
    let refused = if again && created.awaiting_upload {
        let message = "the earlier run never got its files; give them with `skill-runner run SKILL --file KEY=PATH`";
        Some(Failure::refused(ErrorCode::MissingInputFiles, message))
    } else if files.is_empty() {
        None
    } else {
        backend.upload(run, files).await.err()
    };
    let Some(failure) = refused else { return Ok(run) };
    // Why it is not begun matters more than what became of its row.
    let _ = backend.cancel(run, "it did not get its files").await;
    let _ = backend.delete(run).await;
    Err(failure)
}

async fn run_to_its_end(settings: Settings, server: Option<&str>, asked: Asked, told: Told) -> Result<(), Failure> {
    let mut stop = Stop::listen()?;
    let files = match &asked {
        Asked::New(wanted) => input_files::named(&wanted.files)?,
        Asked::Again { .. } => Vec::new(),
    };
    let backend = tokio::select! {
        opened = Backend::open(settings, server, asked.skill()) => Arc::new(opened?),
        // It may wait for another process.
        _ = stop.next() => return Err(Failure::Reported(Exit::Interrupted)),
    };
    let run = match begin(&backend, asked, files).await {
        Ok(run) => run,
        Err(failure) => {
            backend.close().await;
            return Err(in_flags(failure));
        }
    };
    let interrupted = Arc::new(AtomicBool::new(false));
    let (canceler, noted) = (backend.clone(), interrupted.clone());
    let interrupts = tokio::spawn(async move {
        stop.next().await;
        noted.store(true, Ordering::Relaxed);
        to_stderr("canceling the run and waiting for its end; press Ctrl-C again to quit at once");
        tokio::spawn(async move {
            if let Err(failure) = canceler.cancel(run, "interrupted at the command line").await {
                failure.report();
            }
        });
        stop.next().await;
        std::process::exit(Exit::Interrupted.status().into());
    });
    let mut screen = Screen::new(Shown::OnStderr, told.verbose);
    let talked = conversation::follow(&backend, run, &mut screen).await;
    screen.clear();
    let ended = match talked {
        Ok(ended) => ended,
        Err(failure) => {
            backend.close().await;
            return Err(failure);
        }
    };
    let outcome = backend.outcome(run).await;
    backend.close().await;
    interrupts.abort();
    let outcome = match outcome {
        Ok(outcome) => outcome,
        // A service that shuts down fails its runs and is gone at once. The events told that the run failed.
        Err(failure) if ended.is_some_and(|status| status != Status::Succeeded) => {
            failure.report();
            return Err(Failure::Reported(Exit::Failed));
        }
        Err(failure) => return Err(failure),
    };
    screen.say(&outcome.summary(screen.look()));
    if told.as_json {
        output::json(&outcome.document())?;
    } else if let Some(data) = outcome.data() {
        output::line(&data)?;
    }
    match outcome.status() {
        Some(Status::Succeeded) => Ok(()),
        Some(_) | None if interrupted.load(Ordering::Relaxed) => Err(Failure::Reported(Exit::Interrupted)),
        Some(_) | None => Err(Failure::Reported(Exit::Failed)),
    }
}
