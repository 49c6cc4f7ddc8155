//! The run that a path names, by request id or run id.

use std::collections::HashMap;

use axum::extract::{FromRequestParts, Path};
use axum::http::request::Parts;

use super::access::KnownRequest;
use super::app::App;
use super::error::Problem;
use crate::domain::ids::{RequestId, RunId};
use crate::domain::state::RunState;
use crate::workspace::RunPaths;

/// The run, and the path's other part if it has one.
pub(super) struct AskedRun {
    pub state: RunState,
    /// The part of the path after `artifacts/`, decoded.
    pub rest: String,
    pub paths: RunPaths,
}

impl AskedRun {
    pub fn run(&self) -> RunId {
        self.state.run_id
    }

    pub fn request(&self) -> RequestId {
        self.state.request_id
    }
}

impl FromRequestParts<App> for AskedRun {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Problem> {
        let mut params = path_params(parts).await?;
        let orchestrator = app.orchestrator();
        let run = orchestrator.resolve(&params.remove("id").unwrap_or_default())?;
        let state = orchestrator.state(run)?;
        if let Some(known) = parts.extensions.get::<KnownRequest>() {
            // A request names one run, so nobody has set it before.
            let _ = known.0.set(state.request_id);
        }
        let paths = orchestrator.layout().run(run);
        Ok(Self { state, rest: params.remove("path").unwrap_or_default(), paths })
    }
}

/// The variable parts of the path, decoded.
pub(super) async fn path_params(parts: &mut Parts) -> Result<HashMap<String, String>, Problem> {
    let Path(params) = Path::<HashMap<String, String>>::from_request_parts(parts, &())
        .await
        .map_err(|error| Problem::InvalidRequest { message: error.body_text(), details: Vec::new() })?;
    Ok(params)
}
