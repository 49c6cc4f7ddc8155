//! The commands and their flags, and what each one calls.

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

use crate::cli::e2e_client::command as e2e_client;
use crate::cli::engines;
use crate::cli::global::Global;
use crate::cli::inspect::{audit, backup, explain, export, history, key, logs, migrate, reparse, replay, verify};
use crate::cli::run::{self, cancel, reply, rerun, watch};
use crate::cli::runs::{list, remove, result, show};
use crate::cli::service::{config, doctor, generate, nodes, serve, token};
use crate::cli::skill;

/// Runs agent skills and keeps every fact of a run in an append-only log.
#[derive(Debug, Parser)]
#[command(name = "skill-runner", version, after_help = AFTER_HELP)]
struct Cli {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    command: Command,
}

const AFTER_HELP: &str = "\
Settings come from skill-runner.yaml (or --config), SKILL_RUNNER_* variables and flags; later ones win.

Exit status:
  0 success, 1 the run or check failed, 2 wrong usage or configuration,
  3 the service cannot be reached, 4 not found, 5 refused input, 130 interrupted

Example:
  skill-runner run demo-echo --input text='to be or not to be'";

#[derive(Debug, Subcommand)]
enum Command {
    Serve(serve::Args),
    Worker(serve::WorkerArgs),
    Run(run::Args),
    Rerun(rerun::Args),
    Watch(watch::Args),
    Reply(reply::Args),
    Cancel(cancel::Args),
    Runs(list::Args),
    Show(show::Args),
    Result(result::Args),
    Rm(remove::Args),
    Logs(logs::Args),
    History(history::Args),
    Audit(audit::Args),
    Verify(verify::Args),
    Backup(backup::Args),
    Migrate(migrate::Args),
    Key(key::Args),
    Token(token::Args),
    Nodes(nodes::NodesArgs),
    Drain(nodes::DrainArgs),
    Export(export::Args),
    Explain(explain::Args),
    Skill(skill::Args),
    Engines(engines::Args),
    Doctor(doctor::Args),
    Config(config::Args),
    Completions(generate::CompletionsArgs),
    Man(generate::ManArgs),
    Replay(replay::Args),
    Reparse(reparse::Args),
    E2eClient(e2e_client::Args),
}

/// Parses the command line, runs the command, and returns its exit status.
pub fn main() -> ExitCode {
    let Cli { global, command } = Cli::parse();
    let done = match command {
        Command::Serve(args) => serve::serve(&global, &args),
        Command::Worker(args) => serve::work(&global, &args),
        Command::Run(args) => run::run(&global, args),
        Command::Rerun(args) => rerun::rerun(&global, args),
        Command::Watch(args) => watch::watch(&global, &args),
        Command::Reply(args) => reply::reply(&global, args),
        Command::Cancel(args) => cancel::cancel(&global, &args),
        Command::Runs(args) => list::list(&global, args),
        Command::Show(args) => show::show(&global, &args),
        Command::Result(args) => result::result(&global, &args),
        Command::Rm(args) => remove::remove(&global, &args),
        Command::Logs(args) => logs::logs(&global, &args),
        Command::History(args) => history::history(&global, &args),
        Command::Audit(args) => audit::audit(&global, &args),
        Command::Verify(args) => verify::verify(&global, &args),
        Command::Backup(args) => backup::backup(&global, &args),
        Command::Migrate(args) => migrate::migrate(&global, &args),
        Command::Key(args) => key::key(&global, &args),
        Command::Token(args) => token::token(&global, args),
        Command::Nodes(args) => nodes::nodes(&global, &args),
        Command::Drain(args) => nodes::drain(&global, &args),
        Command::Export(args) => export::export(&global, &args),
        Command::Explain(args) => explain::explain(&global, &args),
        Command::Skill(args) => skill::skill(&global, &args),
        Command::Engines(args) => engines::engines(&global, &args),
        Command::Doctor(args) => doctor::doctor(&global, &args),
        Command::Config(args) => config::config(&global, &args),
        Command::Completions(args) => generate::completions(Cli::command(), &args),
        Command::Man(args) => generate::man(Cli::command(), &args),
        Command::Replay(args) => replay::replay(&global, &args),
        Command::Reparse(args) => reparse::reparse(&global, &args),
        Command::E2eClient(args) => e2e_client::serve(&global, args),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}
