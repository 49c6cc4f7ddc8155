//! `token`: named tokens that open the service, each with what it allows.

use clap::{Subcommand, ValueEnum};
use serde_json::json;

use crate::cli::connect::data_folder::SharedStore;
use crate::cli::failure::Failure;
use crate::cli::global::Global;
use crate::cli::terminal::{output, table};
use crate::cli::time_span;
use crate::domain::time::Timestamp;
use crate::orchestrator::{
    AccessError, Clock, WallClock, create_shared_token, list_shared_tokens, revoke_shared_token,
};
use crate::settings::Settings;
use crate::workspace::{Layout, NamedToken, Scope, TokenError, create_token, read_tokens, revoke_token};

/// Makes, lists and revokes named tokens that open the service
///
/// Each token has a name, which stands in the log of what was done with it, and a scope. Only its hash is kept, in
/// tokens.json of the data directory, or in the store where several services share one (store and blobs are set): the token
/// itself is shown once, when it is made. A running service, and each of several, knows of a change with its next request. The
/// setting token goes on to work, and allows everything.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  skill-runner token new ci --scope run --expires 90d
  SKILL_RUNNER_TOKEN=$TOKEN skill-runner runs --server http://127.0.0.1:8000
  skill-runner token list
  skill-runner token revoke ci")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Makes a token and prints it, once
    #[command(after_help = "Example:\n  TOKEN=$(skill-runner token new ci --scope run)")]
    New {
        /// Who uses it: a-z, 0-9, '.', '_' and '-'
        name: String,
        /// What it allows; each includes those before it
        #[arg(long, value_enum)]
        scope: ScopeName,
        /// How long it opens the service, such as 12h or 90d; without it, until it is revoked
        #[arg(long)]
        expires: Option<String>,
        /// Print one JSON document
        #[arg(long)]
        json: bool,
    },
    /// Lists the tokens, without their text
    #[command(after_help = "Example:\n  skill-runner token list")]
    List {
        /// Print one JSON document
        #[arg(long)]
        json: bool,
    },
    /// Takes a token back; it opens nothing from the next request on
    #[command(after_help = "Example:\n  skill-runner token revoke ci")]
    Revoke {
        /// The token's name
        name: String,
    },
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum ScopeName {
    /// Look at runs, skills and engines
    Read,
    /// Run installed skills, answer and cancel runs
    Run,
    /// Everything, such as installing skills and engines
    Admin,
}

/// Where the tokens are.
enum Tokens {
    OfFolder(Layout),
    /// Those of all services on a store.
    Shared(Box<SharedStore>),
}

impl Tokens {
    fn of(settings: &Settings) -> Result<Self, Failure> {
        Ok(match SharedStore::open(settings)? {
            Some(store) => Self::Shared(Box::new(store)),
            None => Self::OfFolder(Layout::new(&settings.paths.data_dir)),
        })
    }

    fn create(
        &self,
        name: &str,
        scope: Scope,
        now: Timestamp,
        expires_at: Option<Timestamp>,
    ) -> Result<String, Failure> {
        match self {
            Self::OfFolder(layout) => create_token(layout, name, scope, now, expires_at).map_err(failed),
            Self::Shared(store) => {
                store.wait(create_shared_token(&*store.cluster, name, scope, now, expires_at)).map_err(shared_failed)
            }
        }
    }

    fn list(&self) -> Result<Vec<NamedToken>, Failure> {
        match self {
            Self::OfFolder(layout) => read_tokens(layout).map_err(Failure::broken("read the tokens")),
            Self::Shared(store) => store.wait(list_shared_tokens(&*store.cluster)).map_err(shared_failed),
        }
    }

    fn revoke(&self, name: &str) -> Result<(), Failure> {
        match self {
            Self::OfFolder(layout) => revoke_token(layout, name).map_err(failed),
            Self::Shared(store) => store.wait(revoke_shared_token(&*store.cluster, name)).map_err(shared_failed),
        }
    }
}

pub(crate) fn token(global: &Global, args: Args) -> Result<(), Failure> {
    let settings = global.settings(&[])?;
    match args.command {
        Command::New { name, scope, expires, json } => new(&settings, &name, scope, expires.as_deref(), json),
        Command::List { json } => list(&Tokens::of(&settings)?.list()?, json),
        Command::Revoke { name } => Tokens::of(&settings)?.revoke(&name),
    }
}

fn new(settings: &Settings, name: &str, scope: ScopeName, expires: Option<&str>, json: bool) -> Result<(), Failure> {
    let scope = match scope {
        ScopeName::Read => Scope::Read,
        ScopeName::Run => Scope::Run,
        ScopeName::Admin => Scope::Admin,
    };
    let now = WallClock.now();
    let expires_at = expires.map(|text| end_after(text, now)).transpose()?;
    let text = Tokens::of(settings)?.create(name, scope, now, expires_at)?;
    if json {
        return output::json(&json!({"name": name, "scope": scope, "token": text, "expires_at": expires_at}));
    }
    output::line(&text)
}

fn list(tokens: &[NamedToken], json: bool) -> Result<(), Failure> {
    if json {
        let told = |token: &NamedToken| json!({"name": token.name, "scope": token.scope, "created_at": token.created_at, "expires_at": token.expires_at});
        return output::json(&json!({"tokens": tokens.iter().map(told).collect::<Vec<_>>()}));
    }
    if tokens.is_empty() {
        return output::line("there is no token; make one with: skill-runner token new NAME --scope read|run|admin");
    }
    let now = WallClock.now();
    let head = ["NAME", "SCOPE", "CREATED", "EXPIRES"].map(str::to_owned).to_vec();
    let row = |token: &NamedToken| {
        let end = match token.expires_at {
            Some(_) if token.is_expired(now) => "expired".to_owned(),
            Some(end) => second(end),
            None => "never".to_owned(),
        };
        vec![token.name.clone(), token.scope.as_str().to_owned(), second(token.created_at), end]
    };
    let rows: Vec<Vec<String>> = std::iter::once(head).chain(tokens.iter().map(row)).collect();
    table::lines(&rows, table::columns()).iter().try_for_each(|line| output::line(line))
}

/// A moment without its fraction of a second.
fn second(time: Timestamp) -> String {
    let text = time.to_string();
    text.split_once('.').map_or(text.clone(), |(whole, _)| format!("{whole}Z"))
}

fn end_after(text: &str, now: Timestamp) -> Result<Timestamp, Failure> {
    let wrong = || Failure::Usage(format!("--expires {text:?} is not a time such as 30s, 30m, 12h or 90d"));
    time_span::seconds(text).filter(|seconds| *seconds > 0).map(|seconds| now.plus_seconds(seconds)).ok_or_else(wrong)
}

fn failed(error: TokenError) -> Failure {
    match error {
        TokenError::Missing { .. } => {
            Failure::NotFound(format!("{error}; skill-runner token list shows those there are"))
        }
        TokenError::Name { .. } | TokenError::Exists { .. } | TokenError::NotOwner { .. } => {
            Failure::Usage(error.to_string())
        }
        TokenError::File(error) => Failure::broken("change the tokens")(error),
    }
}

fn shared_failed(error: AccessError) -> Failure {
    match error {
        AccessError::Token(error) => failed(error),
        other => Failure::broken("use the tokens of the store")(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_ends_after_a_time_and_never_at_once() {
        let now = Timestamp::from_micros(0);
        let seconds = |text: &str| end_after(text, now).ok().map(|end| end.as_micros() / 1_000_000);
        assert_eq!([seconds("30s"), seconds("12h"), seconds("90d")], [Some(30), Some(43_200), Some(7_776_000)]);
        for wrong in ["", "0d", "-1d", "9", "9w"] {
            assert_eq!(seconds(wrong), None, "{wrong}");
        }
    }
}
