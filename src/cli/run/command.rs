//! `run`: one run from start to end, with its events as they come and its result at the end.

use std::sync::Arc;

use crate::cli::failure::Failure;
use crate::cli::global::Global;
use crate::cli::run::args::Args;
use crate::cli::run::backend::Backend;
use crate::cli::run::request::Wanted;
use crate::cli::run::{conversation, input_zip};
use crate::cli::runtime::runtime;
use crate::cli::service::stop_signals::{INTERRUPTED, Stop};
use crate::cli::terminal::output;
use crate::cli::terminal::screen::Screen;
use crate::domain::statechart::Status;
use crate::settings::Settings;

/// Runs the skill.
pub(crate) fn run(global: &Global, args: Args) -> Result<(), Failure> {
    let settings = global.settings(&[])?;
    let as_json = args.json;
    let server = args.server.clone();
    let wanted = Wanted::of(args)?;
    let done = runtime()?.block_on(run_to_its_end(settings, server.as_deref(), wanted, as_json));
    match done {
        Err(failure) if as_json => {
            // Also a refusal is an answer, and whoever asked for JSON gets it as JSON.
            if let Some(document) = failure.to_json() {
                output::json(&document)?;
            }
            Err(failure)
        }
        done => done,
    }
}

async fn run_to_its_end(
    settings: Settings,
    server: Option<&str>,
    wanted: Wanted,
    as_json: bool,
) -> Result<(), Failure> {
    let mut stop = Stop::listen()?;
    let zip = input_zip::zip(&wanted.files)?;
    let backend = Arc::new(Backend::open(settings, server, &wanted.skill).await?);
    let created = backend.create(&wanted).await?;
    let run = created.run_id;
    if let Some(zip) = zip
        && let Err(failure) = backend.upload(run, zip.path().to_owned()).await
    {
        // Without its files the run would wait for ever.
        let _ = backend.cancel(run, "its files were not taken").await;
        backend.close().await;
        return Err(failure);
    }
    let canceler = backend.clone();
    let interrupts = tokio::spawn(async move {
        stop.next().await;
        eprintln!("canceling the run; once more to end at once");
        tokio::spawn(async move {
            if let Err(failure) = canceler.cancel(run, "interrupted at the command line").await {
                failure.say();
            }
        });
        stop.next().await;
        std::process::exit(INTERRUPTED);
    });
    let mut screen = Screen::new(as_json);
    let talked = conversation::follow(&backend, run, &mut screen).await;
    screen.clear();
    if let Err(failure) = talked {
        backend.close().await;
        return Err(failure);
    }
    let outcome = backend.outcome(run).await;
    backend.close().await;
    interrupts.abort();
    let outcome = outcome?;
    if as_json {
        output::json(&outcome.document())?;
    } else {
        output::line(&outcome.told(screen.look()))?;
    }
    if outcome.status() == Some(Status::Succeeded) { Ok(()) } else { Err(Failure::Said) }
}
