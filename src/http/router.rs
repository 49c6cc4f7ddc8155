//! Every route of the API, what it needs, and the handler that answers it.

use std::sync::{Arc, LazyLock};

use axum::Router;
use axum::extract::{DefaultBodyLimit, Request};
use axum::http::header;
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use serde_json::Value;

use crate::http::answer::problem::Problem;
use crate::http::engines::{self, models, upgrades};
use crate::http::feeds::{events, history, logs, ticket};
use crate::http::inspect::{audit, explain, explain_cache, export};
use crate::http::jobs::{
    artifacts, bundle, cancel, cleanup, create, delete, interaction, list, rerun, result, status, upload,
};
use crate::http::management::{self, files, packages as package_files, run};
use crate::http::openapi;
use crate::http::server::access::{self, Gate};
use crate::http::server::grant::Access::{self, Admin, Open, Read, Run};
use crate::http::server::request_span;
use crate::http::server::route_table::{Route, RouteTable};
use crate::http::skills::{installed, lifecycle, packages};
use crate::http::state::app::App;
use crate::http::state::turns::Pace;
use crate::http::system::{backups, health, info, metrics, settings};
use crate::http::ui::{legacy, pages, session};
use crate::settings::Limits;

/// Bytes of a multipart body that are not the file.
const MULTIPART_FRAME_BYTES: u64 = 64 * 1024;

/// Query parameters that several routes read.
const LIST: &[&str] = &["status", "skill_id", "engine", "limit", "before", "since", "until", "label"];
const HISTORY: &[&str] = &["from_seq", "to_seq", "from_ts", "to_ts", "limit"];
const AT_SEQ: &[&str] = &["at_seq"];
const EVENTS: &[&str] = &["cursor", access::TICKET];
/// Those of a history for which its log is read from the beginning.
const TIMES: &[&str] = &["from_ts", "to_ts"];
/// That of a file of a skill which is not the one in place.
const VERSION: &str = "version";
const RANGE: &[&str] = &["stream", "byte_from", "byte_to"];

pub(crate) fn routes(app: App) -> Router {
    let (router, rows) = table(upload_limit(&app.orchestrator().settings().limits)).finish();
    let gate = Gate { app: app.clone(), rows: Arc::new(rows) };
    router
        .method_not_allowed_fallback(async |request: Request| Problem::MethodNotAllowed {
            method: request.method().to_string(),
            path: request.uri().path().to_owned(),
        })
        .fallback(async |request: Request| Problem::RouteNotFound { path: request.uri().path().to_owned() })
        .layer(from_fn_with_state(gate, access::guard))
        .layer(from_fn_with_state(app.clone(), request_span::trace))
        .with_state(app)
}

/// Every route of the API.
pub fn all_routes() -> Vec<Route> {
    let (_, rows) = table(DefaultBodyLimit::disable()).finish();
    rows.all().iter().map(Route::from).collect()
}

/// The OpenAPI document of all routes.
pub fn openapi_document() -> Value {
    openapi::document(&all_routes())
}

async fn openapi_json() -> Response {
    static TEXT: LazyLock<Bytes> = LazyLock::new(|| openapi_document().to_string().into());
    ([(header::CONTENT_TYPE, "application/json")], TEXT.clone()).into_response()
}

fn table(upload_limit: DefaultBodyLimit) -> RouteTable {
    let table = RouteTable::new(upload_limit)
        .health("/healthz", health::alive)
        .health("/readyz", health::ready)
        .page("/ui", pages::shell)
        .page("/ui/", pages::shell)
        .page("/ui/{*page}", pages::shell)
        .page("/ui/static/{*path}", pages::file)
        .get("/ui/session", Open, &[], session::now)
        .post("/ui/session", Open, &[], session::log_in)
        .delete("/ui/session", Open, session::log_out)
        .get("/metrics", Read, &[], metrics::metrics)
        .get("/docs", Read, &[], pages::docs)
        .get("/v1/openapi.json", Read, &[], openapi_json)
        .get("/v1/system", Read, &[], info::system)
        .post("/v1/backups", Admin, &["wait"], backups::begin)
        .get("/v1/backups/{id}", Read, &[], backups::one)
        .get("/v1/skills", Read, &[], installed::all)
        .get("/v1/skills/{id}", Read, &[], installed::one)
        // Every archived package is read and checked.
        .slow_get("/v1/skills/{id}/versions", Read, &[], Pace::Slow, lifecycle::versions)
        .post("/v1/skills/{id}/rollback", Admin, &[], lifecycle::rollback)
        .delete("/v1/skills/{id}", Admin, lifecycle::uninstall)
        .upload("/v1/skill-packages/install", Admin, &["wait"], packages::install)
        .upload("/v1/skill-packages/check", Admin, &[], package_files::check)
        .get("/v1/skill-packages/{id}", Read, &[], packages::one)
        .get("/v1/engines", Read, &[], engines::status::all)
        .get("/v1/engines/auth-status", Read, &[], engines::status::auth_status)
        .post("/v1/engines/upgrades", Admin, &[], upgrades::begin)
        .get("/v1/engines/upgrades/{id}", Read, &[], upgrades::one)
        .get("/v1/engines/{engine}/models", Read, &[], models::models)
        .get("/v1/engines/{engine}/models/manifest", Read, &[], models::manifest)
        .post("/v1/engines/{engine}/models/snapshots", Admin, &[], models::add_snapshot)
        .get("/v1/jobs", Read, LIST, list::list)
        // A configuration for an engine in its body needs more: `create.rs` asks for it.
        .post("/v1/jobs", Run, &["wait"], create::create)
        .post("/v1/jobs/check", Run, &[], create::check)
        .post("/v1/jobs/cleanup", Admin, &[], cleanup::cleanup)
        .get("/v1/temp-skill-runs", Read, LIST, list::temporary)
        // Whoever brings a skill brings code.
        .post("/v1/temp-skill-runs", Admin, &["wait"], create::create_temp);
    let table = run_routes(table, "/v1/jobs/{id}", Run);
    let table = run_routes(table, "/v1/temp-skill-runs/{id}", Admin);
    legacy_routes(management_routes(table))
}

/// The data that pages asked for before there was the management API.
fn legacy_routes(table: RouteTable) -> RouteTable {
    table
        .get("/ui/skills/table", Read, &[], legacy::skills)
        .get("/ui/engines/table", Read, &[], legacy::engines)
        .get("/ui/runs/table", Read, LIST, legacy::runs)
        .get("/ui/runs/{id}/view", Read, &["path"], legacy::file)
        .slow_get("/ui/runs/{id}/logs/tail", Read, AT_SEQ, Pace::SlowWith(AT_SEQ), legacy::logs)
}

/// What can be done with one run, however its skill came.
fn run_routes(table: RouteTable, prefix: &str, upload: Access) -> RouteTable {
    let at = |rest: &str| format!("{prefix}{rest}");
    table
        .slow_get(&at(""), Read, AT_SEQ, Pace::SlowWith(AT_SEQ), status::status)
        // Like a clean-up.
        .delete(&at(""), Admin, delete::delete)
        // A configuration for an engine in its body needs more: `rerun.rs` asks for it.
        .post(&at("/rerun"), Run, &["wait"], rerun::rerun)
        // The upload of a run that brings its skill needs more under any path: `upload.rs` asks for it.
        .upload(&at("/upload"), upload, &["wait"], upload::upload)
        .slow_get(&at("/result"), Read, AT_SEQ, Pace::SlowWith(AT_SEQ), result::result)
        .slow_get(&at("/artifacts"), Read, AT_SEQ, Pace::SlowWith(AT_SEQ), artifacts::all)
        .get(&at("/artifacts/{*path}"), Read, &[], artifacts::one)
        .slow_get(&at("/bundle"), Read, &[], Pace::Slow, bundle::bundle)
        .slow_get(&at("/explain"), Read, &["path"], Pace::Slow, explain::explain)
        .slow_get(&at("/audit"), Read, &[], Pace::Slow, audit::run)
        .slow_get(&at("/export"), Read, &[], Pace::Slow, export::export)
        .slow_get(&at("/logs"), Read, AT_SEQ, Pace::SlowWith(AT_SEQ), logs::whole)
        .slow_get(&at("/logs/range"), Read, RANGE, Pace::Slow, logs::range)
        .get(&at("/events"), Read, EVENTS, events::events)
        .post(&at("/events/ticket"), Read, &[], ticket::ticket)
        .slow_get(&at("/events/history"), Read, HISTORY, Pace::SlowWith(TIMES), history::history)
        .post(&at("/cancel"), Run, &[], cancel::cancel)
        // Thousands of rows are looked through.
        .slow_get(&at("/explain/cache"), Read, &[], Pace::Slow, explain_cache::explain)
        .slow_get(&at("/interaction/pending"), Read, AT_SEQ, Pace::SlowWith(AT_SEQ), interaction::pending)
        .post(&at("/interaction/reply"), Run, &[], interaction::reply)
}

/// What front ends need. A route that a job has too is answered by the same handler.
fn management_routes(table: RouteTable) -> RouteTable {
    let at = |rest: &str| format!("/v1/management/runs{rest}");
    table
        .get("/v1/management/skills", Read, &[], management::skills::all)
        .get("/v1/management/skills/{id}", Read, &[], management::skills::one)
        .get("/v1/management/skills/{id}/schemas", Read, &[], management::skills::schemas)
        .slow_get(
            "/v1/management/skills/{id}/file",
            Read,
            &["path", VERSION],
            // Every archived package is read and checked.
            Pace::SlowWith(&[VERSION]),
            package_files::file,
        )
        .slow_get("/v1/management/skills/{id}/changes", Read, &["from", "to"], Pace::Slow, package_files::changes)
        .upload("/v1/management/audit", Run, &[], audit::export)
        .get("/v1/management/settings", Read, &[], settings::all)
        .get("/v1/management/engines", Read, &[], management::engines::all)
        .get("/v1/management/engines/{engine}", Read, &[], management::engines::one)
        .get("/v1/management/nodes", Read, &[], management::nodes::all)
        .post("/v1/management/nodes/{id}/drain", Admin, &[], management::nodes::drain)
        .get(&at(""), Read, LIST, management::runs::list)
        .slow_get(&at("/{id}"), Read, AT_SEQ, Pace::SlowWith(AT_SEQ), run::conversation)
        .delete(&at("/{id}"), Admin, delete::delete)
        .post(&at("/{id}/rerun"), Run, &["wait"], rerun::rerun)
        .slow_get(&at("/{id}/pending"), Read, AT_SEQ, Pace::SlowWith(AT_SEQ), interaction::pending)
        .post(&at("/{id}/reply"), Run, &[], interaction::reply)
        .post(&at("/{id}/cancel"), Run, &[], cancel::cancel)
        .get(&at("/{id}/events"), Read, EVENTS, events::events)
        .post(&at("/{id}/events/ticket"), Read, &[], ticket::ticket)
        .slow_get(&at("/{id}/events/history"), Read, HISTORY, Pace::SlowWith(TIMES), history::history)
        .slow_get(&at("/{id}/logs/range"), Read, RANGE, Pace::Slow, logs::range)
        .slow_get(&at("/{id}/explain"), Read, &["path"], Pace::Slow, explain::explain)
        .slow_get(&at("/{id}/audit"), Read, &[], Pace::Slow, audit::run)
        .get(&at("/{id}/files"), Read, &[], files::all)
        .get(&at("/{id}/file"), Read, &["path"], files::one)
}

/// Enough for the largest zips; the limit of each one is checked while it is received.
fn upload_limit(limits: &Limits) -> DefaultBodyLimit {
    let zips = limits.max_upload_bytes.saturating_add(limits.temp_skill_package_max_bytes);
    DefaultBodyLimit::max(usize::try_from(zips.saturating_add(MULTIPART_FRAME_BYTES)).unwrap_or(usize::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_route_that_always_reads_a_whole_log_is_slow() {
        let (_, rows) = table(DefaultBodyLimit::disable()).finish();
        for rest in ["explain", "audit", "logs/range"] {
            let routes: Vec<_> =
                rows.all().iter().filter(|row| row.path.ends_with(&format!("{{id}}/{rest}"))).collect();
            assert_eq!(routes.len(), 3, "{rest}");
            assert!(routes.iter().all(|row| row.pace == Pace::Slow), "{rest}");
        }
    }
}
