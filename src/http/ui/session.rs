//! `/ui/session`: who is logged in in this browser, logging in and logging out.

use axum::Json;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde_json::{Value, json};
use tracing::info;

use crate::http::answer::problem::Problem;
use crate::http::request::json_body::JsonBody;
use crate::http::server::access::peer_in;
use crate::http::server::cookie;
use crate::http::server::grant::{Doors, Granted};
use crate::http::server::origin::{Origin, foreign, is_over_tls};
use crate::http::state::app::App;
use crate::http::state::wanted::Wanted;

/// What a person types into the log-in page.
#[derive(Deserialize)]
#[serde(untagged, deny_unknown_fields)]
enum Credentials {
    Token { token: String },
    Login { username: String, password: String },
}

pub(crate) async fn now(State(app): State<App>, granted: Granted) -> Json<Value> {
    Json(told(&app, &granted))
}

/// What the browser may do, and how to log in.
fn told(app: &App, granted: &Granted) -> Value {
    let settings = &app.orchestrator().settings().http;
    let ways: &[&str] = if settings.ui_login.is_some() { &["password", "token"] } else { &["token"] };
    json!({
        "log_in": granted.has_to_log_in(settings),
        "ways": ways,
        "access": granted.access().as_str(),
        "name": granted.by(),
        "session": granted.by_cookie(),
    })
}

pub(crate) async fn log_in(State(app): State<App>, request: Request) -> Result<Response, Problem> {
    only_own_pages(&app, &request)?;
    let peer = peer_in(request.extensions());
    let (parts, body) = request.into_parts();
    let credentials = JsonBody::of_anybody(Request::from_parts(parts.clone(), body), &app).await?;
    app.access().look(Wanted::Tokens).await?;
    let doors = Doors::new(&app, peer);
    let granted = match credentials {
        Credentials::Token { token } => doors.token(&token)?,
        Credentials::Login { username, password } => doors.login(format!("{username}:{password}").as_bytes())?,
    };
    let granted = granted.ok_or(Problem::WrongCredentials)?;
    // It is durable before the browser hears of it.
    let session = doors.open_session(&granted).await?.ok_or(Problem::WrongCredentials)?;
    info!(by = granted.by(), access = granted.access().as_str(), "a browser has logged in");
    let seconds = app.orchestrator().settings().http.session_hours * 3600;
    let set = cookie::set(&parts.headers, &session, seconds, is_over_tls(&parts));
    Ok(with_cookie(Json(told(&app, &granted.in_session(&session))), set))
}

/// Ends the session of this browser, for good: what it would send again opens nothing.
pub(crate) async fn log_out(State(app): State<App>, request: Request) -> Result<Response, Problem> {
    only_own_pages(&app, &request)?;
    let (parts, _) = request.into_parts();
    let given = cookie::given(&parts.headers).map(str::to_owned);
    if let Some(session) = given
        && app.access().close_session(&session, app.orchestrator().now()).await?
    {
        app.access_changes().tell();
        info!("a browser has logged out");
    }
    let set = cookie::set(&parts.headers, "", 0, is_over_tls(&parts));
    let granted = Granted::to(&app, &HeaderMap::new(), peer_in(&parts.extensions), &Origin::None)?;
    Ok(with_cookie(Json(told(&app, &granted)), set))
}

/// A page of another origin logs nobody in or out.
fn only_own_pages(app: &App, request: &Request) -> Result<(), Problem> {
    let listed = &app.orchestrator().settings().http.allowed_origins;
    match Origin::of(request.headers(), listed) {
        Origin::None | Origin::Own => Ok(()),
        Origin::Listed(_) | Origin::Foreign => Err(foreign(request.headers())),
    }
}

fn with_cookie(answer: Json<Value>, cookie: Option<HeaderValue>) -> Response {
    let mut answer = answer.into_response();
    answer.headers_mut().extend(cookie.map(|cookie| (header::SET_COOKIE, cookie)));
    answer
}
