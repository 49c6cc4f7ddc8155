//! `GET …/audit`: a run of the service checked as a whole; `POST /v1/management/audit`: the same for an export that is sent.

use axum::Json;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use tokio::runtime::Handle;

use crate::audit::{self, Report, SignerNode, StoredRow};
use crate::domain::ids::Seq;
use crate::http::answer::problem::Problem;
use crate::http::request::multipart::receive_zip;
use crate::http::request::query::Query;
use crate::http::request::run_in_path::RunInPath;
use crate::http::state::app::App;
use crate::http::state::task::blocking;
use crate::orchestrator::{Error, KnownKey};
use crate::workspace::read_signing_key;

pub(crate) async fn run(State(app): State<App>, asked: RunInPath, query: Query) -> Result<Json<Report>, Problem> {
    query.finish()?;
    let run = asked.run();
    let log = app.orchestrator().log().clone();
    let root = log.folder(run).await?.root;
    let runtime = Handle::current();
    let mut report = blocking(move || {
        let mut events = log.events(run, Seq::START);
        let read_events = |take: &mut dyn FnMut(&[u8])| -> Result<(), Problem> {
            while let Some(page) = runtime.block_on(events.next_page())? {
                page.iter().flat_map(|batch| batch.events()).for_each(|(_, event)| take(&event));
            }
            Ok(())
        };
        let row = || Ok(StoredRow::Head(Box::new(runtime.block_on(log.head(run))?)));
        audit::stored_run::<Problem>(run, root, read_events, row)
    })
    .await?;
    if !report.ok {
        // What a deletion took away meanwhile is no damage: the row goes first, so that one who missed a file finds no row.
        app.orchestrator().log().head(run).await?;
    }
    know_signer(&app, &mut report).await?;
    Ok(Json(report))
}

pub(crate) async fn export(State(app): State<App>, query: Query, request: Request) -> Result<Response, Problem> {
    query.finish()?;
    let sent = receive_zip(&app, request).await?;
    let turn = app.turns().slow().await?;
    let mut report = blocking(move || {
        // It goes on without its client, and keeps its turn until it is done.
        let _turn = turn;
        audit::export(sent.path()).map_err(Problem::from)
    })
    .await?;
    know_signer(&app, &mut report).await?;
    app.room().make(async { Ok(Json(report).into_response()) }).await
}

/// Says so if this service signed the run, or one that shares or shared its store.
async fn know_signer(app: &App, report: &mut Report) -> Result<(), Problem> {
    let layout = app.orchestrator().layout().clone();
    let own = blocking(move || read_signing_key(&layout).map_err(Error::from)).await?;
    report.know_signer(own.map(|own| own.public_key()));
    for KnownKey { key, node, name, .. } in app.orchestrator().known_keys().await? {
        report.know_signer_of(key, SignerNode { node_id: node.0.to_string(), name });
    }
    Ok(())
}
