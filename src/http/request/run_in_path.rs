//! The run that a path names, by request id or run id.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;

use crate::domain::ids::{RequestId, RunId};
use crate::domain::state::RunState;
use crate::http::answer::problem::Problem;
use crate::http::request::path_params::path_params;
use crate::http::state::app::App;
use crate::http::state::run_span::record_run;
use crate::workspace::RunPaths;
use std::sync::{Arc, OnceLock};

/// The request id of the run in the path, for the error envelope; empty until the run is found.
#[derive(Debug, Clone, Default)]
pub(crate) struct KnownRequest(pub(crate) Arc<OnceLock<RequestId>>);

/// The one run that the request may ask for, if its ticket says so.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OnlyRun(pub(crate) RunId);

pub(crate) struct RunInPath {
    pub(crate) state: RunState,
    /// The part of the path after `artifacts/`, decoded.
    pub(crate) rest: String,
    pub(crate) paths: RunPaths,
}

impl RunInPath {
    pub(crate) fn run(&self) -> RunId {
        self.state.run_id
    }

    pub(crate) fn request(&self) -> RequestId {
        self.state.request_id
    }
}

impl FromRequestParts<App> for RunInPath {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Problem> {
        let mut params = path_params(parts).await?;
        let orchestrator = app.orchestrator();
        let found = orchestrator.resolve(&params.remove("id").unwrap_or_default()).await;
        if let Some(OnlyRun(only)) = parts.extensions.get()
            && found.as_ref().ok() != Some(only)
        {
            // Whether there is another run is not told.
            return Err(Problem::TicketInvalid);
        }
        let run = found?;
        record_run(run);
        let state = orchestrator.state(run).await?;
        if let Some(known) = parts.extensions.get::<KnownRequest>() {
            // A request names one run, so it is not set yet.
            let _ = known.0.set(state.request_id);
        }
        let paths = orchestrator.layout().run(run);
        Ok(Self { state, rest: params.remove("path").unwrap_or_default(), paths })
    }
}
