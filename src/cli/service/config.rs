//! `config`: every setting, with its value and where it comes from.

use serde_json::json;

use crate::cli::failure::Failure;
use crate::cli::global::Global;
use crate::cli::terminal::output;

/// Shows every setting with its value and where it comes from; secrets are masked
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  SKILL_RUNNER_PORT=9000 skill-runner config")]
pub(crate) struct Args {
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

pub(crate) fn config(global: &Global, args: &Args) -> Result<(), Failure> {
    let settings = global.settings(&[])?;
    let described = settings.describe();
    if args.json {
        let listed: Vec<_> = described
            .iter()
            .map(|found| json!({"key": found.key, "value": found.value, "source": found.source.to_string()}))
            .collect();
        return output::json(&json!({ "settings": listed }));
    }
    let width = |text: fn(&crate::settings::Described) -> &str| {
        described.iter().map(|found| text(found).chars().count()).max().unwrap_or_default()
    };
    let (keys, values) = (width(|found| &found.key), width(|found| &found.value));
    for found in described {
        output::line(&format!("{:<keys$}  {:<values$}  {}", found.key, found.value, found.source))?;
    }
    Ok(())
}
