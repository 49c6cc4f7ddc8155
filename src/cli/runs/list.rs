//! `runs`: which runs there are, newest first.

use std::io::{self, IsTerminal};

use serde_json::{Value, json};

use crate::cli::connect::runs::Runs;
use crate::cli::failure::Failure;
use crate::cli::global::Global;
use crate::cli::logging;
use crate::cli::run::KeyValue;
use crate::cli::runs::table;
use crate::cli::terminal::look::columns;
use crate::cli::terminal::output;
use crate::cli::time_span;
use crate::domain::statechart::Status;
use crate::domain::time::Timestamp;
use crate::orchestrator::{Clock, ListFilter, WallClock};
use crate::settings::LogLevel;
use crate::store::RunFilter;

/// Lists runs, newest first
///
/// A table on a terminal; elsewhere one line per run, its values separated by tabs.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  skill-runner runs --status failed --since 2h
  skill-runner runs --skill demo-echo --label team=search")]
pub(crate) struct Args {
    /// Only runs with this status: queued, running, waiting_user, succeeded, failed or canceled
    #[arg(long)]
    status: Option<String>,
    /// Only runs of this skill
    #[arg(long, value_name = "ID")]
    skill: Option<String>,
    /// Only runs on this engine
    #[arg(long)]
    engine: Option<String>,
    /// Only runs created since then: a time such as 2026-11-16T01:02:03Z, or how long ago: 30s, 15m, 2h, 7d
    #[arg(long, value_name = "WHEN")]
    since: Option<String>,
    /// Only runs with this label; repeat for more
    #[arg(long, value_name = "KEY=VALUE")]
    label: Vec<KeyValue>,
    /// How many runs to list
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=500))]
    limit: u64,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
    /// URL of the service to ask [default: the running service of the data directory, else the store]
    #[arg(long, value_name = "URL")]
    server: Option<String>,
}

pub(crate) fn list(global: &Global, args: Args) -> Result<(), Failure> {
    let settings = global.settings(&[])?;
    logging::to_terminal(LogLevel::Warn);
    let now = WallClock.now();
    let filter = ListFilter {
        runs: RunFilter {
            status: args.status.as_deref().map(status).transpose()?,
            skill_id: args.skill,
            engine: args.engine,
            labels: args.label.into_iter().map(|pair| (pair.key, pair.value)).collect(),
            since: args.since.as_deref().map(|text| since(text, now)).transpose()?,
            ..RunFilter::default()
        },
        before: None,
        limit: usize::try_from(args.limit).unwrap_or(usize::MAX),
    };
    let listed = match Runs::open(&settings, args.server.as_deref()) {
        Ok(Runs::Service(client)) => client.jobs(&filter)?.document,
        Ok(Runs::Store(offline)) => {
            json!({"jobs": offline.wait(offline.log.list(&filter))?.jobs})
        }
        // A data folder that nobody has used has no runs.
        Err(Failure::NotFound(_)) => json!({"jobs": []}),
        Err(failure) => return Err(failure),
    };
    if args.json {
        return output::json(&listed);
    }
    let jobs: Vec<&Value> = listed["jobs"].as_array().into_iter().flatten().collect();
    if !io::stdout().is_terminal() {
        return jobs.into_iter().try_for_each(|job| output::line(&table::separated(job)));
    }
    if jobs.is_empty() {
        return output::line("no runs");
    }
    output::line(&table::table(&jobs, now, columns(&io::stdout())))
}

fn status(text: &str) -> Result<Status, Failure> {
    Status::ALL.into_iter().find(|status| status.as_str() == text).ok_or_else(|| {
        let names: Vec<&str> = Status::ALL.iter().map(|status| status.as_str()).collect();
        Failure::Usage(format!("--status must be one of {}, not {text:?}", names.join(", ")))
    })
}

/// A time, or how long ago it was.
fn since(text: &str, now: Timestamp) -> Result<Timestamp, Failure> {
    let ago = time_span::seconds(text).map(|seconds| now.minus_seconds(seconds));
    ago.or_else(|| text.parse().ok()).ok_or_else(|| {
        Failure::Usage(format!(
            "--since {text:?} is neither a time such as 2026-11-16T01:02:03Z nor how long ago, such as 30s, 15m, 2h or 7d"
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn since_is_a_time_or_how_long_ago_it_was() {
        let now = Timestamp::from_micros(1_000_000_000_000_000);
        let seconds = |text: &str| since(text, now).ok().map(|time| (now.as_micros() - time.as_micros()) / 1_000_000);
        assert_eq!(
            [seconds("30s"), seconds("15m"), seconds("2h"), seconds("7d")].map(Option::unwrap),
            [30, 900, 7200, 604_800]
        );
        assert_eq!(since("2001-09-09T01:46:39Z", now).ok().map(Timestamp::as_micros), Some(999_999_999_000_000));
        for wrong in ["", "s", "2", "2w", "-1h", "yesterday", "ä"] {
            assert!(matches!(since(wrong, now), Err(Failure::Usage(_))), "{wrong}");
        }
    }
}
