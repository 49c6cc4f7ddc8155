//! The connection to a running service; `calls.rs` has what is asked over it.

use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::time::Duration;

use serde_json::Value;
use ureq::http::header::AUTHORIZATION;
use ureq::http::{HeaderMap, HeaderValue, Method, Request, Response};
use ureq::{Agent, AsSendBody, Body, SendBody};

use crate::bounded;
use crate::cli::failure::Failure;
use crate::domain::causes::chain;
use crate::domain::codes::ErrorCode;
use crate::files::open_followed;
use crate::settings::Secret;
use crate::trust;
use crate::workspace::SentPart;

/// How long connecting may take.
const CONNECT: Duration = Duration::from_secs(5);
/// How long a service may take for one answer.
const ANSWER: Duration = Duration::from_secs(60);
/// How long a service may take to answer a health check.
const HEALTH: Duration = Duration::from_secs(2);
/// Silence after which an event stream is taken for dead; a living one has a heartbeat.
const SILENCE: Duration = Duration::from_secs(120);
/// How long a service may take to unpack and check what it was sent.
const CHECKED: Duration = Duration::from_secs(600);
/// Longest answer that is kept in memory.
const ANSWER_MAX: u64 = 64 * 1024 * 1024;
/// What separates the parts of an upload; nothing in the part's head can be mistaken for it.
const BOUNDARY: &str = "skill-runner-upload-7c1f2a5e9b3d";

/// A client of one service. Calls block.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    agent: Agent,
    base: String,
    bearer: Option<String>,
}

impl Client {
    /// A client of the service at this URL.
    pub(crate) fn new(url: &str, token: Option<&Secret>) -> Result<Self, Failure> {
        if !url.starts_with("http://") && !url.starts_with("https://") {
            return Err(Failure::Usage(format!(
                "--server {url:?} is not the URL of a service: it must begin with http:// or https://"
            )));
        }
        let unknown = |reason| Failure::Unreachable(format!("the service at {url} cannot be known: {reason}"));
        let agent = Agent::config_builder()
            .http_status_as_error(false)
            .tls_config(trust::tls_for(url).map_err(unknown)?)
            // No proxy: the token is for the service alone.
            .proxy(None)
            .max_redirects(0)
            .timeout_connect(Some(CONNECT))
            .build()
            .new_agent();
        let base = url.trim_end_matches('/').trim_end_matches("/v1").to_owned();
        Ok(Self { agent, base, bearer: token.map(|token| format!("Bearer {}", token.expose())) })
    }

    /// The URL without a path.
    pub(crate) fn base(&self) -> &str {
        &self.base
    }

    /// Whether the service answers its health check.
    pub(crate) fn answers(&self) -> bool {
        let asked = self.agent.get(format!("{}/healthz", self.base)).config().timeout_global(Some(HEALTH)).build();
        asked.call().is_ok_and(|answer| answer.status().is_success())
    }

    /// The answer to a GET.
    pub(super) fn get(&self, path: &str) -> Result<Value, Failure> {
        let request = self.agent.get(self.url(path)).config().timeout_global(Some(ANSWER)).build();
        self.answer(self.signed(request).call())
    }

    /// The answer to a POST of JSON.
    pub(super) fn post(&self, path: &str, body: &Value) -> Result<Value, Failure> {
        let request = self.agent.post(self.url(path)).config().timeout_global(Some(ANSWER)).build();
        self.answer(self.signed(request).content_type("application/json").send(body.to_string()))
    }

    /// The answer to a DELETE.
    pub(super) fn delete(&self, path: &str) -> Result<Value, Failure> {
        let request = self.agent.delete(self.url(path)).config().timeout_global(Some(ANSWER)).build();
        self.answer(self.signed(request).call())
    }

    /// The answer to an upload of files, each in a part of its own.
    pub(super) fn upload(&self, path: &str, files: &[SentPart]) -> Result<Value, Failure> {
        let mut body: Box<dyn Read + Send + Sync> = Box::new(io::empty());
        for part in files {
            let shown = part.path.display();
            let file = open_followed(&part.path).map_err(Failure::broken(format!("open {shown}")))?;
            let file_name = part.file_name.as_deref().unwrap_or_default();
            let head = format!(
                "--{BOUNDARY}\r\nContent-Disposition: form-data; name=\"{}\"; filename=\"{}\"\r\n\
                 Content-Type: application/octet-stream\r\n\r\n",
                in_quotes(&part.field),
                in_quotes(file_name)
            );
            body = Box::new(body.chain(Cursor::new(head)).chain(BufReader::new(file)).chain(Cursor::new("\r\n")));
        }
        let body = body.chain(Cursor::new(format!("--{BOUNDARY}--\r\n")));
        let request = self.agent.post(self.url(path)).config();
        let request = self.signed(request.timeout_per_read(Some(CHECKED)).timeout_per_write(Some(SILENCE)).build());
        let request = request.content_type(format!("multipart/form-data; boundary={BOUNDARY}"));
        self.answer(request.send(SendBody::from_owned_reader(body)))
    }

    /// A long answer, read as it comes.
    pub(super) fn stream(&self, path: &str, accept: &str) -> Result<impl BufRead + use<>, Failure> {
        self.stream_within(SILENCE, path, accept)
    }

    /// The same; its head has to come within this time, however many of its bytes come one by one.
    fn stream_within(&self, head: Duration, path: &str, accept: &str) -> Result<impl BufRead + use<>, Failure> {
        let request = self.agent.get(self.url(path)).config().timeout_recv_response(Some(head));
        let request = request.timeout_per_read(Some(SILENCE)).build();
        let response =
            self.signed(request).header("Accept", accept).call().map_err(|error| self.unreachable(&error))?;
        if !response.status().is_success() {
            return Err(refusal(response));
        }
        Ok(BufReader::new(response.into_body().into_with_config().limit(u64::MAX).reader()))
    }

    /// Passes a request of somebody else on, with the token of this client. `path` begins with `/v1` and has its query.
    pub(crate) fn pass_on(
        &self,
        method: Method,
        path: &str,
        headers: HeaderMap,
        body: impl AsSendBody,
    ) -> Result<Response<Body>, Failure> {
        let mut request = Request::new(body);
        let address = format!("{}{path}", self.base);
        *request.uri_mut() = address.parse().map_err(Failure::broken(format!("read the address {address}")))?;
        (*request.method_mut(), *request.headers_mut()) = (method, headers);
        if let Some(bearer) = &self.bearer {
            let bearer = HeaderValue::from_str(bearer).map_err(Failure::broken("send the token"))?;
            request.headers_mut().insert(AUTHORIZATION, bearer);
        }
        let request = self.agent.configure_request(request).timeout_per_read(Some(SILENCE)).build();
        self.agent.run(request).map_err(|error| self.unreachable(&error))
    }

    fn url(&self, path: &str) -> String {
        format!("{}/v1{path}", self.base)
    }

    fn signed<B>(&self, request: ureq::RequestBuilder<B>) -> ureq::RequestBuilder<B> {
        match &self.bearer {
            Some(bearer) => request.header("Authorization", bearer),
            None => request,
        }
    }

    fn answer(&self, response: Result<Response<Body>, ureq::Error>) -> Result<Value, Failure> {
        let mut response = response.map_err(|error| self.unreachable(&error))?;
        if !response.status().is_success() {
            return Err(refusal(response));
        }
        let bytes = response.body_mut().with_config().limit(ANSWER_MAX).read_to_vec();
        let bytes = bytes.map_err(|error| self.unreachable(&error))?;
        bounded::json::from_slice(&bytes)
            .map_err(|error| Failure::Broken(format!("the service at {} did not answer with JSON: {error}", self.base)))
    }

    fn unreachable(&self, error: &ureq::Error) -> Failure {
        Failure::Unreachable(format!("the service at {} cannot be reached: {}", self.base, chain(error)))
    }
}

/// A name between quotes in the head of a part, as browsers write it.
fn in_quotes(name: &str) -> String {
    name.replace('"', "%22").replace('\r', "%0D").replace('\n', "%0A")
}

/// The error that the service answered with.
fn refusal(mut response: Response<Body>) -> Failure {
    let status = response.status();
    let body = response.body_mut().with_config().limit(ANSWER_MAX).read_to_vec().unwrap_or_default();
    let body: Value = bounded::json::from_slice(&body).unwrap_or_default();
    let error = &body["error"];
    match (error["code"].as_str(), error["message"].as_str()) {
        (Some(code), Some(message)) => {
            let (code, message) = (code.to_owned(), in_words_of_commands(code, message));
            Failure::Refused { code, message, details: error["details"].clone() }
        }
        _ => Failure::Broken(format!("the service answered with status {status} and no error message")),
    }
}

/// The advice of the API, which ends a message, in the words of the command line.
fn in_words_of_commands(code: &str, message: &str) -> String {
    let hint = ErrorCode::from_text(code).map(|code| code.info().hint);
    hint.and_then(|hint| Some(format!("{}{}", message.strip_suffix(hint.api)?, hint.cli)))
        .unwrap_or_else(|| message.to_owned())
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn a_head_that_comes_byte_by_byte_is_not_waited_for() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let service = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            stream.write_all(b"HTTP/1.1 200 OK\r\n").unwrap();
            // Until the client has gone.
            while stream.write_all(b"x").is_ok() {
                std::thread::sleep(Duration::from_millis(10));
            }
        });
        let client = Client::new(&url, None).unwrap();
        let failure = client.stream_within(Duration::from_millis(300), "/healthz", "*/*").map(drop).unwrap_err();
        let told = format!("the service at {url} cannot be reached: timeout: receive response");
        assert!(matches!(&failure, Failure::Unreachable(message) if *message == told), "{failure:?}");
        service.join().unwrap();
    }
}
