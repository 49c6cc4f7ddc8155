//! Every reason why a request is refused or fails, with its message.

use std::sync::Arc;

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};

use crate::audit;
use crate::domain::event::ValidationError;
use crate::domain::ids::RequestId;
use crate::domain::state::RunState;
use crate::domain::statechart::Status;
use crate::files::LookupError;
use crate::orchestrator::Error;
use crate::projection::Hidden;
use crate::skill::Finding;
use crate::workspace::RangeError;

#[derive(Debug, thiserror::Error)]
pub(crate) enum Problem {
    #[error(transparent)]
    Orchestrator(#[from] Error),
    /// The answer to the question whether new work is taken.
    #[error(transparent)]
    NotReady(Error),
    #[error(transparent)]
    Range(#[from] RangeError),
    #[error("the file {path:?} is not served: {source}")]
    File { path: String, source: LookupError },
    #[error("the file {path:?} is not shown: {source}")]
    RunFile { path: String, source: LookupError },
    #[error("the file {path:?} is not shown: {reason}")]
    RunFileHidden { path: String, reason: Hidden },
    #[error("no artifact has the path {path:?}; GET …/artifacts lists them")]
    ArtifactNotFound { path: String },
    #[error("the artifact path {path:?} is refused: {reason}")]
    UnsafePath { path: String, reason: &'static str },
    #[error("the body is not JSON: {reason}")]
    InvalidJson { reason: String, line: usize, column: usize },
    #[error("{message}")]
    InvalidRequest { message: String, details: Vec<ValidationError> },
    #[error("the cursor {given:?} is not a whole number of 0 or more; send the id of the last event you have, or 0")]
    InvalidCursor {
        given: String,
        /// The query parameter; none if a header had it.
        parameter: Option<&'static str>,
    },
    #[error("{}; send {expected}", content_type(given))]
    UnsupportedMediaType { given: String, expected: &'static str },
    #[error("the body is larger than the limit of {limit} bytes")]
    BodyTooLarge { limit: u64 },
    #[error(
        "the names of the parts and of their files have more than {limit} bytes together; send fewer files, give them shorter \
         names, or send them as an archive in one file"
    )]
    PartNamesTooLong { limit: usize },
    #[error("the body ended early or could not be read")]
    BodyBroken,
    #[error(
        "the request is not HTTP/1.1 as it is defined: {reason}; check what stands between the client and the service"
    )]
    NotHttp { reason: String },
    #[error("the request's line and headers are longer than {limit} bytes, or there are more than 100 headers")]
    HeadersTooLarge { limit: usize },
    #[error("the path and the query string are longer than {limit} bytes")]
    UriTooLong { limit: usize },
    #[error("the head of the request did not come within {seconds} s (header_timeout_seconds)")]
    HeadTimeout { seconds: u64 },
    #[error("too little of the body came within {seconds} s (body_timeout_seconds)")]
    BodyTimeout { seconds: u64 },
    #[error("the service has as many connections as it may (max_connections), and each one is in use; try again later")]
    TooManyConnections,
    #[error("too many large answers wait for their clients to read them; try again later")]
    NoRoom,
    #[error("the service has as many such requests at work as it may; try again later")]
    Busy,
    #[error("the body has more than {limit} values of JSON")]
    TooManyValues { limit: usize },
    #[error(
        "there is no route {path:?}; the API is below /v1, such as /v1/skills and /v1/jobs, its reference at /docs, and the user interface at /ui"
    )]
    RouteNotFound { path: String },
    #[error("{method} is not allowed on {path:?}; the Allow header lists the allowed methods")]
    MethodNotAllowed { method: String, path: String },
    #[error("a bearer token is required: send the header Authorization: Bearer <token>")]
    Unauthorized,
    #[error("the token {name:?} allows {scope}, and this needs {needed}; use a token with that scope")]
    ScopeTooSmall { name: String, scope: &'static str, needed: &'static str },
    #[error("the ticket is not known, is over, or is for another run; POST …/events/ticket makes one for a minute")]
    TicketInvalid,
    #[error("the token, or the name and password, is not right")]
    WrongCredentials,
    #[error("there were too many wrong tokens or passwords; try again in {seconds} s")]
    TooManyFailedLogins { seconds: u64 },
    #[error("this old route of the user interface has ended (ui_legacy_api_mode); use {successor}")]
    LegacyRoute { successor: String },
    #[error("the host {host:?} is not allowed; add it to the setting allowed_hosts if it should be")]
    ForbiddenHost { host: String },
    #[error(
        "pages of the origin {origin:?} may not change anything; send the request from a page of this service or of an origin in the setting allowed_origins, or without the header Origin"
    )]
    ForbiddenOrigin { origin: String },
    #[error("{}", result_not_ready(*status, awaiting, *request))]
    ResultNotReady {
        status: Status,
        /// The files that the run waits for, if it does.
        awaiting: Option<Vec<String>>,
        request: RequestId,
    },
    #[error("the run is {}, and the bundle is not ready before it ends; follow …/events, or ask again later", status.as_str())]
    BundleNotReady { status: Status },
    #[error("the range is outside the file, which has {size} bytes")]
    RangeNotSatisfiable { size: u64 },
    #[error("the skill {id:?} cannot be used: its folder is not a valid skill; details lists the findings")]
    SkillInvalid { id: String, findings: Vec<Finding> },
    #[error("the skill {id:?} has no version {version:?} here; GET /v1/skills/{id}/versions lists them")]
    SkillVersionNotFound { id: String, version: String },
    #[error("no engine has the name {engine:?}; GET /v1/engines lists them")]
    EngineNotFound { engine: String },
    #[error("no installation has the id {id:?}")]
    InstallNotFound { id: String },
    #[error("no service on this store has the id {id:?}; GET /v1/management/nodes lists them")]
    NodeNotFound { id: String },
    #[error("no upgrade has the id {id:?}")]
    UpgradeNotFound { id: String },
    #[error("{limit} upgrades are already waiting or running; try again when one has ended")]
    UpgradesBusy { limit: usize },
    #[error("read or write {path}")]
    EngineFile {
        path: String,
        #[source]
        source: std::io::Error,
    },
    #[error("a login is required: send the header Authorization: Basic with name and password")]
    LoginNeeded,
    #[error("{}", stranger(*uid, *login))]
    Stranger {
        /// None if it could not be found out who it is.
        uid: Option<u32>,
        /// Whether the login of the user interface would do.
        login: bool,
    },
    #[error("the service is shutting down and accepts no new requests")]
    Closing,
    #[error("the handler panicked")]
    Panicked,
}

fn content_type(given: &str) -> String {
    if given.is_empty() {
        return "the request has no Content-Type header".to_owned();
    }
    format!("the content type {given:?} is not supported here")
}

fn result_not_ready(status: Status, awaiting: &Option<Vec<String>>, request: RequestId) -> String {
    let run = format!("/v1/jobs/{request}");
    match awaiting {
        None if status == Status::WaitingUser => {
            format!("the run waits for an answer; GET {run}/interaction/pending shows the question")
        }
        None => format!(
            "the run is {}, and the result is not ready before it ends; follow {run}/events, or ask again later",
            status.as_str()
        ),
        Some(files) if files.is_empty() => format!("the run waits for its upload; send it with POST {run}/upload"),
        Some(files) => format!("the run waits for its files: {}; send them with POST {run}/upload", files.join(", ")),
    }
}

impl From<audit::Error> for Problem {
    fn from(error: audit::Error) -> Self {
        let error = match error {
            audit::Error::Read { what, source } => Error::io(format!("read {what}"))(source),
            audit::Error::Artifacts(error) => error.into(),
            audit::Error::NoLog { .. } => Error::io("audit the run")(std::io::Error::other(error)),
        };
        Self::Orchestrator(error)
    }
}

impl Problem {
    /// The run has no result yet.
    pub(crate) fn result_not_ready(run: &RunState) -> Self {
        let awaiting = run.awaiting_upload.then(|| run.awaiting_files.clone());
        Self::ResultNotReady { status: run.status(), awaiting, request: run.request_id }
    }

    /// One value of the request is wrong.
    pub(crate) fn invalid(path: &str, message: impl Into<String>) -> Self {
        let message = message.into();
        let details = vec![ValidationError { path: path.to_owned(), message: message.clone() }];
        let name = path.trim_start_matches('/');
        Problem::InvalidRequest { message: format!("{name}: {message}"), details }
    }
}

fn stranger(uid: Option<u32>, login: bool) -> String {
    let who = match uid {
        Some(uid) => format!("the connection belongs to another user of the machine (uid {uid})"),
        None => "it cannot be told which user of the machine opened the connection".to_owned(),
    };
    let login = if login { ", or Authorization: Basic with name and password" } else { "" };
    format!(
        "{who}, and without a token the service answers only its own user and root: set token (SKILL_RUNNER_TOKEN) for \
         the service, and send the header Authorization: Bearer <token>{login}"
    )
}

impl IntoResponse for Problem {
    /// The problem travels with the response; [`finish`] writes it out, because only there the request id is known.
    fn into_response(self) -> Response {
        let mut response = StatusCode::INTERNAL_SERVER_ERROR.into_response();
        response.extensions_mut().insert(Arc::new(self));
        response
    }
}
