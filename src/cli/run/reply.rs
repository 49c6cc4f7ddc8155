//! `reply`: answers the open question of a run of a running service.

use std::io::BufRead;

use serde_json::Value;

use crate::cli::connect::calls::{Pending, Reply};
use crate::cli::connect::service_address::{run_of, service};
use crate::cli::failure::Failure;
use crate::cli::global::Global;
use crate::cli::logging;
use crate::cli::terminal::dialogue::{Dialogue, Heard, as_value, response};
use crate::cli::terminal::fold::to_stderr;
use crate::cli::terminal::output;
use crate::domain::codes::ErrorCode;
use crate::domain::interaction::{Interaction, InteractionId};
use crate::settings::LogLevel;

/// Answers the open question of a run
///
/// Without RESPONSE, the question is shown and the answer is read from standard input. Choose an option by its number,
/// label or value; an answer with several fields is a JSON object.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  skill-runner reply last
  skill-runner reply last blue --key my-answer-1")]
pub(crate) struct Args {
    /// Id of the run, its first characters, or `last`
    id: String,
    /// The answer: JSON if it can be parsed as JSON, else text
    response: Option<String>,
    /// Number of the question [default: the open one]
    #[arg(long, value_name = "N")]
    interaction: Option<u64>,
    /// Idempotency key: an answer that is sent again with the same key is accepted only once
    #[arg(long)]
    key: Option<String>,
    /// Print the service's answer as one JSON document
    #[arg(long)]
    json: bool,
    /// URL of the service to ask [default: the running service of the data directory]
    #[arg(long, value_name = "URL")]
    server: Option<String>,
}

pub(crate) fn reply(global: &Global, args: Args) -> Result<(), Failure> {
    let settings = global.settings(&[])?;
    logging::to_terminal(LogLevel::Warn);
    let client = service(&settings, args.server.as_deref())?;
    let run = run_of(&client, &args.id)?;
    let Pending { status, pending } = client.pending(run)?;
    // The service refuses an answer to another question; here it is only parsed.
    let open = pending.filter(|open| args.interaction.is_none_or(|named| open.interaction_id == InteractionId(named)));
    let (id, response) = match (open, args.interaction, args.response) {
        (Some(open), _, Some(text)) => (open.interaction_id.0, response(&open, &text)),
        (Some(open), _, None) => (open.interaction_id.0, asked(open)?),
        (None, Some(named), Some(text)) => (named, as_value(&text)),
        (None, _, _) => {
            return Err(Failure::refused(
                ErrorCode::InteractionNotPending,
                format!("the run has no open question with this number (its status is {})", status.as_str()),
            ));
        }
    };
    let answer = client.reply(run, Reply { question: InteractionId(id), response, key: args.key })?;
    if args.json {
        return output::json(&answer);
    }
    output::line(&format!("the answer to question {id} is accepted; the run goes on"))
}

/// Shows the question on standard error and reads its answer.
fn asked(question: Interaction) -> Result<Value, Failure> {
    let mut dialogue = Dialogue::new(question);
    to_stderr(&dialogue.shown());
    for line in std::io::stdin().lock().lines() {
        match dialogue.hear(&line.map_err(Failure::broken("read standard input"))?) {
            Heard::Answer(response) => return Ok(response),
            Heard::More(text) => to_stderr(&text),
        }
    }
    Err(Failure::Usage("standard input ended before the question was answered".to_owned()))
}
