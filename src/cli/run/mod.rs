//! `run`: one run from start to end, with its events as they come and its result at the end.

mod backend;
mod conversation;
mod embedded;
mod outcome;
mod remote;
mod request;
mod upload;

use std::sync::Arc;

use super::failure::Failure;
use super::global::Global;
use super::screen::Screen;
use super::stop::{INTERRUPTED, Stop};
use super::{output, runtime};
use crate::domain::statechart::Status;
use crate::settings::Settings;
use backend::Backend;
use request::{KeyValue, Wanted};

/// Runs one skill and shows its result
///
/// Uses the running service of the data directory where there is one, else runs the skill itself. Ctrl-C cancels
/// the run; a second Ctrl-C ends at once.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
A value is read as JSON where it is JSON, else as text: n=3 is a number, n='\"3\"' and n=three are texts.

Examples:
  skill-runner run demo-echo --input text='to be or not to be'
  skill-runner run ./skills/demo-prime-number --file input_file=./numbers.txt --param divisor=3 --json
  skill-runner run demo-interview --interactive")]
pub(super) struct Args {
    /// The id of an installed skill, or the path of a skill's folder (with a `/`, such as ./my-skill)
    skill: String,
    /// The engine [default: the skill's first that is ready]
    #[arg(long)]
    engine: Option<String>,
    /// The engine's model
    #[arg(long)]
    model: Option<String>,
    /// An input
    #[arg(long, value_name = "KEY=VALUE")]
    input: Vec<KeyValue>,
    /// A file for an input
    #[arg(long, value_name = "KEY=PATH")]
    file: Vec<KeyValue>,
    /// A parameter
    #[arg(long, value_name = "KEY=VALUE")]
    param: Vec<KeyValue>,
    /// Let the engine ask: its questions are shown, and answered line by line on standard input
    #[arg(long)]
    interactive: bool,
    /// Keep and bundle everything, and tell the skill so
    #[arg(long)]
    debug: bool,
    /// Neither take the result of an equal run nor keep this one for others
    #[arg(long)]
    no_cache: bool,
    /// Seconds an attempt may run [default: the skill's own limit]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    timeout: Option<u64>,
    /// One JSON document on standard output, the job with its result; everything else on standard error
    #[arg(long)]
    json: bool,
    /// The service to use [default: the one of the data directory, where it runs]
    #[arg(long, value_name = "URL")]
    server: Option<String>,
}

/// Runs the skill.
pub(super) fn run(global: &Global, args: Args) -> Result<(), Failure> {
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
    let zip = upload::zip(&wanted.files)?;
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
