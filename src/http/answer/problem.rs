//! Why a request is not answered with what it asked for.

use std::sync::Arc;

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};

use crate::domain::event::ValidationError;
use crate::domain::statechart::Status;
use crate::files::LookupError;
use crate::orchestrator::Error;
use crate::skill::Finding;
use crate::workspace::RangeError;

/// Why a request is not answered with what it asked for.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Problem {
    #[error(transparent)]
    Orchestrator(#[from] Error),
    #[error(transparent)]
    Range(#[from] RangeError),
    #[error("the file {path:?} is not served: {source}")]
    File { path: String, source: LookupError },
    #[error("the file {path:?} is not shown: {source}")]
    RunFile { path: String, source: LookupError },
    #[error("no artifact has the path {path:?}; GET …/artifacts lists them")]
    ArtifactNotFound { path: String },
    #[error("the artifact path {path:?} is refused: {reason}")]
    UnsafePath { path: String, reason: &'static str },
    #[error("the body is not JSON: {reason}; correct it there and send it again")]
    InvalidJson { reason: String, line: usize, column: usize },
    #[error("{message}")]
    InvalidRequest { message: String, details: Vec<ValidationError> },
    #[error("the cursor {given:?} is not a whole number of 0 or more; send the id of the last event you have, or 0")]
    InvalidCursor { given: String },
    #[error("the content type {given:?} is not supported here; send {expected}")]
    UnsupportedMediaType { given: String, expected: &'static str },
    #[error("the body is larger than the limit of {limit} bytes")]
    BodyTooLarge { limit: u64 },
    #[error("the body could not be read to its end")]
    BodyBroken,
    #[error("no route leads to {path:?}; the API is under /v1, and the README lists its routes")]
    RouteNotFound { path: String },
    #[error("{method} is not allowed on {path:?}; the Allow header says what is")]
    MethodNotAllowed { method: String, path: String },
    #[error("a bearer token is needed: send the header Authorization: Bearer <token>")]
    Unauthorized,
    #[error("the host {host:?} is not served here; add it to allowed_hosts if it should be")]
    ForbiddenHost { host: String },
    #[error(
        "a page of the origin {origin:?} may not change anything here; send the request from a page of this service, or without Origin"
    )]
    ForbiddenOrigin { origin: String },
    #[error("the run is {}; its result comes with its end: follow …/events, or ask again", status.as_str())]
    ResultNotReady { status: Status },
    #[error("the run is {}; its bundle comes with its end: follow …/events, or ask again", status.as_str())]
    BundleNotReady { status: Status },
    #[error("the range lies outside the file of {size} bytes; ask for one inside it")]
    RangeNotSatisfiable { size: u64 },
    #[error("no skill {id:?} is installed: its folder is not a valid skill; correct what the findings name")]
    SkillInvalid { id: String, findings: Vec<Finding> },
    #[error("no engine is called {engine:?}; GET /v1/engines lists them")]
    EngineNotFound { engine: String },
    #[error("no installation has the id {id:?}")]
    InstallNotFound { id: String },
    #[error("no upgrade has the id {id:?}")]
    UpgradeNotFound { id: String },
    #[error("{limit} upgrades are under way; try again when one has ended")]
    UpgradesBusy { limit: usize },
    #[error("a file of the engines: {path}")]
    EngineFile {
        path: String,
        #[source]
        source: std::io::Error,
    },
    #[error("a name and a password are needed: send the header Authorization: Basic <name:password>")]
    LoginNeeded,
    #[error("the service is shutting down and takes no new requests")]
    Closing,
    #[error("the handler panicked")]
    Panicked,
}

impl Problem {
    /// One value of the request is wrong.
    pub(crate) fn invalid(path: &str, message: impl Into<String>) -> Self {
        let message = message.into();
        let details = vec![ValidationError { path: path.to_owned(), message: message.clone() }];
        let name = path.trim_start_matches('/');
        Problem::InvalidRequest { message: format!("{name}: {message}"), details }
    }
}

impl IntoResponse for Problem {
    /// The problem travels with the response; [`finish`] writes it out, because only there the request id is known.
    fn into_response(self) -> Response {
        let mut response = StatusCode::INTERNAL_SERVER_ERROR.into_response();
        response.extensions_mut().insert(Arc::new(self));
        response
    }
}
