//! `engines`: lists the agent CLIs with version, login and models, and installs them.

use std::io::{self, Write};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::cli::connect::service_address::running_service;
use crate::cli::failure::Failure;
use crate::cli::global::Global;
use crate::cli::logging;
use crate::cli::terminal::fold::to_stderr;
use crate::cli::terminal::look::{Ink, Look, harmless};
use crate::cli::terminal::output;
use crate::cli::terminal::wrap;
use crate::domain::codes::Exit;
use crate::domain::engine::Engine;
use crate::engine::{self, Adapter};
use crate::installed_engines::{InstalledEngines, Models, Status, Upgrade, UpgradeStatus};
use crate::orchestrator::{self, IsolationHere};
use crate::settings::{LogLevel, Settings};

/// Pause between two reads of the log of an installation.
const POLL: Duration = Duration::from_millis(100);

/// Lists the agent CLIs of this machine with version, login and models, or installs them
///
/// If a service runs on the data directory, it is asked, because its PATH and its environment decide.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  skill-runner engines\n  skill-runner engines --install codex")]
pub(crate) struct Args {
    /// Print one JSON document
    #[arg(long)]
    json: bool,
    /// Install an engine, or `all`, with npm into the folder npm_prefix
    #[arg(long, value_name = "NAME", conflicts_with = "models")]
    install: Option<String>,
    /// List the models of an engine
    #[arg(long, value_name = "NAME")]
    models: Option<String>,
}

pub(crate) fn engines(global: &Global, args: &Args) -> Result<(), Failure> {
    logging::to_terminal(LogLevel::Warn);
    let settings = global.settings(&[])?;
    match (&args.install, &args.models) {
        (Some(name), _) => install(&InstalledEngines::new(&settings), name, args.json),
        (None, Some(name)) => models(&settings, by_name(name)?, args.json),
        (None, None) => list(&settings, args.json),
    }
}

fn by_name(name: &str) -> Result<&'static Adapter, Failure> {
    engine::adapter_named(name).ok_or_else(|| {
        let names = Engine::names(Engine::AGENTS);
        Failure::Usage(format!("no engine has the name {name:?}; the engines are {names}"))
    })
}

/// The engines as the running service sees them, else as this process does.
pub(crate) fn statuses(settings: &Settings) -> Result<Value, Failure> {
    match running_service(settings) {
        Some(client) => client.engines(),
        None => {
            let confinement = orchestrator::confinement(settings);
            let all = InstalledEngines::new(settings).statuses().into_iter().map(|status: Status| {
                let engine = engine::adapter(status.engine);
                let mut told = json!(status);
                told["isolation"] = json!(IsolationHere::of(settings.runs.sandbox, &confinement, engine));
                told
            });
            Ok(all.collect())
        }
    }
}

fn list(settings: &Settings, as_json: bool) -> Result<(), Failure> {
    let statuses = statuses(settings)?;
    if as_json {
        return output::json(&json!({ "engines": statuses }));
    }
    let look = Look::of(&io::stdout());
    for status in statuses.as_array().into_iter().flatten() {
        let text = |key: &str| harmless(status[key].as_str().unwrap_or_default());
        let (installed, ready) = (status["installed"] == true, status["auth_ready"] == true);
        let version =
            if installed { or(text("cli_version_detected"), "version unknown") } else { "missing".to_owned() };
        let ink = if installed { Ink::Good } else { Ink::Bad };
        let login = if ready { look.paint(Ink::Good, "ready") } else { look.paint(Ink::Caution, "no login") };
        let sunset = if text("state") == "sunset" { " (sunset)" } else { "" };
        output::line(&format!("{:<9} {} {login}{sunset}", text("engine"), look.paint(ink, &format!("{version:<16}"))))?;
        let more = if installed {
            [text("program"), String::new(), text("auth_detail")]
        } else {
            [text("problem"), text("advice"), String::new()]
        };
        for line in more.iter().filter(|line| !line.is_empty()) {
            wrap::line(&look.paint(Ink::Dim, &format!("          {line}")), 10)?;
        }
    }
    // The same for all of them.
    match statuses[0]["isolation"]["reason"].as_str() {
        Some(reason) => {
            wrap::line(&look.paint(Ink::Caution, &format!("runs are not confined: {}", harmless(reason))), 2)
        }
        None => Ok(()),
    }
}

fn or(text: String, otherwise: &str) -> String {
    if text.is_empty() { otherwise.to_owned() } else { text }
}

fn models(settings: &Settings, adapter: &'static Adapter, as_json: bool) -> Result<(), Failure> {
    let listed = match running_service(settings) {
        Some(client) => client.models(adapter.name())?,
        None => {
            let models: Models = InstalledEngines::new(settings).models(adapter);
            json!(models)
        }
    };
    if as_json {
        return output::json(&listed);
    }
    if let Some(reason) = listed["fallback_reason"].as_str() {
        to_stderr(&format!("note: {}", harmless(reason)));
    }
    for model in listed["models"].as_array().into_iter().flatten() {
        output::line(&harmless(model["id"].as_str().unwrap_or_default()))?;
    }
    Ok(())
}

fn install(installed: &InstalledEngines, name: &str, as_json: bool) -> Result<(), Failure> {
    let engines = if name == "all" { InstalledEngines::installable() } else { vec![by_name(name)?] };
    let upgrade = installed.upgrade(&engines).map_err(Failure::broken("install"))?;
    let ended = follow(installed, upgrade)?;
    if as_json {
        output::json(&ended)?;
    } else {
        say(&ended)?;
    }
    if ended.status == UpgradeStatus::Succeeded { Ok(()) } else { Err(Failure::Reported(Exit::Failed)) }
}

/// Shows npm's output on standard error until the installation ends.
fn follow(installed: &InstalledEngines, begun: Upgrade) -> Result<Upgrade, Failure> {
    let id = begun.upgrade_id;
    let mut shown = 0;
    loop {
        // First the status, then the log: what was written before the end is then shown, too.
        let upgrade = installed.upgrade_of(id).map_err(Failure::broken("read the upgrade"))?.unwrap_or(begun.clone());
        let log = installed.upgrade_log(id, shown).map_err(Failure::broken("read the upgrade's log"))?;
        shown += log.len() as u64;
        // The installation goes on though nobody reads along.
        let _ = write!(io::stderr(), "{}", harmless(&String::from_utf8_lossy(&log)));
        match log.is_empty() {
            true if upgrade.status.is_final() => return Ok(upgrade),
            true => thread::sleep(POLL),
            // A piece of it; there may be more.
            false => {}
        }
    }
}

fn say(upgrade: &Upgrade) -> Result<(), Failure> {
    let look = Look::of(&io::stdout());
    for (engine, result) in &upgrade.results {
        let message = result.message.as_deref().map(|message| format!(": {}", harmless(message))).unwrap_or_default();
        let line = match result.status {
            UpgradeStatus::Succeeded => {
                let version = result.cli_version_detected.as_deref().unwrap_or_default();
                look.paint(Ink::Good, &format!("{engine} {version} is installed{message}"))
            }
            UpgradeStatus::Failed | UpgradeStatus::Queued | UpgradeStatus::Running => {
                look.paint(Ink::Bad, &format!("{engine} is not installed{message}"))
            }
        };
        output::line(&line)?;
    }
    Ok(())
}
