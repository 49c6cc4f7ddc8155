//! `backup`: a copy of the data folder, made by its running service or without one.

use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};

use crate::cli::connect::client::Client;
use crate::cli::connect::runs::Runs;
use crate::cli::failure::Failure;
use crate::cli::global::Global;
use crate::cli::logging;
use crate::cli::terminal::look::Look;
use crate::cli::terminal::output;
use crate::orchestrator::{Clock, Copied, WallClock, back_up, check_backup_name};
use crate::settings::LogLevel;

/// Pause between two looks at a backup.
const LOOK_AGAIN: Duration = Duration::from_millis(200);

/// Makes a backup of the data folder, from which a service can be started
///
/// Everything that was acknowledged before it begins is in it: runs with their logs and files, tokens, keys, logins. The
/// running service of the data folder makes it without a pause; without one, this command does. It appears whole or not at all.
/// Skills, the configuration file, installed engines and Python packages are not in it.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Backups are folders below backup_dir, by default the folder `backups` beside the data folder. To restore one, copy it to
where the data folder was and start the service.

Examples:
  skill-runner backup
  skill-runner backup before-upgrade
  skill-runner serve --data-dir backups/before-upgrade")]
pub(crate) struct Args {
    /// Name of the backup [default: the time]
    name: Option<String>,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

pub(crate) fn backup(global: &Global, args: &Args) -> Result<(), Failure> {
    logging::to_terminal(LogLevel::Warn);
    let settings = global.settings(&[])?;
    let now = WallClock.now();
    let usual = || now.to_string().chars().take(19).map(|c| if c == ':' { '-' } else { c }).collect();
    let name: String = args.name.clone().unwrap_or_else(usual);
    check_backup_name(&name)?;
    let (folder, copied) = match Runs::open(&settings, None)? {
        Runs::Service(client) => by_service(&client, &name)?,
        Runs::Store(offline) => {
            let folder = settings.paths.backup_dir.join(&name);
            let floor = settings.limits.min_free_bytes;
            let copied = offline.wait(back_up(&offline.log, &folder, now, floor, &|_| {}, &|| false, None))?;
            (folder, copied)
        }
    };
    let Copied { runs, bytes } = copied;
    if args.json {
        return output::line(&json!({"folder": folder, "runs": runs, "bytes": bytes}).to_string());
    }
    output::line(&format!("backed up {runs} runs, {bytes} bytes, to {}", folder.display()))
}

/// Has the service make it, and waits until it is there.
fn by_service(client: &Client, name: &str) -> Result<(PathBuf, Copied), Failure> {
    let mut backup = client.begin_backup(name)?;
    let id = backup["backup_id"].as_str().unwrap_or_default().to_owned();
    let shows = Look::of(&std::io::stderr()).live;
    loop {
        let number = |key: &str| backup[key].as_u64().unwrap_or(0);
        let copied = Copied { runs: number("runs"), bytes: number("bytes") };
        match backup["status"].as_str() {
            Some("succeeded") => {
                if shows {
                    let _ = writeln!(std::io::stderr());
                }
                return Ok((PathBuf::from(backup["folder"].as_str().unwrap_or_default()), copied));
            }
            Some("running") => {
                if shows {
                    let _ = write!(std::io::stderr(), "\r{} runs, {} bytes ", copied.runs, copied.bytes);
                }
            }
            _ => return Err(Failure::Broken(told(&backup["error"]))),
        }
        std::thread::sleep(LOOK_AGAIN);
        backup = client.backup(&id)?;
    }
}

fn told(error: &Value) -> String {
    format!("the backup failed: {}", error.as_str().unwrap_or("the service does not say why"))
}
