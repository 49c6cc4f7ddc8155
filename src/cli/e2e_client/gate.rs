//! What every request to the example client has to pass: its host, its page, and the key where there is one.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Redirect, Response};

use crate::cli::e2e_client::answers::refusal;
use crate::cli::e2e_client::state::Shared;
use crate::domain::codes::ErrorCode;
use crate::http::{Origin, add_security_headers, is_allowed_host, is_equal_secret, is_of_other_page};

/// The names that a browser on this machine uses.
const HOSTS: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];
/// The parameter that the printed address has.
const KEY: &str = "key=";

pub(super) async fn guard(State(shared): State<Arc<Shared>>, request: Request, next: Next) -> Response {
    let mut answer = match answer_of_gate(&shared, &request) {
        Some(answer) => answer,
        None => next.run(request).await,
    };
    add_security_headers(answer.headers_mut());
    answer
}

/// The answer to a request that goes no further; none if it passes.
fn answer_of_gate(shared: &Shared, request: &Request) -> Option<Response> {
    let headers = request.headers();
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let named = request.uri().authority().map_or(host, |authority| authority.as_str());
    let hosts = HOSTS.map(str::to_owned);
    if headers.get_all(header::HOST).iter().count() != 1
        || ![host, named].iter().all(|name| is_allowed_host(&hosts, name))
    {
        let message = "the example client answers under localhost and 127.0.0.1 alone";
        return Some(refusal(StatusCode::FORBIDDEN, ErrorCode::ForbiddenHost, message));
    }
    // A page of another origin, and be it one of this machine, may open a page here and nothing else.
    let opens_page = request.method() == Method::GET && !holds_data(request.uri().path());
    let foreign = Origin::of(headers, &[]) == Origin::Foreign || is_of_other_page(headers);
    if foreign && !opens_page {
        let message = "a page of another origin may not use the example client";
        return Some(refusal(StatusCode::FORBIDDEN, ErrorCode::ForbiddenOrigin, message));
    }
    let key = shared.key.as_ref()?;
    if opens_page && let Some(given) = key_in(request) {
        if !is_equal_secret(given.as_bytes(), key.as_bytes()) {
            return Some(no_key());
        }
        // The key goes from the address into a cookie that no script reads and no other site sends.
        let path = request.uri().path();
        // Two slashes would name another host.
        let mut answer = Redirect::to(if path.starts_with("//") { "/" } else { path }).into_response();
        answer.headers_mut().extend(cookie(headers, key).map(|cookie| (header::SET_COOKIE, cookie)));
        return Some(answer);
    }
    if holds_data(request.uri().path())
        && !cookies(headers).any(|given| is_equal_secret(given.as_bytes(), key.as_bytes()))
    {
        return Some(no_key());
    }
    None
}

/// Whether an address leads to data; pages and their files hold none.
fn holds_data(path: &str) -> bool {
    ["/v1", "/client"]
        .iter()
        .any(|prefix| path.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('/')))
}

fn no_key() -> Response {
    let message = "open the address that `skill-runner e2e-client` printed: it has the key";
    refusal(StatusCode::UNAUTHORIZED, ErrorCode::Unauthorized, message)
}

fn key_in(request: &Request) -> Option<&str> {
    request.uri().query()?.split('&').find_map(|pair| pair.strip_prefix(KEY))
}

/// Browsers keep one set of cookies for all ports of a host, so the port is part of the name.
fn cookie_name(headers: &HeaderMap) -> String {
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    format!("skill_runner_e2e_{}", host.rsplit_once(':').map_or("80", |(_, port)| port))
}

fn cookie(headers: &HeaderMap, key: &str) -> Option<HeaderValue> {
    HeaderValue::from_str(&format!("{}={key}; Path=/; HttpOnly; SameSite=Strict", cookie_name(headers))).ok()
}

/// What the browser sends in cookies of the name.
fn cookies(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let name = cookie_name(headers);
    let lines = headers.get_all(header::COOKIE).iter().filter_map(|line| line.to_str().ok());
    let pairs = lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.filter(move |(given, _)| *given == name).map(|(_, value)| value)
}
