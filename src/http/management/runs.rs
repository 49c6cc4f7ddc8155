//! `GET /v1/management/runs`: what `GET /v1/jobs` lists, and how many runs there are.

use axum::extract::State;
use axum::response::Response;
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::domain::statechart::Status;
use crate::http::answer::problem::Problem;
use crate::http::jobs::list::asked;
use crate::http::request::query::Query;
use crate::http::state::app::App;
use crate::http::state::json::json as written;
use crate::orchestrator::Listing;
use crate::store::RunCounts;

/// A page of runs, and how many runs of each status the filter finds on all pages, whatever status it asks for.
#[derive(Serialize)]
struct Counted {
    #[serde(flatten)]
    listing: Listing,
    counts: Value,
}

pub(crate) async fn list(State(app): State<App>, query: Query) -> Result<Response, Problem> {
    let filter = asked(query, None)?;
    let counts = app.orchestrator().counts(&filter.runs).await?;
    let made = async {
        let listing = app.orchestrator().list(&filter).await?;
        let about = listing.bytes;
        written(Counted { listing, counts: shown(&counts) }, about).await
    };
    app.room().make(made).await
}

fn shown(counts: &RunCounts) -> Value {
    let of = |status: Status| counts.get(&status).copied().unwrap_or(0);
    let by_status = Status::ALL.iter().map(|status| (status.as_str().to_owned(), json!(of(*status))));
    let by_status: Map<String, Value> = by_status.collect();
    json!({"total": counts.values().sum::<u64>(), "by_status": by_status})
}
