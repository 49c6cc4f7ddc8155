//! Every route of the API, and the handler that answers it.

use axum::Router;
use axum::extract::{DefaultBodyLimit, Request};
use axum::middleware::{from_fn, from_fn_with_state};
use axum::routing::{get, post};

use crate::http::answer::problem::Problem;
use crate::http::engines::{self, models, upgrades};
use crate::http::feeds::{events, history, logs};
use crate::http::inspect::{explain, explain_cache, export};
use crate::http::jobs::{artifacts, bundle, cancel, cleanup, create, interaction, list, result, status, upload};
use crate::http::management::{files, run};
use crate::http::server::{access, request_span};
use crate::http::skills::{installed, packages};
use crate::http::state::app::App;
use crate::http::system::{health, info};

/// Bytes of a multipart body that are not the file.
const MULTIPART_FRAME_BYTES: u64 = 64 * 1024;

/// Enough for the largest zips; the limit of each one is checked while it is received.
fn upload_limit(app: &App) -> DefaultBodyLimit {
    let limits = &app.orchestrator().settings().limits;
    let zips = limits.max_upload_bytes.saturating_add(limits.temp_skill_package_max_bytes);
    DefaultBodyLimit::max(usize::try_from(zips.saturating_add(MULTIPART_FRAME_BYTES)).unwrap_or(usize::MAX))
}

/// What can be done with one run, however its skill came.
fn run_routes(app: &App, prefix: &str) -> Router<App> {
    let at = |rest: &str| format!("{prefix}{rest}");
    Router::new()
        .route(&at(""), get(status::status))
        .route(&at("/upload"), post(upload::upload).layer(upload_limit(app)))
        .route(&at("/result"), get(result::result))
        .route(&at("/artifacts"), get(artifacts::all))
        .route(&at("/artifacts/{*path}"), get(artifacts::one))
        .route(&at("/bundle"), get(bundle::bundle))
        .route(&at("/explain"), get(explain::explain))
        .route(&at("/export"), get(export::export))
        .route(&at("/logs"), get(logs::whole))
        .route(&at("/logs/range"), get(logs::range))
        .route(&at("/events"), get(events::events))
        .route(&at("/events/history"), get(history::history))
        .route(&at("/cancel"), post(cancel::cancel))
        .route(&at("/explain/cache"), get(explain_cache::explain))
        .route(&at("/interaction/pending"), get(interaction::pending))
        .route(&at("/interaction/reply"), post(interaction::reply))
}

pub(crate) fn routes(app: App) -> Router {
    Router::new()
        .route("/healthz", get(health::alive))
        .route("/readyz", get(health::ready))
        .route("/v1/system", get(info::system))
        .route("/v1/skills", get(installed::all))
        .route("/v1/skills/{id}", get(installed::one))
        .route("/v1/skill-packages/install", post(packages::install).layer(upload_limit(&app)))
        .route("/v1/skill-packages/{id}", get(packages::one))
        .route("/v1/engines", get(engines::status::all))
        .route("/v1/engines/auth-status", get(engines::status::auth_status))
        .route("/v1/engines/upgrades", post(upgrades::begin))
        .route("/v1/engines/upgrades/{id}", get(upgrades::one))
        .route("/v1/engines/{engine}/models", get(models::models))
        .route("/v1/engines/{engine}/models/manifest", get(models::manifest))
        .route("/v1/engines/{engine}/models/snapshots", post(models::add_snapshot))
        .route("/v1/jobs", get(list::list).post(create::create))
        .route("/v1/jobs/cleanup", post(cleanup::cleanup))
        .route("/v1/temp-skill-runs", get(list::temporary).post(create::create_temp))
        .merge(run_routes(&app, "/v1/jobs/{id}"))
        .merge(run_routes(&app, "/v1/temp-skill-runs/{id}"))
        .nest("/v1/management/runs", management_routes())
        .method_not_allowed_fallback(async |request: Request| Problem::MethodNotAllowed {
            method: request.method().to_string(),
            path: request.uri().path().to_owned(),
        })
        .fallback(async |request: Request| Problem::RouteNotFound { path: request.uri().path().to_owned() })
        .layer(from_fn_with_state(app.clone(), access::guard))
        .layer(from_fn(request_span::trace))
        .with_state(app)
}

/// What front ends need. A route that a job has too is answered by the same handler.
fn management_routes() -> Router<App> {
    Router::new()
        .route("/", get(list::list))
        .route("/{id}", get(run::conversation))
        .route("/{id}/pending", get(interaction::pending))
        .route("/{id}/reply", post(interaction::reply))
        .route("/{id}/cancel", post(cancel::cancel))
        .route("/{id}/events", get(events::events))
        .route("/{id}/events/history", get(history::history))
        .route("/{id}/logs/range", get(logs::range))
        .route("/{id}/explain", get(explain::explain))
        .route("/{id}/files", get(files::all))
        .route("/{id}/file", get(files::one))
}
