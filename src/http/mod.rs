//! The REST API over the orchestrator.

mod access;
mod app;
mod artifacts;
mod asked_run;
mod bundle;
mod cancel;
mod cleanup;
mod engines;
mod engines_models;
mod engines_upgrades;
mod error;
mod events;
mod explain;
mod explain_cache;
mod export;
mod file_answer;
mod frames;
mod health;
mod history;
mod interaction;
mod jobs_create;
mod jobs_status;
mod jobs_upload;
mod json_body;
mod list;
mod logs;
mod management;
mod packages;
mod query;
mod results;
mod skills;
mod sse;
mod system;
mod unread_body;

use std::future::Future;
use std::time::Duration;

use axum::Router;
use axum::extract::{DefaultBodyLimit, Request};
use axum::middleware::from_fn_with_state;
use axum::routing::{get, post};
use axum::serve::ListenerExt;
use tracing::warn;

use crate::orchestrator::Orchestrator;
use app::{App, Changes};
use error::Problem;

/// How long answers under way may take after the stop.
const LAST_ANSWERS: Duration = Duration::from_secs(10);
/// Room for the parts of an upload that are not the file.
const MULTIPART_FRAME_BYTES: u64 = 64 * 1024;

/// Serve the API until told to stop; open event streams are ended then.
pub async fn serve(
    listener: tokio::net::TcpListener,
    orchestrator: Orchestrator,
    stop: impl Future<Output = ()> + Send + 'static,
) -> std::io::Result<()> {
    serve_app(listener, App::new(orchestrator, Changes::Taken), stop).await
}

/// Serve what can be read of the API: a request that would change something is refused.
pub async fn serve_read_only(
    listener: tokio::net::TcpListener,
    orchestrator: Orchestrator,
    stop: impl Future<Output = ()> + Send + 'static,
) -> std::io::Result<()> {
    serve_app(listener, App::new(orchestrator, Changes::Refused), stop).await
}

async fn serve_app(
    listener: tokio::net::TcpListener,
    app: App,
    stop: impl Future<Output = ()> + Send + 'static,
) -> std::io::Result<()> {
    let routes = routes(app.clone());
    // Events are small and people wait for them: send each at once.
    let listener = listener.tap_io(|connection| {
        if let Err(error) = connection.set_nodelay(true) {
            warn!(%error, "small packets will be delayed");
        }
    });
    let closing = app.clone();
    let stopped = async move {
        stop.await;
        closing.close();
    };
    let served = axum::serve(listener, routes).with_graceful_shutdown(stopped).into_future();
    let overdue = async {
        app.closed().await;
        tokio::time::sleep(LAST_ANSWERS).await;
    };
    tokio::select! {
        ended = served => ended,
        // A client that does not read its answer must not hold up the end.
        () = overdue => Ok(()),
    }
}

/// Room for the largest zips that are taken; how large each may be is said when it comes.
fn upload_limit(app: &App) -> DefaultBodyLimit {
    let limits = &app.orchestrator().settings().limits;
    let zips = limits.max_upload_bytes.saturating_add(limits.temp_skill_package_max_bytes);
    DefaultBodyLimit::max(usize::try_from(zips.saturating_add(MULTIPART_FRAME_BYTES)).unwrap_or(usize::MAX))
}

/// What can be done with one run, however its skill came.
fn run_routes(app: &App, prefix: &str) -> Router<App> {
    let at = |rest: &str| format!("{prefix}{rest}");
    Router::new()
        .route(&at(""), get(jobs_status::status))
        .route(&at("/upload"), post(jobs_upload::upload).layer(upload_limit(app)))
        .route(&at("/result"), get(results::result))
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

fn routes(app: App) -> Router {
    Router::new()
        .route("/healthz", get(health::alive))
        .route("/readyz", get(health::ready))
        .route("/v1/system", get(system::system))
        .route("/v1/skills", get(skills::all))
        .route("/v1/skills/{id}", get(skills::one))
        .route("/v1/skill-packages/install", post(packages::install).layer(upload_limit(&app)))
        .route("/v1/skill-packages/{id}", get(packages::one))
        .route("/v1/engines", get(engines::all))
        .route("/v1/engines/auth-status", get(engines::auth_status))
        .route("/v1/engines/upgrades", post(engines_upgrades::begin))
        .route("/v1/engines/upgrades/{id}", get(engines_upgrades::one))
        .route("/v1/engines/{engine}/models", get(engines_models::models))
        .route("/v1/engines/{engine}/models/manifest", get(engines_models::manifest))
        .route("/v1/engines/{engine}/models/snapshots", post(engines_models::add_snapshot))
        .route("/v1/jobs", get(list::list).post(jobs_create::create))
        .route("/v1/jobs/cleanup", post(cleanup::cleanup))
        .route("/v1/temp-skill-runs", get(list::temporary).post(jobs_create::create_temp))
        .merge(run_routes(&app, "/v1/jobs/{id}"))
        .merge(run_routes(&app, "/v1/temp-skill-runs/{id}"))
        .nest("/v1/management/runs", management::runs())
        .method_not_allowed_fallback(async |request: Request| Problem::MethodNotAllowed {
            method: request.method().to_string(),
            path: request.uri().path().to_owned(),
        })
        .fallback(async |request: Request| Problem::RouteNotFound { path: request.uri().path().to_owned() })
        .layer(from_fn_with_state(app.clone(), access::guard))
        .with_state(app)
}
