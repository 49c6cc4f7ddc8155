//! Why an engine failed, sorted by what its user can do about it.

use serde_json::Value;

use crate::domain::codes::ErrorCode;
use crate::domain::outcome::RunError;

/// Words of engines and services that mean a missing or refused login, in lower case.
const AUTH_WORDS: [&str; 14] = [
    "401 unauthorized",
    "status 401",
    "\"code\":401",
    "api error: 401",
    "unauthenticated",
    "incorrect api key",
    "invalid api key",
    "missing api key",
    "api key not valid",
    "not logged in",
    "please run /login",
    "authentication_error",
    "invalid auth method",
    "missing environment variable",
];

/// Words that mean too many requests, in lower case.
const RATE_WORDS: [&str; 9] = [
    "429 too many",
    "status 429",
    "status: 429",
    "\"code\":429",
    "api error: 429",
    "rate limit",
    "rate_limit",
    "resource_exhausted",
    "exceeded your current quota",
];

/// Words that mean that the service could not be reached or the connection to it broke, in lower case.
const CONNECTION_WORDS: [&str; 14] = [
    "connection refused",
    "econnrefused",
    "connection reset",
    "econnreset",
    "enotfound",
    "eai_again",
    "etimedout",
    "connection error",
    "unable to connect",
    "fetch failed",
    "stream disconnected",
    "error sending request",
    "stream ended without a finish reason",
    "socket hang up",
];

/// The detail of an error that says when the service can be asked again.
const RETRY_AFTER: &str = "retry_after_seconds";
/// The cause of an error of the connection to the model's service.
const CONNECTION: &str = "connection";

/// Whether a run's error is of the connection to the model's service.
pub(crate) fn is_of_connection(error: &RunError) -> bool {
    error.details.get("cause").is_some_and(|cause| cause == CONNECTION)
}

/// How long the model's service asks to wait, as a run's error says it.
pub(crate) fn retry_after(error: &RunError) -> Option<u64> {
    error.details.get(RETRY_AFTER).and_then(Value::as_u64)
}

/// A failure with its code.
#[derive(Debug, Clone, PartialEq)]
pub struct Failure {
    /// The code of the run's error.
    pub code: ErrorCode,
    /// In the engine's own words.
    pub(crate) message: String,
    /// The HTTP status of the model's service, where it is known.
    pub(crate) http_status: Option<u16>,
    /// When the service can be asked again, where it said so.
    pub(crate) retry_after_seconds: Option<u64>,
    /// Whether the model's service could not be reached, or the connection to it broke.
    pub(crate) connection: bool,
    /// The host that was not reached, where that is known.
    pub(crate) unreached: Option<String>,
}

impl Failure {
    /// A failure whose kind is known.
    pub(crate) fn new(code: ErrorCode, message: &str) -> Self {
        Self {
            code,
            message: super::excerpt::text(message),
            http_status: None,
            retry_after_seconds: None,
            connection: false,
            unreached: None,
        }
    }

    /// A failure sorted by the status of the model's service, else by the engine's words.
    pub(crate) fn classify(http_status: Option<u16>, message: &str) -> Self {
        let code = http_status.and_then(by_status).unwrap_or_else(|| by_words(message));
        let connection = code == ErrorCode::EngineFailed && http_status.is_none() && says(message, &CONNECTION_WORDS);
        Self { http_status, connection, ..Self::new(code, message) }
    }

    /// The same failure, sorted again when a status tells what the words did not.
    pub(crate) fn with_status(mut self, http_status: Option<u16>) -> Self {
        if self.code == ErrorCode::EngineFailed {
            self.code = http_status.and_then(by_status).unwrap_or(self.code);
        }
        self.http_status = self.http_status.or(http_status);
        self.connection &= self.http_status.is_none();
        self
    }

    /// Whether it may be this answer of somebody between the engine and its model's service.
    pub(super) fn may_be_status(&self, status: u16) -> bool {
        let sorted = matches!(self.code, ErrorCode::EngineFailed | ErrorCode::EngineAuthRequired);
        sorted && self.http_status.is_none_or(|known| known == status)
    }

    pub(crate) fn into_error(self) -> RunError {
        let status = self.http_status.map_or(Value::Null, Value::from);
        let mut error = RunError::new(self.code, self.message).with("http_status", status);
        if let Some(seconds) = self.retry_after_seconds {
            error = error.with(RETRY_AFTER, seconds);
        }
        if let Some(host) = self.unreached {
            error = error.with("host", host);
        }
        if self.connection { error.with("cause", CONNECTION) } else { error }
    }
}

fn by_status(status: u16) -> Option<ErrorCode> {
    match status {
        401 | 403 => Some(ErrorCode::EngineAuthRequired),
        429 => Some(ErrorCode::EngineRateLimited),
        _ => None,
    }
}

fn by_words(message: &str) -> ErrorCode {
    if says(message, &AUTH_WORDS) {
        ErrorCode::EngineAuthRequired
    } else if says(message, &RATE_WORDS) {
        ErrorCode::EngineRateLimited
    } else {
        ErrorCode::EngineFailed
    }
}

fn says(message: &str, words: &[&str]) -> bool {
    let message = message.to_lowercase();
    words.iter().any(|word| message.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_sorted_by_status_first_and_by_words_else() {
        let sorted = |status, message| Failure::classify(status, message).code;
        assert_eq!(sorted(Some(401), "x"), ErrorCode::EngineAuthRequired);
        assert_eq!(sorted(Some(429), "x"), ErrorCode::EngineRateLimited);
        assert_eq!(sorted(Some(500), "rate limit service is down"), ErrorCode::EngineRateLimited);
        assert_eq!(sorted(None, "unexpected status 401 Unauthorized: no"), ErrorCode::EngineAuthRequired);
        assert_eq!(
            sorted(None, "exceeded retry limit, last status: 429 Too Many Requests"),
            ErrorCode::EngineRateLimited
        );
        assert_eq!(sorted(None, "stream disconnected before completion"), ErrorCode::EngineFailed);
    }

    #[test]
    fn a_status_learnt_later_sorts_only_what_was_unsorted() {
        let later = |words| Failure::classify(None, words).with_status(Some(429)).code;
        assert_eq!(later("it broke"), ErrorCode::EngineRateLimited);
        assert_eq!(later("not logged in"), ErrorCode::EngineAuthRequired);
    }
}
