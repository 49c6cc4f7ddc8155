//! One request to a server of objects and its answer: signed, bounded, and sent again when the server is busy or away.

use std::time::{Duration, Instant, SystemTime};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use md5::{Digest, Md5};
use ureq::Agent;
use ureq::http::{HeaderMap, Request as HttpRequest};

use super::keys::Keys;
use super::sign::{self, Signed};
use super::xml::Element;
use crate::blobs::content::of_bytes;
use crate::blobs::error::Error;
use crate::domain::causes::chain;
use crate::settings::S3Place;
use crate::trust;

/// How many operations there are at once; the others wait for their turn.
pub(super) const AT_ONCE: usize = 16;
/// How much of a long object is sent or asked for at once, and held in memory meanwhile.
pub(super) const PIECE: u64 = 8 << 20;
const CONNECT: Duration = Duration::from_secs(5);
/// How long nothing may come or go. A server may take its time to copy a large object, or to put its parts together.
const SILENCE: Duration = Duration::from_secs(60);
/// How long one request may take with all of its body.
const WHOLE: Duration = Duration::from_secs(600);
/// How often a request is sent, and for how long it is sent again. Whoever asked may ask again.
const TRIES: u32 = 6;
const TRYING: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// Errors that are over when the request is sent again: a server may answer with 200 before it knows that it fails, and what was sent may
/// have been changed or cut short on its way.
const AGAIN: &[&str] = &[
    "InternalError",
    "SlowDown",
    "ServiceUnavailable",
    "RequestTimeout",
    "IncompleteBody",
    "BadDigest",
    "XAmzContentSHA256Mismatch",
];
/// Longest answer besides the content of objects.
const ANSWER_MAX: u64 = 8 << 20;
/// What is shown of a server's own words.
const WORDS_MAX: usize = 300;

/// A request for an object, or for the bucket if the key is empty. All may be sent any number of times.
#[derive(Clone, Copy)]
pub(super) struct Request<'a> {
    pub(super) method: &'static str,
    pub(super) key: &'a str,
    pub(super) query: &'a [(&'a str, &'a str)],
    /// Names in lower case.
    pub(super) headers: &'a [(&'static str, String)],
    pub(super) body: Option<&'a [u8]>,
}

impl<'a> Request<'a> {
    pub(super) fn new(method: &'static str, key: &'a str) -> Self {
        Self { method, key, query: &[], headers: &[], body: None }
    }
}

#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) headers: HeaderMap,
    pub(super) body: Vec<u8>,
}

/// A server, and the bucket on it. Calls block.
#[derive(Debug)]
pub(super) struct Client {
    agent: Agent,
    settings: S3Place,
    scheme: String,
    host: String,
    /// Of the bucket, without a slash at its end.
    path: String,
}

/// Why a request is sent again: what happened, and how long the server asks to wait.
type Again = (String, Option<Duration>);

impl Client {
    pub(super) fn new(settings: &S3Place) -> Result<Self, Error> {
        let unusable = |reason| Error::Unusable { place: settings.bucket.to_string(), reason };
        let tls = trust::tls_for(&settings.endpoint).map_err(unusable)?;
        let agent = Agent::config_builder()
            .http_status_as_error(false)
            .tls_config(tls)
            .proxy(None)
            .max_redirects(0)
            .max_idle_connections(AT_ONCE)
            .max_idle_connections_per_host(AT_ONCE)
            .timeout_connect(Some(CONNECT))
            .timeout_per_read(Some(SILENCE))
            .timeout_per_write(Some(SILENCE))
            .timeout_global(Some(WHOLE))
            .user_agent(concat!("skill-runner/", env!("CARGO_PKG_VERSION")))
            .build()
            .new_agent();
        let (scheme, host, path) = settings.url();
        let scheme = scheme.to_owned();
        Ok(Self { agent, settings: settings.clone(), scheme, host, path })
    }

    pub(super) fn endpoint(&self) -> &str {
        &self.settings.endpoint
    }

    pub(super) fn bucket(&self) -> &str {
        &self.settings.bucket.name
    }

    pub(super) fn place(&self) -> String {
        self.settings.bucket.to_string()
    }

    /// The answer, whatever it says, unless the server is away or too busy for too long.
    pub(super) fn ask(&self, request: Request<'_>) -> Result<Answer, Error> {
        let until = Instant::now() + TRYING;
        let (mut pause, mut tries) = (PAUSE, 0);
        loop {
            tries += 1;
            let (reason, asked) = match self.try_once(request)? {
                Ok(answer) => return Ok(answer),
                Err(again) => again,
            };
            if tries >= TRIES || Instant::now() >= until {
                return Err(Error::Unreachable { reason });
            }
            // Those that failed together do not come back together.
            let spread = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |now| now.subsec_nanos());
            let wait = asked.unwrap_or(pause).min(PAUSE_MAX);
            std::thread::sleep(wait / 2 + wait.mul_f64(f64::from(spread % 1000) / 1000.0) / 2);
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    fn try_once(&self, request: Request<'_>) -> Result<Result<Answer, Again>, Error> {
        let lost = |error: ureq::Error| (format!("{}: {}", self.settings.endpoint, chain(&error)), None);
        let answer = match self.send(request)? {
            Ok(answer) => answer,
            Err(error) => return Ok(Err(lost(error))),
        };
        let busy = matches!(answer.status, 408 | 429 | 500 | 502 | 503 | 504)
            || answer.code().is_some_and(|code| AGAIN.contains(&code.as_str()));
        if !busy {
            return Ok(Ok(answer));
        }
        let after = answer.header("retry-after").and_then(|value| value.parse().ok()).map(Duration::from_secs);
        Ok(Err((format!("{}: {}", self.settings.endpoint, self.told(&answer)), after)))
    }

    fn send(&self, request: Request<'_>) -> Result<Result<Answer, ureq::Error>, Error> {
        let keys = Keys::now(&self.settings.keys)?;
        let slash = if request.key.is_empty() && !self.path.is_empty() { "" } else { "/" };
        let path = format!("{}{slash}{}", self.path, request.key);
        let query = sign::query(request.query);
        let mut headers = request.headers.to_vec();
        if let Some(body) = request.body.filter(|body| !body.is_empty()) {
            // Not every server compares the content with the hash that is signed, but with this one.
            headers.push(("content-md5", STANDARD.encode(Md5::digest(body))));
        }
        let time = Timestamp::now().strftime("%Y%m%dT%H%M%SZ").to_string();
        let headers = sign::sign(
            &Signed {
                method: request.method,
                host: &self.host,
                path: &path,
                query: &query,
                headers: &headers,
                body: &of_bytes(request.body.unwrap_or_default()).sha256,
                region: &self.settings.region,
                time: &time,
            },
            &keys,
        );
        let ask = if query.is_empty() { "" } else { "?" };
        let address = format!("{}://{}{path}{ask}{query}", self.scheme, self.host);
        let mut built = HttpRequest::builder().method(request.method).uri(address);
        for (name, value) in headers {
            built = built.header(name, value);
        }
        let answered = match request.body {
            Some(body) => built.body(body).map_err(ureq::Error::from).and_then(|request| self.agent.run(request)),
            None => built.body(()).map_err(ureq::Error::from).and_then(|request| self.agent.run(request)),
        };
        Ok(answered.and_then(|answer| {
            let (head, mut body) = answer.into_parts();
            let body = if request.method == "HEAD" {
                Vec::new()
            } else {
                body.with_config().limit(ANSWER_MAX.max(PIECE) + 1).read_to_vec()?
            };
            Ok(Answer { status: head.status.as_u16(), headers: head.headers, body })
        }))
    }

    /// What a server said, in its own words.
    pub(super) fn told(&self, answer: &Answer) -> String {
        let mut told = format!("it answered {}", answer.status);
        let error = answer.error();
        for name in ["Code", "Message"] {
            if let Some(text) = error.as_ref().and_then(|error| error.text_of(name)).filter(|text| !text.is_empty()) {
                told.push(' ');
                told.extend(text.chars().filter(|c| !c.is_control()).take(WORDS_MAX));
            }
        }
        match Keys::now(&self.settings.keys) {
            Ok(keys) => keys.hidden_in(&told),
            Err(_) => format!("it answered {}", answer.status),
        }
    }
}

impl Answer {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// The answer as XML, if it is some.
    pub(super) fn xml(&self) -> Option<Element> {
        Element::parse(std::str::from_utf8(&self.body).ok()?)
    }

    fn error(&self) -> Option<Element> {
        self.xml().filter(|answer| answer.is("Error"))
    }

    /// The name of the error, if the answer is one.
    pub(super) fn code(&self) -> Option<String> {
        // The content of an object is no answer of the server.
        if self.status == 206 {
            return None;
        }
        Some(self.error()?.text_of("Code").unwrap_or_default().to_owned())
    }

    /// The server's clock, in seconds.
    pub(super) fn time(&self) -> Option<i64> {
        seconds(self.header("date")?)
    }

    /// Seconds between a header with a time and the server's clock. A server that tells no time knows no age.
    pub(super) fn age_of(&self, header: &str) -> u64 {
        let then = self.header(header).and_then(seconds);
        age(self.time(), then)
    }

    /// Seconds between the clock of this machine and the server's.
    pub(super) fn clocks_apart(&self) -> Option<i64> {
        Some((Timestamp::now().as_second() - self.time()?).abs())
    }
}

pub(super) fn age(now: Option<i64>, then: Option<i64>) -> u64 {
    match (now, then) {
        (Some(now), Some(then)) => u64::try_from(now.saturating_sub(then)).unwrap_or(0),
        _ => 0,
    }
}

/// A time in a header.
fn seconds(text: &str) -> Option<i64> {
    jiff::fmt::rfc2822::parse(text).ok().map(|time| time.timestamp().as_second())
}
