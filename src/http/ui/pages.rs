//! `/ui` and `/docs`: the user interface and the reference of the API, from files inside the program. They hold no data; what
//! the pages show comes from the API.

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, StatusCode, header};
use axum::response::{IntoResponse, Response};

use crate::http::answer::problem::Problem;
use crate::http::server::grant::Granted;
use crate::http::state::app::App;
use crate::http::ui::files::{self, takes_gzip};

/// The page that every address below `/ui` gets; its script reads the address.
const SHELL: &str = "index.html";
const DOCS: &str = "docs.html";
const STATIC: &str = "/ui/static/";

/// Nothing from elsewhere, nothing inline, nothing evaluated, nothing framed.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; \
    connect-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; \
    trusted-types dompurify";

const ALWAYS: [(HeaderName, &str); 6] = [
    (header::CONTENT_SECURITY_POLICY, POLICY),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    // The next version of the program may have another file under the same name.
    (header::CACHE_CONTROL, "no-cache"),
    (header::VARY, "accept-encoding"),
];

/// A page. Whoever has to log in first gets the same file, which then shows the log-in page, and the status says so.
pub(crate) async fn shell(State(app): State<App>, granted: Granted, request: Request) -> Result<Response, Problem> {
    if !granted.has_to_log_in(&app.orchestrator().settings().http) {
        return embedded(SHELL, &request);
    }
    let challenge = [(header::WWW_AUTHENTICATE, challenge(&app))];
    let page = whole_file(SHELL, request.headers()).ok_or_else(|| missing(&request))?;
    Ok((StatusCode::UNAUTHORIZED, challenge, page).into_response())
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

fn missing(request: &Request) -> Problem {
    Problem::RouteNotFound { path: request.uri().path().to_owned() }
}

fn embedded(path: &str, request: &Request) -> Result<Response, Problem> {
    embedded_file(path, request.headers()).ok_or_else(|| missing(request))
}

/// A file, with everything that a browser has to know of it; none if there is no such file.
pub(crate) fn embedded_file(path: &str, headers: &HeaderMap) -> Option<Response> {
    let tag = files::named(path)?.tag(takes_gzip(headers));
    let known = [(header::ETAG, tag)];
    if is_known(headers, tag) {
        return Some((StatusCode::NOT_MODIFIED, ALWAYS, known).into_response());
    }
    Some((known, whole_file(path, headers)?).into_response())
}

/// A file, also if the client has it.
fn whole_file(path: &str, headers: &HeaderMap) -> Option<Response> {
    let (file, packed) = (files::named(path)?, takes_gzip(headers));
    let content_type = [(header::CONTENT_TYPE, file.content_type)];
    let encoding = packed.then_some([(header::CONTENT_ENCODING, "gzip")]);
    Some((ALWAYS, encoding, content_type, file.content(packed).ok()?).into_response())
}

/// Whether the client says that it has the file with this tag.
fn is_known(headers: &HeaderMap, etag: &str) -> bool {
    let given = headers.get_all(header::IF_NONE_MATCH).into_iter().filter_map(|value| value.to_str().ok());
    let mut tags = given.flat_map(|value| value.split(',')).map(|tag| tag.trim().trim_start_matches("W/"));
    tags.any(|tag| tag == etag || tag == "*")
}
