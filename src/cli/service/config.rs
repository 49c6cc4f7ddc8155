//! `config`: every setting with its value, where it comes from and what it is for; `config init` writes a file of them.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};

use serde_json::json;

use crate::cli::failure::Failure;
use crate::cli::global::{Global, USUAL_FILE};
use crate::cli::service::engine_config;
use crate::cli::terminal::output;
use crate::cli::terminal::wrap;
use crate::settings::{Settings, about, listed, variable};

/// Shows every setting with its value, its source, its variable and what it is for; secrets are masked
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  SKILL_RUNNER_PORT=9000 skill-runner config\n  skill-runner config --engine codex\n  skill-runner config init"
)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Option<Action>,
    /// Show what this engine is configured with, and who set each value
    #[arg(long, value_name = "NAME")]
    engine: Option<String>,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Writes a configuration file with every setting, its default and what it is for, all as comments
    ///
    /// An existing file is not changed.
    #[command(after_help = "Example:\n  skill-runner config init")]
    Init {
        /// The file
        #[arg(value_name = "FILE", default_value = USUAL_FILE)]
        file: PathBuf,
    },
}

pub(crate) fn config(global: &Global, args: &Args) -> Result<(), Failure> {
    if let Some(Action::Init { file }) = &args.action {
        return init(file);
    }
    let settings = global.settings(&[])?;
    if let Some(engine) = &args.engine {
        return engine_config::show(&settings, engine, args.json);
    }
    let described = settings.describe();
    if args.json {
        return output::json(&json!({ "settings": listed(described) }));
    }
    let width = |text: fn(&crate::settings::Described) -> &str| {
        described.iter().map(|found| text(found).chars().count()).max().unwrap_or_default()
    };
    let (keys, values) = (width(|found| &found.key), width(|found| &found.value));
    for found in described {
        wrap::line(&format!("{:<keys$}  {:<values$}  {}", found.key, found.value, found.source), 4)?;
        wrap::line(&format!("    {} ({})", about(&found.key), variable(&found.key)), 4)?;
    }
    Ok(())
}

fn init(file: &Path) -> Result<(), Failure> {
    let mut opened =
        OpenOptions::new().write(true).create_new(true).open(file).map_err(|error| match error.kind() {
            std::io::ErrorKind::AlreadyExists => {
                Failure::Usage(format!("{} already exists; nothing was written", file.display()))
            }
            _ => Failure::Usage(format!("{} cannot be written: {error}", file.display())),
        })?;
    let written = opened.write_all(commented().as_bytes());
    written.map_err(Failure::broken(format!("write {}", file.display())))?;
    output::line(&format!("{} has every setting as a comment; remove the # of those that you change", file.display()))
}

/// Every setting with its default, as comments.
fn commented() -> String {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let defaults = Settings::load(None, &BTreeMap::new(), &[], cores);
    let mut text = String::from(
        "# Configuration of skill-runner. Environment variables and flags win over this file.\n\
         # `skill-runner config` shows the values in force and where each comes from.\n",
    );
    let mut engine = None;
    for found in defaults.iter().flat_map(Settings::describe) {
        let head = format!("{} ({})", about(&found.key), variable(&found.key));
        let value = if found.value.contains(' ') || found.value == "none" { "" } else { found.value.as_str() };
        match found.key.strip_prefix("engines.").and_then(|rest| rest.split_once('.')) {
            None => text.push_str(&format!("\n# {head}\n# {}: {value}", found.key)),
            Some((name, setting)) => {
                if engine.is_none() {
                    text.push_str("\n\n# engines:");
                }
                if engine != Some(name) {
                    text.push_str(&format!("\n#   {name}:"));
                }
                engine = Some(name);
                text.push_str(&format!("\n#     # {head}\n#     {setting}:"));
            }
        }
        if engine.is_none() {
            text.push('\n');
        }
    }
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_has_every_setting_and_changes_none_as_it_is() {
        let text = commented();
        let defaults = Settings::load(None, &BTreeMap::new(), &[], 2).unwrap();
        let read = Settings::load(Some(("file", &text)), &BTreeMap::new(), &[], 2).unwrap();
        assert_eq!(read.describe(), defaults.describe());
        for found in defaults.describe().iter().filter(|found| !found.key.starts_with("engines.")) {
            assert!(text.contains(&format!("\n# {}:", found.key)), "{}", found.key);
        }
        let changed = text
            .replace("# port: 8000", "port: 9000")
            .replace("# engines:", "engines:")
            .replace("#   codex:", "  codex:");
        let changed = changed.replacen("#     command:", "    command: /bin/true", 1);
        let read = Settings::load(Some(("file", &changed)), &BTreeMap::new(), &[], 2).unwrap();
        assert_eq!(read.http.port, 9000);
    }
}
