//! `/ui` and `/docs`: the user interface and the reference of the API, from files inside the program. They hold no data; what
//! the pages show comes from the API.

use std::collections::HashMap;
use std::sync::LazyLock;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, StatusCode, header};
use axum::response::{IntoResponse, Response};
use sha2::{Digest, Sha256};

use crate::http::answer::problem::Problem;
use crate::http::server::grant::Granted;
use crate::http::state::app::App;

include!(concat!(env!("OUT_DIR"), "/ui_files.rs"));

/// The page that every address below `/ui` gets; its script reads the address.
const SHELL: &str = "index.html";
const DOCS: &str = "docs.html";
const STATIC: &str = "/ui/static/";

/// Nothing from elsewhere, nothing inline, nothing evaluated, nothing framed.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; \
    connect-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; \
    trusted-types dompurify";

const SECURITY: [(HeaderName, &str); 5] = [
    (header::CONTENT_SECURITY_POLICY, POLICY),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    // The next version of the program may have another file under the same name.
    (header::CACHE_CONTROL, "no-cache"),
];

/// A file of the user interface.
struct Embedded {
    bytes: &'static [u8],
    /// The hash of the bytes, in quotes.
    etag: String,
    content_type: &'static str,
}

static FILES: LazyLock<HashMap<&'static str, Embedded>> = LazyLock::new(|| {
    let embedded = |(path, bytes): &(&'static str, &'static [u8])| {
        let etag = format!("\"{}\"", hex::encode(Sha256::digest(bytes)));
        (*path, Embedded { bytes, etag, content_type: content_type(path) })
    };
    UI_FILES.iter().map(embedded).collect()
});

/// The types of the files that the folder `ui` may have; a browser is told to believe them.
fn content_type(path: &str) -> &'static str {
    match path.rsplit_once('.').map_or("", |(_, ending)| ending) {
        "html" => "text/html; charset=utf-8",
        "js" | "mjs" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "json" => "application/json",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        _ => "text/plain; charset=utf-8",
    }
}

/// A page. Whoever has to log in first gets the same file, which then shows the log-in page, and the status says so.
pub(crate) async fn shell(State(app): State<App>, granted: Granted, request: Request) -> Result<Response, Problem> {
    if !granted.has_to_log_in(&app.orchestrator().settings().http) {
        return embedded(SHELL, &request);
    }
    let challenge = [(header::WWW_AUTHENTICATE, challenge(&app))];
    let page = file_named(SHELL, &request)?;
    let content_type = [(header::CONTENT_TYPE, page.content_type)];
    Ok((StatusCode::UNAUTHORIZED, SECURITY, challenge, content_type, Body::from(page.bytes)).into_response())
}

/// What a client that is no browser is asked for.
fn challenge(app: &App) -> &'static str {
    let settings = &app.orchestrator().settings().http;
    if settings.ui_login.is_some() && settings.token.is_none() { "Basic" } else { "Bearer" }
}

/// The page that shows the document of the API.
pub(crate) async fn docs(request: Request) -> Result<Response, Problem> {
    embedded(DOCS, &request)
}

pub(crate) async fn file(request: Request) -> Result<Response, Problem> {
    let path = request.uri().path().strip_prefix(STATIC).unwrap_or_default();
    embedded(path, &request)
}

fn file_named(path: &str, request: &Request) -> Result<&'static Embedded, Problem> {
    FILES.get(path).ok_or_else(|| Problem::RouteNotFound { path: request.uri().path().to_owned() })
}

fn embedded(path: &str, request: &Request) -> Result<Response, Problem> {
    let missing = || Problem::RouteNotFound { path: request.uri().path().to_owned() };
    embedded_file(path, request.headers()).ok_or_else(missing)
}

/// A file, with everything that a browser has to know of it; none if there is no such file.
pub(crate) fn embedded_file(path: &str, headers: &HeaderMap) -> Option<Response> {
    let file = FILES.get(path)?;
    let tag = [(header::ETAG, file.etag.as_str())];
    if is_known(headers, &file.etag) {
        return Some((StatusCode::NOT_MODIFIED, SECURITY, tag).into_response());
    }
    let content_type = [(header::CONTENT_TYPE, file.content_type)];
    Some((SECURITY, tag, content_type, Body::from(file.bytes)).into_response())
}

/// Whether the client says that it has the file with this tag.
fn is_known(headers: &HeaderMap, etag: &str) -> bool {
    let given = headers.get_all(header::IF_NONE_MATCH).into_iter().filter_map(|value| value.to_str().ok());
    let mut tags = given.flat_map(|value| value.split(',')).map(|tag| tag.trim().trim_start_matches("W/"));
    tags.any(|tag| tag == etag || tag == "*")
}
