//! JSON bodies, read strictly and within a limit.

use axum::body::{Body, to_bytes};
use axum::extract::{FromRequest, Request};
use axum::http::{HeaderMap, header};
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::error::Category;
use serde_path_to_error::Segment;

use crate::bounded::object::Object;
use crate::domain::event::ValidationError;
use crate::http::answer::problem::Problem;
use crate::http::request::misfit::in_words;

/// Most bytes of a JSON body.
const MAX_BYTES: usize = 8 * 1024 * 1024;

/// A JSON body that deserializes to `T`.
pub(crate) struct JsonBody<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for JsonBody<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, _: &S) -> Result<Self, Problem> {
        check_type(request.headers())?;
        let bytes = read(request.into_body()).await?;
        parse(&bytes).map(Self)
    }
}

/// A JSON body, or no body at all.
pub(crate) struct JsonBodyOrNone<T>(pub(crate) Option<T>);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for JsonBodyOrNone<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, _: &S) -> Result<Self, Problem> {
        let typed = check_type(request.headers());
        let bytes = read(request.into_body()).await?;
        if bytes.is_empty() {
            return Ok(Self(None));
        }
        typed?;
        parse(&bytes).map(Some).map(Self)
    }
}

fn check_type(headers: &HeaderMap) -> Result<(), Problem> {
    let given = headers.get(header::CONTENT_TYPE).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
    let given = given.unwrap_or_default();
    let essence = given.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    if essence == "application/json" || (essence.starts_with("application/") && essence.ends_with("+json")) {
        return Ok(());
    }
    Err(Problem::UnsupportedMediaType { given: given.chars().take(100).collect(), expected: "application/json" })
}

async fn read(body: Body) -> Result<bytes::Bytes, Problem> {
    to_bytes(body, MAX_BYTES).await.map_err(|error| {
        let cause = std::error::Error::source(&error);
        if cause.is_some_and(|cause| cause.is::<http_body_util::LengthLimitError>()) {
            Problem::BodyTooLarge { limit: MAX_BYTES as u64 }
        } else {
            Problem::BodyBroken
        }
    })
}

fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let Object(value) = serde_path_to_error::deserialize(&mut reader).map_err(|error| {
        let path = pointer(error.path());
        let error = error.into_inner();
        // The parser calls it a mistake of syntax if a word is expected and an array or a number is there.
        let is_of_another_kind = error.to_string().starts_with("expected value ");
        if is_of_another_kind && serde_json::from_slice::<IgnoredAny>(bytes).is_ok() {
            return not_valid(path, "is a value of another kind than expected".to_owned());
        }
        misfit(error, path)
    })?;
    reader.end().map_err(|error| misfit(error, String::new()))?;
    Ok(value)
}

fn misfit(error: serde_json::Error, path: String) -> Problem {
    match error.classify() {
        Category::Data => {
            // The JSON pointer in details names the place; line and column would only repeat it.
            let message = error.to_string();
            let message = in_words(message.rsplit_once(" at line ").map_or(message.as_str(), |(message, _)| message));
            not_valid(path, message)
        }
        Category::Syntax | Category::Eof | Category::Io => {
            Problem::InvalidJson { reason: error.to_string(), line: error.line(), column: error.column() }
        }
    }
}

fn not_valid(path: String, message: String) -> Problem {
    Problem::InvalidRequest {
        message: format!("the body is not valid{}: {message}", place(&path)),
        details: vec![ValidationError { path, message }],
    }
}

fn place(path: &str) -> String {
    if path.is_empty() { String::new() } else { format!(" at {path}") }
}

fn pointer(path: &serde_path_to_error::Path) -> String {
    let part = |segment: &Segment| match segment {
        Segment::Map { key } => format!("/{}", key.replace('~', "~0").replace('/', "~1")),
        Segment::Seq { index } => format!("/{index}"),
        Segment::Enum { variant } => format!("/{variant}"),
        Segment::Unknown => String::new(),
    };
    path.iter().map(part).collect()
}
