//! The HTTP status, code and details of every problem: the only place that knows status codes.
//!
//! A reply that comes too late is here too: `INTERACTION_STALE` and `INTERACTION_NOT_PENDING`, both 409.

use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use serde_json::{Value, json};

use crate::domain::command::Refusal;
use crate::domain::event::ValidationError;
use crate::files::LookupError;
use crate::http::answer::problem::Problem;
use crate::orchestrator::Error;
use crate::store;
use crate::workspace::RangeError;

/// Seconds after which a client should try a full queue again.
const RETRY_AFTER: &str = "1";

/// The parts of an error response.
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) code: &'static str,
    pub(crate) details: Value,
    pub(crate) header: Option<(HeaderName, HeaderValue)>,
}

fn plain(status: StatusCode, code: &'static str) -> Answer {
    detailed(status, code, json!({}))
}

fn detailed(status: StatusCode, code: &'static str, details: Value) -> Answer {
    Answer { status, code, details, header: None }
}

fn internal() -> Answer {
    plain(StatusCode::INTERNAL_SERVER_ERROR, "INTERNAL")
}

fn validation(code: &'static str, details: &[ValidationError]) -> Answer {
    let details = if details.is_empty() { json!({}) } else { json!(details) };
    detailed(StatusCode::BAD_REQUEST, code, details)
}

pub(crate) fn answer(problem: &Problem) -> Answer {
    match problem {
        Problem::Orchestrator(error) => orchestrator(error),
        Problem::Range(RangeError::Reversed { .. }) => plain(StatusCode::BAD_REQUEST, "INVALID_REQUEST"),
        Problem::Range(RangeError::BeyondEnd { total_bytes, .. }) => unsatisfiable(*total_bytes),
        Problem::Range(RangeError::Io(_)) => internal(),
        Problem::File { source, .. } => match source {
            LookupError::Unsafe { .. } => plain(StatusCode::BAD_REQUEST, "UNSAFE_PATH"),
            LookupError::NotFound | LookupError::NotAFile => plain(StatusCode::NOT_FOUND, "ARTIFACT_NOT_FOUND"),
            LookupError::Io { .. } => internal(),
        },
        Problem::RunFile { source, .. } => match source {
            LookupError::Unsafe { .. } => plain(StatusCode::BAD_REQUEST, "UNSAFE_PATH"),
            LookupError::NotFound | LookupError::NotAFile => plain(StatusCode::NOT_FOUND, "FILE_NOT_FOUND"),
            LookupError::Io { .. } => internal(),
        },
        Problem::ArtifactNotFound { .. } => plain(StatusCode::NOT_FOUND, "ARTIFACT_NOT_FOUND"),
        Problem::UnsafePath { .. } => plain(StatusCode::BAD_REQUEST, "UNSAFE_PATH"),
        Problem::InvalidJson { line, column, .. } => {
            detailed(StatusCode::BAD_REQUEST, "INVALID_JSON", json!({"line": line, "column": column}))
        }
        Problem::InvalidRequest { details, .. } => validation("INVALID_REQUEST", details),
        Problem::InvalidCursor { .. } => plain(StatusCode::BAD_REQUEST, "INVALID_CURSOR"),
        Problem::UnsupportedMediaType { .. } => plain(StatusCode::UNSUPPORTED_MEDIA_TYPE, "UNSUPPORTED_MEDIA_TYPE"),
        Problem::BodyTooLarge { limit } => {
            detailed(StatusCode::PAYLOAD_TOO_LARGE, "PAYLOAD_TOO_LARGE", json!({"limit_bytes": limit}))
        }
        Problem::BodyBroken => plain(StatusCode::BAD_REQUEST, "INVALID_REQUEST"),
        Problem::RouteNotFound { .. } => plain(StatusCode::NOT_FOUND, "ROUTE_NOT_FOUND"),
        Problem::MethodNotAllowed { .. } => plain(StatusCode::METHOD_NOT_ALLOWED, "METHOD_NOT_ALLOWED"),
        Problem::Unauthorized => Answer {
            header: Some((header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"))),
            ..plain(StatusCode::UNAUTHORIZED, "UNAUTHORIZED")
        },
        Problem::ForbiddenHost { .. } => plain(StatusCode::FORBIDDEN, "FORBIDDEN_HOST"),
        Problem::ForbiddenOrigin { .. } => plain(StatusCode::FORBIDDEN, "FORBIDDEN_ORIGIN"),
        Problem::ResultNotReady { status } => {
            detailed(StatusCode::CONFLICT, "RESULT_NOT_READY", json!({"status": status}))
        }
        Problem::BundleNotReady { status } => {
            detailed(StatusCode::CONFLICT, "BUNDLE_NOT_READY", json!({"status": status}))
        }
        Problem::RangeNotSatisfiable { size } => unsatisfiable(*size),
        Problem::SkillInvalid { findings, .. } => {
            detailed(StatusCode::NOT_FOUND, "SKILL_NOT_FOUND", json!({"findings": findings}))
        }
        Problem::EngineNotFound { .. } => plain(StatusCode::NOT_FOUND, "ENGINE_NOT_FOUND"),
        Problem::InstallNotFound { .. } => plain(StatusCode::NOT_FOUND, "INSTALL_NOT_FOUND"),
        Problem::UpgradeNotFound { .. } => plain(StatusCode::NOT_FOUND, "UPGRADE_NOT_FOUND"),
        Problem::UpgradesBusy { limit } => Answer {
            header: Some((header::RETRY_AFTER, HeaderValue::from_static(RETRY_AFTER))),
            ..detailed(StatusCode::TOO_MANY_REQUESTS, "QUEUE_FULL", json!({"max_upgrades": limit}))
        },
        Problem::EngineFile { .. } => internal(),
        Problem::LoginNeeded => Answer {
            header: Some((header::WWW_AUTHENTICATE, HeaderValue::from_static("Basic"))),
            ..plain(StatusCode::UNAUTHORIZED, "UNAUTHORIZED")
        },
        Problem::Closing => plain(StatusCode::SERVICE_UNAVAILABLE, "SHUTTING_DOWN"),
        Problem::Panicked => internal(),
    }
}

fn unsatisfiable(size: u64) -> Answer {
    Answer {
        header: HeaderValue::from_str(&format!("bytes */{size}")).ok().map(|value| (header::CONTENT_RANGE, value)),
        ..detailed(StatusCode::RANGE_NOT_SATISFIABLE, "RANGE_NOT_SATISFIABLE", json!({"total_bytes": size}))
    }
}

fn orchestrator(error: &Error) -> Answer {
    match error {
        Error::Refused(refusal) => refused(refusal),
        Error::Rejected { code: "PAYLOAD_TOO_LARGE", .. } => plain(StatusCode::PAYLOAD_TOO_LARGE, "PAYLOAD_TOO_LARGE"),
        Error::Rejected { code, details, .. } => validation(code, details),
        Error::RunNotFound { .. } => plain(StatusCode::NOT_FOUND, "REQUEST_NOT_FOUND"),
        Error::SkillNotFound { .. } => plain(StatusCode::NOT_FOUND, "SKILL_NOT_FOUND"),
        Error::PackageInvalid { findings } => {
            detailed(StatusCode::BAD_REQUEST, "SKILL_PACKAGE_INVALID", json!({"findings": findings}))
        }
        Error::IdempotencyConflict => plain(StatusCode::CONFLICT, "IDEMPOTENCY_CONFLICT"),
        Error::QueueFull { limit } => Answer {
            header: Some((header::RETRY_AFTER, HeaderValue::from_static(RETRY_AFTER))),
            ..detailed(StatusCode::TOO_MANY_REQUESTS, "QUEUE_FULL", json!({"max_queued_jobs": limit}))
        },
        Error::InstallsBusy { limit } => Answer {
            header: Some((header::RETRY_AFTER, HeaderValue::from_static(RETRY_AFTER))),
            ..detailed(StatusCode::TOO_MANY_REQUESTS, "QUEUE_FULL", json!({"max_installs": limit}))
        },
        Error::ShuttingDown => plain(StatusCode::SERVICE_UNAVAILABLE, "SHUTTING_DOWN"),
        Error::InsufficientStorage { free, floor } => detailed(
            StatusCode::INSUFFICIENT_STORAGE,
            "INSUFFICIENT_STORAGE",
            json!({"free_bytes": free, "min_free_bytes": floor}),
        ),
        Error::SeqOutOfRange { head, .. } => {
            detailed(StatusCode::BAD_REQUEST, "SEQ_OUT_OF_RANGE", json!({"head_seq": head}))
        }
        Error::FieldNotFound { .. } => plain(StatusCode::NOT_FOUND, "FIELD_NOT_FOUND"),
        Error::NotReady => plain(StatusCode::CONFLICT, "RESULT_NOT_READY"),
        Error::Store(error) => stored(error),
        Error::Contract(_) | Error::Corrupt { .. } | Error::Io { .. } => internal(),
    }
}

fn refused(refusal: &Refusal) -> Answer {
    match refusal {
        Refusal::RunFinal { status } => detailed(StatusCode::CONFLICT, "RUN_FINAL", json!({"status": status})),
        Refusal::AlreadyUploaded => plain(StatusCode::CONFLICT, "ALREADY_UPLOADED"),
        Refusal::NotInteractive => plain(StatusCode::BAD_REQUEST, "NOT_INTERACTIVE"),
        Refusal::InteractionStale { open, .. } => {
            detailed(StatusCode::CONFLICT, "INTERACTION_STALE", json!({"pending_interaction_id": open}))
        }
        Refusal::InteractionNotPending { status } => {
            detailed(StatusCode::CONFLICT, "INTERACTION_NOT_PENDING", json!({"status": status}))
        }
        Refusal::ResponseInvalid { flaws, .. } => {
            detailed(StatusCode::BAD_REQUEST, "INPUT_VALIDATION_FAILED", json!(flaws))
        }
        Refusal::IdempotencyConflict => plain(StatusCode::CONFLICT, "IDEMPOTENCY_CONFLICT"),
        // No client can cause this: the handlers only ask for transitions that exist.
        Refusal::Illegal { .. } | Refusal::NotCreated | Refusal::AlreadyCreated | Refusal::LastFilesMissing => {
            internal()
        }
    }
}

fn stored(error: &store::Error) -> Answer {
    match error {
        store::Error::TooLarge { limit, .. } => {
            detailed(StatusCode::PAYLOAD_TOO_LARGE, "PAYLOAD_TOO_LARGE", json!({"limit_bytes": limit}))
        }
        store::Error::Full { available, .. } => {
            detailed(StatusCode::INSUFFICIENT_STORAGE, "INSUFFICIENT_STORAGE", json!({"free_bytes": available}))
        }
        store::Error::Closed => plain(StatusCode::SERVICE_UNAVAILABLE, "SHUTTING_DOWN"),
        store::Error::Conflict { .. }
        | store::Error::Taken { .. }
        | store::Error::Malformed { .. }
        | store::Error::Unavailable { .. }
        | store::Error::Corrupt { .. }
        | store::Error::CorruptFile { .. }
        | store::Error::Locked { .. }
        | store::Error::Format { .. }
        | store::Error::Io { .. }
        | store::Error::Engine { .. } => internal(),
    }
}
