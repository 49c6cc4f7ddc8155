//! `GET /v1/jobs`: runs, newest first.

use axum::extract::State;
use axum::response::Response;

use crate::domain::statechart::Status;
use crate::http::answer::problem::Problem;
use crate::http::request::query::Query;
use crate::http::state::app::App;
use crate::http::state::json::json;
use crate::orchestrator::ListFilter;
use crate::store::RunFilter;

const DEFAULT_LIMIT: u64 = 50;
const MAX_LIMIT: u64 = 500;
/// Most labels that are asked for: a run has no more, and each is looked for in every run.
const MAX_LABELS: usize = 16;

pub(crate) async fn list(State(app): State<App>, query: Query) -> Result<Response, Problem> {
    listed(&app, &asked(query, None)?).await
}

/// Only runs that bring their own skill.
pub(crate) async fn temporary(State(app): State<App>, query: Query) -> Result<Response, Problem> {
    listed(&app, &asked(query, Some(true))?).await
}

async fn listed(app: &App, filter: &ListFilter) -> Result<Response, Problem> {
    let made = async {
        let listing = app.orchestrator().list(filter).await?;
        let about = listing.bytes;
        json(listing, about).await
    };
    app.room().make(made).await
}

/// The runs that a query asks for.
pub(crate) fn asked(mut query: Query, temporary: Option<bool>) -> Result<ListFilter, Problem> {
    let before = query
        .text("before")
        .map(|text| text.parse().map_err(|_| Problem::invalid("before", "must be the next_before of an earlier page")));
    let runs = RunFilter {
        status: query.text("status").map(status).transpose()?,
        skill_id: query.text("skill_id"),
        engine: query.text("engine"),
        temporary,
        labels: labels(query.all("label"))?,
        since: query.time("since")?,
        until: query.time("until")?,
    };
    let limit = usize::try_from(query.limit("limit", DEFAULT_LIMIT, MAX_LIMIT)?).unwrap_or(usize::MAX);
    let filter = ListFilter { runs, before: before.transpose()?, limit };
    query.finish()?;
    Ok(filter)
}

fn labels(given: Vec<String>) -> Result<Vec<(String, String)>, Problem> {
    if given.len() > MAX_LABELS {
        return Err(Problem::invalid("label", format!("must not be given more than {MAX_LABELS} times")));
    }
    given.into_iter().map(label).collect()
}

fn label(text: String) -> Result<(String, String), Problem> {
    let (name, value) = text.split_once(':').ok_or_else(|| {
        Problem::invalid(
            "label",
            format!("must be the name of a label, a colon and its value, such as team:x, not {text:?}"),
        )
    })?;
    Ok((name.to_owned(), value.to_owned()))
}

fn status(text: String) -> Result<Status, Problem> {
    Status::ALL.into_iter().find(|status| status.as_str() == text).ok_or_else(|| {
        let names: Vec<&str> = Status::ALL.iter().map(|status| status.as_str()).collect();
        Problem::invalid("status", format!("must be one of {}, not {text:?}", names.join(", ")))
    })
}
