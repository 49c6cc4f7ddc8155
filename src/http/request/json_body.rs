//! JSON bodies, read strictly and within a limit.

use axum::body::Body;
use axum::extract::{FromRequest, Request};
use axum::http::{HeaderMap, header};
use bytes::BytesMut;
use futures_util::StreamExt;
use memchr::{memchr_iter, memrchr};
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::error::Category;
use serde_path_to_error::Segment;

use crate::bounded::json::{check_names, has_at_most, too_deep_at};
use crate::bounded::object::Object;
use crate::domain::event::ValidationError;
use crate::http::answer::problem::Problem;
use crate::http::request::misfit::in_words;
use crate::http::state::app::App;
use crate::http::state::body_room::{Place, SMALL_BYTES};
use crate::http::state::task::blocking;

/// Most bytes of a JSON body.
const MAX_BYTES: usize = 8 * 1024 * 1024;

/// Most values of a JSON body. Of requests that keep their other limits, none has as many.
const MAX_VALUES: usize = 300_000;

/// Most arrays and objects inside each other. What is stored, and read with a limit of 128, has some more around them.
const MAX_LEVELS: usize = 120;

/// A JSON body that deserializes to `T`, and its room, to be kept while there is work with it.
#[derive(Default)]
pub(crate) struct JsonBody<T>(pub(crate) T, pub(crate) Place);

impl<T: DeserializeOwned + Send + 'static> FromRequest<App> for JsonBody<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &App) -> Result<Self, Problem> {
        check_type(request.headers())?;
        let mut place = Place::default();
        let bytes = read(request.into_body(), app, &mut place, MAX_BYTES).await?;
        parse_in_turn(bytes, app, place).await
    }
}

impl<T: DeserializeOwned + Send + 'static> JsonBody<T> {
    /// A body of somebody who is not known: so short that it takes no room from others.
    pub(crate) async fn of_anybody(request: Request, app: &App) -> Result<T, Problem> {
        check_type(request.headers())?;
        let mut place = Place::default();
        let bytes = read(request.into_body(), app, &mut place, SMALL_BYTES).await?;
        parse_in_turn(bytes, app, place).await.map(|JsonBody(value, _)| value)
    }
}

async fn parse_in_turn<T>(bytes: BytesMut, app: &App, mut place: Place) -> Result<JsonBody<T>, Problem>
where
    T: DeserializeOwned + Send + 'static,
{
    app.body_room().work(&mut place).await?;
    if bytes.len() <= SMALL_BYTES {
        return parse(&bytes).map(|value| JsonBody(value, place));
    }
    // Not where other requests are answered, because it takes long.
    blocking(move || {
        if !has_at_most(&bytes, MAX_VALUES) {
            return Err(Problem::TooManyValues { limit: MAX_VALUES });
        }
        parse(&bytes).map(|value| JsonBody(value, place))
    })
    .await
}

/// A JSON body, or no body at all.
pub(crate) struct JsonBodyOrNone<T>(pub(crate) Option<JsonBody<T>>);

impl<T: DeserializeOwned + Send + 'static> FromRequest<App> for JsonBodyOrNone<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &App) -> Result<Self, Problem> {
        let typed = check_type(request.headers());
        let mut place = Place::default();
        let bytes = read(request.into_body(), app, &mut place, MAX_BYTES).await?;
        if bytes.is_empty() {
            return Ok(Self(None));
        }
        typed?;
        parse_in_turn(bytes, app, place).await.map(Some).map(Self)
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

async fn read(body: Body, app: &App, place: &mut Place, most: usize) -> Result<BytesMut, Problem> {
    let mut stream = body.into_data_stream();
    let mut bytes = BytesMut::new();
    while let Some(piece) = stream.next().await {
        let piece = piece.map_err(|_| Problem::BodyBroken)?;
        let length = bytes.len() + piece.len();
        if length > most {
            return Err(Problem::BodyTooLarge { limit: most as u64 });
        }
        app.body_room().grow(place, length)?;
        bytes.extend_from_slice(&piece);
    }
    Ok(bytes)
}

pub(crate) fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    check_names(bytes).map_err(|error| not_valid(String::new(), error.to_string()))?;
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
    match too_deep_at(bytes, MAX_LEVELS) {
        Some(at) => Err(too_deep(bytes, at)),
        None => Ok(value),
    }
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

fn too_deep(bytes: &[u8], at: usize) -> Problem {
    let before = bytes.get(..at).unwrap_or_default();
    let (line, begin) = (memchr_iter(b'\n', before).count() + 1, memrchr(b'\n', before).map_or(0, |end| end + 1));
    let column = at - begin + 1;
    let reason =
        format!("more than {MAX_LEVELS} arrays and objects are inside each other at line {line} column {column}");
    Problem::InvalidJson { reason, line, column }
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
