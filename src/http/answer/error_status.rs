//! The code, details and header of every problem; the table of codes gives the status.

use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use serde_json::{Value, json};

use crate::blobs;
use crate::domain::codes::ErrorCode;
use crate::domain::command::Refusal;
use crate::domain::event::ValidationError;
use crate::files::{LookupError, Shortage};
use crate::http::answer::problem::Problem;
use crate::orchestrator::Error;
use crate::store;
use crate::workspace::RangeError;

/// Seconds after which a client should try again what there was no room for.
const RETRY_AFTER: &str = "1";

/// The parts of an error response.
pub(crate) struct Answer {
    pub(crate) code: ErrorCode,
    pub(crate) details: Value,
    pub(crate) header: Option<(HeaderName, HeaderValue)>,
    /// If it is not the one of the code.
    other_status: Option<StatusCode>,
}

impl Answer {
    /// As the table of codes says, but for the check whether the service is ready.
    pub(crate) fn status(&self) -> StatusCode {
        let of_code = || self.code.info().http.and_then(|status| StatusCode::from_u16(status).ok());
        self.other_status.or_else(of_code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }
}

fn plain(code: ErrorCode) -> Answer {
    detailed(code, json!({}))
}

fn detailed(code: ErrorCode, details: Value) -> Answer {
    Answer { code, details, header: None, other_status: None }
}

fn internal() -> Answer {
    plain(ErrorCode::Internal)
}

fn validation(code: ErrorCode, details: &[ValidationError]) -> Answer {
    detailed(code, if details.is_empty() { json!({}) } else { json!(details) })
}

fn flaw(path: &str, message: String) -> ValidationError {
    ValidationError { path: path.to_owned(), message }
}

fn retry_later(code: ErrorCode, details: Value) -> Answer {
    Answer { header: Some((header::RETRY_AFTER, HeaderValue::from_static(RETRY_AFTER))), ..detailed(code, details) }
}

/// The message of a problem.
pub(crate) fn message(problem: &Problem) -> String {
    if let Some(shortage) = shortage(problem) {
        return shortage.told().to_owned();
    }
    match problem {
        Problem::Orchestrator(error) | Problem::NotReady(error) => error.told(|hint| hint.api),
        other => other.to_string(),
    }
}

/// What the machine had too little of to answer.
fn shortage(problem: &Problem) -> Option<Shortage> {
    match problem {
        Problem::Orchestrator(error) if error.code() == ErrorCode::Internal => None,
        problem => Shortage::behind(problem),
    }
}

pub(crate) fn answer(problem: &Problem) -> Answer {
    if let Problem::NotReady(error) = problem {
        // What asks for it knows ready and not ready, whatever the cause.
        return Answer { other_status: Some(StatusCode::SERVICE_UNAVAILABLE), ..orchestrator(error) };
    }
    match shortage(problem) {
        Some(Shortage::Disk) => return plain(ErrorCode::InsufficientStorage),
        Some(Shortage::OpenFiles | Shortage::OpenFilesOfMachine | Shortage::Memory | Shortage::Processes) => {
            return retry_later(ErrorCode::ResourceLimitExceeded, json!({}));
        }
        None => {}
    }
    match problem {
        Problem::Orchestrator(error) | Problem::NotReady(error) => orchestrator(error),
        Problem::Range(range @ RangeError::Reversed { .. }) => {
            validation(ErrorCode::InvalidRequest, &[flaw("byte_to", range.to_string())])
        }
        Problem::Range(RangeError::BeyondEnd { total_bytes, .. }) => unsatisfiable(*total_bytes),
        Problem::Range(RangeError::NotOpened(_) | RangeError::Io(_)) => internal(),
        Problem::File { source, .. } => match source {
            LookupError::Unsafe { .. } => plain(ErrorCode::UnsafePath),
            LookupError::NotFound | LookupError::NotAFile => plain(ErrorCode::ArtifactNotFound),
            LookupError::Io { .. } => internal(),
        },
        Problem::RunFile { source, .. } => match source {
            LookupError::Unsafe { .. } => plain(ErrorCode::UnsafePath),
            LookupError::NotFound | LookupError::NotAFile => plain(ErrorCode::FileNotFound),
            closed if closed.is_closed() => plain(ErrorCode::FileNotShown),
            LookupError::Io { .. } => internal(),
        },
        Problem::RunFileHidden { .. } => plain(ErrorCode::FileNotShown),
        Problem::ArtifactNotFound { .. } => plain(ErrorCode::ArtifactNotFound),
        Problem::UnsafePath { .. } => plain(ErrorCode::UnsafePath),
        Problem::InvalidJson { line, column, .. } => {
            detailed(ErrorCode::InvalidJson, json!({"line": line, "column": column}))
        }
        Problem::InvalidRequest { details, .. } => validation(ErrorCode::InvalidRequest, details),
        Problem::InvalidCursor { parameter: Some(name), .. } => {
            validation(ErrorCode::InvalidCursor, &[flaw(name, problem.to_string())])
        }
        Problem::InvalidCursor { parameter: None, .. } => plain(ErrorCode::InvalidCursor),
        Problem::UnsupportedMediaType { .. } => plain(ErrorCode::UnsupportedMediaType),
        Problem::BodyTooLarge { limit } => detailed(ErrorCode::PayloadTooLarge, json!({"limit_bytes": limit})),
        Problem::PartNamesTooLong { limit } => detailed(ErrorCode::PayloadTooLarge, json!({"limit_bytes": limit})),
        Problem::TooManyValues { limit } => detailed(ErrorCode::PayloadTooLarge, json!({"limit_values": limit})),
        Problem::BodyBroken => plain(ErrorCode::InvalidRequest),
        Problem::NotHttp { .. } => plain(ErrorCode::InvalidRequest),
        Problem::HeadersTooLarge { limit } => detailed(ErrorCode::HeadersTooLarge, json!({"limit_bytes": limit})),
        Problem::UriTooLong { limit } => detailed(ErrorCode::UriTooLong, json!({"limit_bytes": limit})),
        Problem::HeadTimeout { seconds } | Problem::BodyTimeout { seconds } => {
            detailed(ErrorCode::RequestTimeout, json!({"seconds": seconds}))
        }
        Problem::NoRoom | Problem::Busy => retry_later(ErrorCode::ResourceLimitExceeded, json!({})),
        Problem::TooManyConnections => retry_later(ErrorCode::TooManyConnections, json!({})),
        Problem::RouteNotFound { .. } => plain(ErrorCode::RouteNotFound),
        Problem::MethodNotAllowed { .. } => plain(ErrorCode::MethodNotAllowed),
        Problem::Unauthorized
        | Problem::TicketInvalid
        | Problem::WrongCredentials
        | Problem::Stranger { login: false, .. } => unauthorized("Bearer"),
        Problem::TooManyFailedLogins { seconds } => {
            let header = Some((header::RETRY_AFTER, HeaderValue::from(*seconds)));
            Answer { header, ..detailed(ErrorCode::TooManyFailedLogins, json!({"seconds": seconds})) }
        }
        Problem::LegacyRoute { successor } => {
            let link = format!("<{successor}>; rel=\"successor-version\"");
            let header = HeaderValue::from_str(&link).ok().map(|value| (header::LINK, value));
            Answer { header, ..detailed(ErrorCode::LegacyRouteGone, json!({"successor": successor})) }
        }
        Problem::LoginNeeded | Problem::Stranger { login: true, .. } => unauthorized("Basic"),
        Problem::ScopeTooSmall { scope, needed, .. } => {
            detailed(ErrorCode::ForbiddenScope, json!({"scope": scope, "needed": needed}))
        }
        Problem::ForbiddenHost { .. } => plain(ErrorCode::ForbiddenHost),
        Problem::ForbiddenOrigin { .. } => plain(ErrorCode::ForbiddenOrigin),
        Problem::ResultNotReady { status, awaiting: None, .. } => {
            detailed(ErrorCode::ResultNotReady, json!({"status": status}))
        }
        Problem::ResultNotReady { status, awaiting: Some(files), .. } => {
            detailed(ErrorCode::ResultNotReady, json!({"status": status, "awaiting_files": files}))
        }
        Problem::BundleNotReady { status } => detailed(ErrorCode::BundleNotReady, json!({"status": status})),
        Problem::RangeNotSatisfiable { size } => unsatisfiable(*size),
        Problem::SkillInvalid { findings, .. } => detailed(ErrorCode::SkillNotFound, json!({"findings": findings})),
        Problem::SkillVersionNotFound { .. } => plain(ErrorCode::SkillVersionNotFound),
        Problem::EngineNotFound { .. } => plain(ErrorCode::EngineNotFound),
        Problem::InstallNotFound { .. } => plain(ErrorCode::InstallNotFound),
        Problem::NodeNotFound { .. } => plain(ErrorCode::NodeNotFound),
        Problem::UpgradeNotFound { .. } => plain(ErrorCode::UpgradeNotFound),
        Problem::UpgradesBusy { limit } => retry_later(ErrorCode::QueueFull, json!({"max_upgrades": limit})),
        Problem::EngineFile { .. } => internal(),
        Problem::Closing => plain(ErrorCode::ShuttingDown),
        Problem::Panicked => internal(),
    }
}

fn unauthorized(scheme: &'static str) -> Answer {
    let header = Some((header::WWW_AUTHENTICATE, HeaderValue::from_static(scheme)));
    Answer { header, ..plain(ErrorCode::Unauthorized) }
}

fn unsatisfiable(size: u64) -> Answer {
    Answer {
        header: HeaderValue::from_str(&format!("bytes */{size}")).ok().map(|value| (header::CONTENT_RANGE, value)),
        ..detailed(ErrorCode::RangeNotSatisfiable, json!({"total_bytes": size}))
    }
}

fn orchestrator(error: &Error) -> Answer {
    let code = error.code();
    match error {
        Error::Refused(refusal) => detailed(code, refused(refusal)),
        Error::Rejected { details, .. } => validation(code, details),
        Error::PackageInvalid { findings } => detailed(code, json!({"findings": findings})),
        Error::QueueFull { limit } => retry_later(ErrorCode::QueueFull, json!({"max_queued_jobs": limit})),
        Error::TooManyAwaitUpload { limit } => retry_later(ErrorCode::QueueFull, json!({"max_awaiting_upload": limit})),
        Error::InstallsBusy { limit } => retry_later(ErrorCode::QueueFull, json!({"max_installs": limit})),
        Error::FilesBusy | Error::RequestsBusy | Error::NotRecovered { .. } | Error::RunBusy { .. } => {
            retry_later(code, json!({}))
        }
        Error::InsufficientStorage { file_system, free, floor } => {
            let file_system = file_system.display().to_string();
            detailed(code, json!({"file_system": file_system, "free_bytes": free, "min_free_bytes": floor}))
        }
        Error::Damaged { file, .. } => detailed(code, json!({"file": file})),
        Error::SeqOutOfRange { head, .. } => detailed(code, json!({"head_seq": head})),
        Error::Store(store::Error::Unreachable { .. }) | Error::Blobs(blobs::Error::Unreachable { .. }) => {
            retry_later(code, json!({}))
        }
        Error::Store(store::Error::TooLarge { limit, .. }) => detailed(code, json!({"limit_bytes": limit})),
        Error::Store(store::Error::Full { available, .. }) => detailed(code, json!({"free_bytes": available})),
        Error::SkillNotFound { similar: Some(similar), .. } => detailed(code, json!({"did_you_mean": similar})),
        Error::RunNotFound { .. }
        | Error::SkillNotFound { similar: None, .. }
        | Error::IdempotencyConflict
        | Error::ShuttingDown
        | Error::FieldNotFound { .. }
        | Error::NotReady
        | Error::Store(_)
        | Error::Contract(_)
        | Error::SandboxMissing { .. }
        | Error::Corrupt { .. }
        | Error::FilesGone { .. }
        | Error::FilesTooLarge { .. }
        | Error::Blobs(_)
        | Error::Io { .. } => plain(code),
    }
}

fn refused(refusal: &Refusal) -> Value {
    match refusal {
        Refusal::RunFinal { status } | Refusal::InteractionNotPending { status } => json!({"status": status}),
        Refusal::InteractionStale { open, .. } => json!({"pending_interaction_id": open}),
        Refusal::ResponseInvalid { flaws, .. } => json!(flaws),
        Refusal::AlreadyUploaded
        | Refusal::NotInteractive
        | Refusal::IdempotencyConflict
        | Refusal::Illegal { .. }
        | Refusal::NotCreated
        | Refusal::AlreadyCreated
        | Refusal::LastFilesMissing => json!({}),
    }
}
