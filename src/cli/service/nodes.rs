//! `nodes`: lists the services that share one store. `drain`: lets one of them start no more runs.

use serde_json::Value;

use crate::cli::connect::service_address::service;
use crate::cli::failure::Failure;
use crate::cli::global::Global;
use crate::cli::logging;
use crate::cli::terminal::look::harmless;
use crate::cli::terminal::{output, table};
use crate::settings::LogLevel;

/// Lists the services that share the store of a running service
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  skill-runner nodes --server http://127.0.0.1:8000")]
pub(crate) struct NodesArgs {
    /// Print the service's answer as one JSON document
    #[arg(long)]
    json: bool,
    /// URL of the service to ask [default: the running service of the data directory]
    #[arg(long, value_name = "URL")]
    server: Option<String>,
}

/// Lets a service that shares its store with others start no more runs
///
/// Runs that it works on go on, and it answers requests as before. When `skill-runner nodes` shows that it runs nothing, it can be
/// stopped without a run being interrupted.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  skill-runner drain worker-1\n  skill-runner drain worker-1 --undo")]
pub(crate) struct DrainArgs {
    /// Name or id of the service, as `skill-runner nodes` shows it [default: the service that is asked]
    node: Option<String>,
    /// Let it start runs again
    #[arg(long)]
    undo: bool,
    /// Print the service's answer as one JSON document
    #[arg(long)]
    json: bool,
    /// URL of the service to ask [default: the running service of the data directory]
    #[arg(long, value_name = "URL")]
    server: Option<String>,
}

pub(crate) fn nodes(global: &Global, args: &NodesArgs) -> Result<(), Failure> {
    let settings = global.settings(&[])?;
    logging::to_terminal(LogLevel::Warn);
    let answer = service(&settings, args.server.as_deref())?.nodes()?;
    if args.json {
        return output::json(&answer);
    }
    let nodes = listed(&answer);
    if nodes.is_empty() {
        return output::line("the service has its store alone; set store and blobs to let several share one");
    }
    let mut rows = vec![["name", "id", "version", "runs", "state", "address"].map(str::to_owned).to_vec()];
    rows.extend(nodes.into_iter().map(row));
    table::lines(&rows, table::columns()).iter().try_for_each(|line| output::line(line))?;
    match answer["warning"].as_str() {
        Some(warning) => output::line(&format!("warning: {}", harmless(warning))),
        None => Ok(()),
    }
}

pub(crate) fn drain(global: &Global, args: &DrainArgs) -> Result<(), Failure> {
    let settings = global.settings(&[])?;
    logging::to_terminal(LogLevel::Warn);
    let client = service(&settings, args.server.as_deref())?;
    let (id, name) = chosen(&client.nodes()?, args.node.as_deref())?;
    let answer = client.drain(&id, !args.undo)?;
    if args.json {
        return output::json(&answer);
    }
    let now = if args.undo { "starts runs again" } else { "starts no more runs" };
    output::line(&format!("{} {now}", harmless(&name)))
}

/// The id and name of the service that is meant.
fn chosen(answer: &Value, wanted: Option<&str>) -> Result<(String, String), Failure> {
    let fits = |node: &Value| match wanted {
        Some(wanted) => text(node, "name") == wanted || text(node, "node_id") == wanted,
        None => node["answers_this_request"] == true,
    };
    let found: Vec<&Value> = listed(answer).into_iter().filter(|node| node["alive"] == true && fits(node)).collect();
    match (found.as_slice(), wanted) {
        ([one], _) => Ok((text(one, "node_id"), text(one, "name"))),
        ([], Some(wanted)) => {
            Err(Failure::NotFound(format!("no service is called {wanted:?}; `skill-runner nodes` lists the services")))
        }
        ([], None) => Err(Failure::NotFound(
            "the service has its store alone, so there is nobody to take its runs; stop it instead".to_owned(),
        )),
        (several, _) => Err(Failure::Usage(format!(
            "{} services have this name; give an id that `skill-runner nodes` shows",
            several.len()
        ))),
    }
}

fn listed(answer: &Value) -> Vec<&Value> {
    answer["nodes"].as_array().map(|nodes| nodes.iter().collect()).unwrap_or_default()
}

fn text(node: &Value, key: &str) -> String {
    node[key].as_str().unwrap_or_default().to_owned()
}

fn row(node: &Value) -> Vec<String> {
    let state = match (node["alive"] == true, node["draining"] == true, node["works"] == true) {
        (false, _, _) => "gone",
        (true, _, false) => "answers requests only",
        (true, true, true) => "draining",
        (true, false, true) => "works",
    };
    let runs = format!("{} of {}", node["running"], node["slots"]);
    let own = if node["answers_this_request"] == true { " *" } else { "" };
    let shown = |key| harmless(&text(node, key));
    vec![
        format!("{}{own}", shown("name")),
        shown("node_id"),
        shown("version"),
        runs,
        state.to_owned(),
        shown("address"),
    ]
}
