//! Checks every request (host, what it is granted, origin, query) and gives every error its envelope.

use std::future::Future;
use std::net::Ipv4Addr;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{MatchedPath, Request, State};
use axum::http::{Extensions, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Redirect, Response};
use futures_util::FutureExt;

use crate::domain::ids::RequestId;
use crate::http::answer::envelope::{finish, is_refusal, refusal_status};
use crate::http::answer::problem::Problem;
use crate::http::request::query::{Query, only_known};
use crate::http::request::run_in_path::{KnownRequest, OnlyRun};
use crate::http::request::unread_body::UnreadBody;
use crate::http::server::grant::{Access, Granted};
use crate::http::server::header::one;
use crate::http::server::host;
use crate::http::server::origin::{self, Origin, is_browser, is_of_other_page, is_of_own_page, wants_page};
use crate::http::server::peer::{Peer, PeerAt};
use crate::http::server::request_span::AskedBy;
use crate::http::server::route_table::{Parameters, Row, Rows};
use crate::http::server::security;
use crate::http::state::app::{App, Changes};
use crate::http::state::turns::Pace;
use crate::http::state::wanted::Wanted;
use crate::orchestrator::Error;

/// Most bytes of path and query string.
const URI_MAX: usize = 16 * 1024;

/// The query parameter of streams that a ticket is sent in.
pub(crate) const TICKET: &str = "ticket";

/// Whether the service lives is told to everybody, also while its store is away.
const HEALTH: [&str; 2] = ["/healthz", "/readyz"];

/// The page about the API needs as much as its data; a person who opens it without is led to the log-in page.
const DOCS: &str = "/docs";
const LOG_IN_FOR_DOCS: &str = "/ui/log-in?to=%2Fdocs";

/// What every request has to pass.
#[derive(Clone)]
pub(crate) struct Gate {
    pub(crate) app: App,
    pub(crate) rows: Arc<Rows>,
}

impl Gate {
    /// The row of the route that answers a request; none if there is no route for its path and method.
    fn row(&self, request: &Request) -> Option<&Row> {
        self.rows.of(request.method(), matched(request)?)
    }

    /// What a request needs. One that no route answers needs as much as looking, so that only those who may look learn which
    /// routes there are; a route that is missing in the table needs the most.
    fn needs(&self, request: &Request) -> Access {
        match (self.row(request), matched(request)) {
            (Some(row), _) => row.needs,
            (None, Some(path)) if !self.rows.has(path) => Access::Admin,
            (None, _) => Access::Read,
        }
    }
}

/// The answer to a request that failed because its run was deleted meanwhile: its row goes first, then its files. What is
/// found missing then is not damage.
async fn gone_meanwhile(gate: &Gate, request: RequestId) -> Option<Problem> {
    let found = gate.app.orchestrator().resolve(&request.to_string()).await;
    found.err().filter(|error| matches!(error, Error::RunNotFound { .. })).map(Problem::from)
}

/// The path of the route that the router chose.
fn matched(request: &Request) -> Option<&str> {
    request.extensions().get().map(MatchedPath::as_str)
}

/// Checks a request, answers it, and gives every error its envelope.
pub(crate) async fn guard(State(gate): State<Gate>, mut request: Request, next: Next) -> Response {
    let known = KnownRequest::default();
    request.extensions_mut().insert(known.clone());
    let unread = UnreadBody::default();
    let seconds = gate.app.orchestrator().settings().http.connections.body_timeout_seconds;
    let mut request = request.map(|body| unread.lend(body, Duration::from_secs(seconds)));
    let is_chunked = request.headers().contains_key(header::TRANSFER_ENCODING);
    let sends_when_told = request.headers().contains_key(header::EXPECT);
    let is_open = gate.row(&request).is_some_and(|row| row.needs == Access::Open);
    let answering = (!is_open).then(|| gate.app.turns().begin()).transpose();
    let listed = &gate.app.orchestrator().settings().http.allowed_origins;
    let origin = Origin::of(request.headers(), listed);
    let (of_browser, of_person) = (is_browser(request.headers()), wants_page(request.headers()));
    let asks_for_docs = matched(&request) == Some(DOCS);
    let looked = match wants(&gate, &request) {
        Ok(wanted) => gate.app.access().look(wanted).await.map_err(Problem::from),
        Err(problem) => Err(problem),
    };
    let checked = looked.and_then(|()| check(&gate, &request, &origin)).and_then(|passed| Ok((passed, answering?)));
    let mut response = match checked {
        Ok((Passed::Preflight(answer), _)) => answer,
        Ok((Passed::Granted(granted), answering)) => {
            if let Some(run) = granted.only_run() {
                request.extensions_mut().insert(OnlyRun(run));
            }
            let by = AskedBy(granted.by());
            request.extensions_mut().insert(granted);
            let pace = gate.row(&request).map_or(Pace::Usual, |row| row.pace);
            let query = request.uri().query().unwrap_or_default().to_owned();
            let answer = answered(gate.app.clone(), is_open, next.run(request));
            let mut response = gate.app.turns().take(pace, &query, answer).await;
            response.extensions_mut().insert(by);
            if let Some(answering) = answering {
                response.extensions_mut().insert(answering);
            }
            response
        }
        Err(problem) => {
            drop(request);
            problem.into_response()
        }
    };
    if unread.timed_out() {
        response = Problem::BodyTimeout { seconds }.into_response();
    } else if is_refusal(&response) && (unread.was_begun() || !sends_when_told) {
        unread.discard().await;
    }
    let status = refusal_status(&response);
    if let Some(request) = known.0.get()
        && status.is_some_and(|status| [StatusCode::INTERNAL_SERVER_ERROR, StatusCode::GONE].contains(&status))
        && let Some(gone) = gone_meanwhile(&gate, *request).await
    {
        response = gone.into_response();
    }
    let mut response = finish(response, known.0.get().copied());
    if response.status() == StatusCode::UNAUTHORIZED && of_person && asks_for_docs {
        response = Redirect::to(LOG_IN_FOR_DOCS).into_response();
    }
    if response.status() == StatusCode::UNAUTHORIZED && of_browser {
        response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    origin.add_to(response.headers_mut(), listed);
    security::add_to(response.headers_mut());
    if is_chunked {
        // hyper hides a Content-Length beside it. Something before the service may have gone by that one and see a
        // request where this body ends, or the other way round: nothing on this connection is taken for a request again.
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

/// The answer, and its room in memory until it is sent. The files of the pages are always there, for anybody.
async fn answered(app: App, is_open: bool, answer: impl Future<Output = Response> + Send) -> Response {
    let response = caught(answer).await;
    if is_open {
        return response;
    }
    app.room().hold_made(response).await.unwrap_or_else(Problem::into_response)
}

/// A panic in a handler is an internal error of this request; the connection stays open.
async fn caught(answer: impl Future<Output = Response> + Send) -> Response {
    AssertUnwindSafe(answer).catch_unwind().await.unwrap_or_else(|_| Problem::Panicked.into_response())
}

/// What became of a request that passed all checks.
enum Passed {
    Granted(Granted),
    /// A browser only asked what it may send.
    Preflight(Response),
}

/// Checks whether a request can be asked here at all, and says what has to be looked at to tell what it is granted.
fn wants(gate: &Gate, request: &Request) -> Result<Wanted, Problem> {
    let settings = &gate.app.orchestrator().settings().http;
    let path = request.uri().path();
    if gate.app.is_closing() && path != "/healthz" {
        return Err(Problem::Closing);
    }
    if request.uri().path().len() + request.uri().query().map_or(0, str::len) > URI_MAX {
        return Err(Problem::UriTooLong { limit: URI_MAX });
    }
    let host = one(request.headers(), &header::HOST).unwrap_or_default();
    // An authority in the request line overrides the Host header, so both must be allowed.
    let named = request.uri().authority().map_or(host, |authority| authority.as_str());
    for name in [host, named] {
        if !host::is_allowed(&settings.allowed_hosts, name) {
            return Err(Problem::ForbiddenHost { host: name.chars().take(100).collect() });
        }
    }
    let has_ticket = ticket(gate.row(request), request.uri().query().unwrap_or_default()).is_ok_and(|it| it.is_some());
    Ok(if HEALTH.contains(&path) { Wanted::Nothing } else { Granted::wants(&gate.app, request.headers(), has_ticket) })
}

fn check(gate: &Gate, request: &Request, origin: &Origin) -> Result<Passed, Problem> {
    let path = request.uri().path();
    let headers = request.headers();
    if let Some(answer) = origin::preflight(request.method(), headers, origin) {
        return answer.map(Passed::Preflight);
    }
    let row = gate.row(request);
    let query = request.uri().query().unwrap_or_default();
    let granted = match ticket(row, query)? {
        Some(ticket) => Granted::by_ticket(&gate.app, &ticket)?,
        None => Granted::to(&gate.app, headers, peer_in(request.extensions()), origin)?,
    };
    granted.require(gate.needs(request))?;
    let reads = [Method::GET, Method::HEAD, Method::OPTIONS].contains(request.method());
    // Who may look may log in, and may have a ticket.
    if !reads && gate.app.changes() == Changes::Refused && gate.needs(request) > Access::Read {
        let (method, path) = (request.method().to_string(), path.to_owned());
        return Err(Problem::MethodNotAllowed { method, path });
    }
    // Browsers name the origin of what changes something. A session counts for pages of the service alone.
    let from_page = *origin == Origin::Own || is_of_own_page(headers);
    let is_foreign = *origin == Origin::Foreign || (*origin == Origin::None && is_of_other_page(headers));
    if !reads && (is_foreign || (granted.by_cookie() && !from_page)) {
        return Err(origin::foreign(headers));
    }
    percent_encoded(path, "path")?;
    percent_encoded(query, "query string")?;
    if let Some(Row { parameters: Parameters::Only(known), .. }) = row {
        only_known(query, known)?;
    }
    Ok(Passed::Granted(granted))
}

/// Who sent a request. Put there for each by its connection.
pub(crate) fn peer_in(extensions: &Extensions) -> PeerAt {
    let nobody = PeerAt { peer: Peer::Stranger { uid: None }, address: Ipv4Addr::UNSPECIFIED.into() };
    extensions.get().copied().unwrap_or(nobody)
}

/// The ticket that a request for a stream of events comes with.
fn ticket(row: Option<&Row>, query: &str) -> Result<Option<String>, Problem> {
    match row {
        Some(Row { parameters: Parameters::Only(known), .. }) if known.contains(&TICKET) => {
            Ok(Query::parse(query)?.text(TICKET))
        }
        _ => Ok(None),
    }
}

fn percent_encoded(text: &str, part: &str) -> Result<(), Problem> {
    let bytes = text.as_bytes();
    let broken = bytes
        .iter()
        .enumerate()
        .filter(|(_, byte)| **byte == b'%')
        .any(|(at, _)| !bytes.get(at + 1..at + 3).is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit)));
    if broken {
        let message = format!("the {part} has a % that is not followed by two hexadecimal digits");
        return Err(Problem::InvalidRequest { message, details: Vec::new() });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_handler_that_panics_is_an_internal_error_with_a_log_id() {
        let panicking = async {
            if true {
                panic!("a mistake in a handler");
            }
            ().into_response()
        };
        let response = finish(caught(panicking).await, None);
        assert_eq!(response.status().as_u16(), 500);
        let body = axum::body::to_bytes(response.into_body(), 10_000).await.unwrap();
        let body: serde_json::Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(body["error"]["code"], "INTERNAL");
        assert!(body["error"]["details"]["log_id"].is_string());
        assert!(!body.to_string().contains("mistake"), "the cause is for the log alone");
    }
}
