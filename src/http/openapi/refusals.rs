//! The refusals of a route: those that every route like it has, and how they stand in the document.

use serde_json::{Map, Value, json};

use crate::domain::codes::ErrorCode;
use crate::http::openapi::shape::Takes;
use crate::http::server::route_table::Route;

/// Most codes of a response that stands among the components; a longer list belongs to few routes.
const SHARED_CODES: usize = 4;

/// The schema of nearly all refusals.
pub(super) const USUAL: &str = "Error";

/// The codes that each route of this kind may answer with.
pub(super) fn of_every(route: &Route, takes: Takes) -> Vec<ErrorCode> {
    let mut codes = vec![
        ErrorCode::InvalidRequest,
        ErrorCode::ForbiddenHost,
        ErrorCode::RequestTimeout,
        ErrorCode::UriTooLong,
        ErrorCode::HeadersTooLarge,
        ErrorCode::Internal,
        ErrorCode::ResourceLimitExceeded,
        ErrorCode::TooManyConnections,
        ErrorCode::ShuttingDown,
        ErrorCode::StoreUnreachable,
        ErrorCode::InsufficientStorage,
    ];
    if route.needs != "open" {
        codes.extend([ErrorCode::Unauthorized, ErrorCode::ForbiddenScope, ErrorCode::TooManyFailedLogins]);
    }
    if route.path.contains('{') {
        // A part of the path that is empty or has a slash leads to another route, or to none.
        codes.push(ErrorCode::RouteNotFound);
    }
    if route.method != "GET" {
        // The latter where a recording is served, which nobody can change.
        codes.extend([ErrorCode::ForbiddenOrigin, ErrorCode::MethodNotAllowed]);
    }
    match takes {
        Takes::Nothing => {}
        Takes::Json(_) | Takes::JsonOrNothing(_) => {
            codes.extend([ErrorCode::InvalidJson, ErrorCode::PayloadTooLarge, ErrorCode::UnsupportedMediaType]);
        }
        Takes::Form(_) => codes.extend([
            ErrorCode::PayloadTooLarge,
            ErrorCode::UnsupportedMediaType,
            ErrorCode::InvalidZip,
            ErrorCode::UnsafePath,
        ]),
    }
    codes
}

/// The response of a status with one of these codes.
pub(super) fn response(status: u16, codes: &[ErrorCode], schema: &str, components: &mut Value) -> Value {
    if codes.len() > SHARED_CODES || schema != USUAL {
        return written(status, codes, schema);
    }
    let name = format!("{status}-{}", codes.iter().map(|code| code.as_str()).collect::<Vec<_>>().join("-"));
    components["responses"][&name] = written(status, codes, USUAL);
    json!({"$ref": format!("#/components/responses/{name}")})
}

fn written(status: u16, codes: &[ErrorCode], schema: &str) -> Value {
    let texts: Vec<&str> = codes.iter().map(|code| code.as_str()).collect();
    let means: Vec<String> = codes.iter().map(|code| format!("`{code}`: {}", code.means())).collect();
    let examples =
        texts.iter().map(|code| ((*code).to_owned(), json!({"$ref": format!("#/components/examples/{code}")})));
    let mut headers = json!({"X-Request-Id": {"$ref": "#/components/headers/X-Request-Id"}});
    let more = match status {
        401 => Some("WWW-Authenticate"),
        416 => Some("Content-Range"),
        429 | 503 => Some("Retry-After"),
        _ => None,
    };
    if let Some(name) = more {
        headers[name] = json!({"$ref": format!("#/components/headers/{name}")});
    }
    json!({
        "description": means.join(" "),
        "headers": headers,
        "content": {"application/json": {
            "schema": {
                "$ref": format!("#/components/schemas/{schema}"),
                "properties": {"error": {"properties": {"code": {"enum": texts}}}},
            },
            "examples": examples.collect::<Map<_, _>>(),
        }},
    })
}

/// An example of each code that a request can be refused with.
pub(super) fn examples() -> Value {
    // An installation that a restart ended is answered with a code of runs.
    let answered =
        |code: &&ErrorCode| code.info().http.is_some() || **code == ErrorCode::OrchestratorRestartInterrupted;
    let requests = ErrorCode::ALL.iter().filter(answered);
    let example = |code: &ErrorCode| {
        let error = json!({"code": code, "message": code.means(), "details": {}, "request_id": null});
        let example = json!({"summary": code.means(), "description": format!("What to do: {}", code.info().hint.api), "value": {"error": error}});
        (code.as_str().to_owned(), example)
    };
    Value::Object(requests.map(example).collect())
}
