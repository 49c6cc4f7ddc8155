//! The way to an OpenTelemetry collector: OTLP over HTTP, in JSON.

use std::time::Duration;

use serde_json::Value;
use ureq::Agent;

use crate::settings::Otlp;
use crate::trust;

const CONNECT: Duration = Duration::from_secs(5);
const ANSWER: Duration = Duration::from_secs(10);
/// How often a collector that is busy is asked, and for how long it is waited between.
const TRIES: u32 = 3;
const PAUSE: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(30);

/// A collector could not be reached, or did not take what was sent.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("the collector at {url} cannot be reached")]
    Unreachable { url: String, source: Box<ureq::Error> },
    #[error("the collector at {url} cannot be known: {reason}")]
    Trust { url: String, reason: String },
    #[error("the collector at {url} answered {status}")]
    Refused { url: String, status: u16 },
}

/// A collector. Calls block.
#[derive(Debug, Clone)]
pub(crate) struct Collector {
    agent: Agent,
    settings: Otlp,
}

impl Collector {
    pub(crate) fn new(settings: Otlp) -> Result<Self, Error> {
        let url = settings.endpoint.clone();
        let tls = trust::tls_for(&url).map_err(|reason| Error::Trust { url, reason })?;
        let agent = Agent::config_builder()
            .http_status_as_error(false)
            .tls_config(tls)
            // The headers are for the collector alone.
            .proxy(None)
            .max_redirects(0)
            .timeout_connect(Some(CONNECT))
            .timeout_global(Some(ANSWER))
            .user_agent(concat!("skill-runner/", env!("CARGO_PKG_VERSION")))
            .build()
            .new_agent();
        Ok(Self { agent, settings })
    }

    pub(crate) fn settings(&self) -> &Otlp {
        &self.settings
    }

    /// Sends `traces` or `metrics`; a collector that is busy or away is asked again.
    pub(crate) fn send(&self, signal: &str, body: &Value) -> Result<(), Error> {
        let url = format!("{}/v1/{signal}", self.settings.endpoint);
        let body = body.to_string();
        let mut tries = 0;
        loop {
            tries += 1;
            let failed = match self.post(&url, &body) {
                Ok((status, _)) if (200..300).contains(&status) => return Ok(()),
                // Those that the standard says to repeat.
                Ok((status @ (429 | 502 | 503 | 504), after)) => (Error::Refused { url: url.clone(), status }, after),
                Ok((status, _)) => return Err(Error::Refused { url, status }),
                Err(source) => (Error::Unreachable { url: url.clone(), source: Box::new(source) }, None),
            };
            if tries >= TRIES {
                return Err(failed.0);
            }
            std::thread::sleep(failed.1.unwrap_or(PAUSE).min(PAUSE_MAX));
        }
    }

    /// The status, and how long the collector asks to wait.
    fn post(&self, url: &str, body: &str) -> Result<(u16, Option<Duration>), ureq::Error> {
        let mut request = self.agent.post(url).content_type("application/json");
        for (name, value) in &self.settings.headers {
            request = request.header(name, value.expose());
        }
        let answer = request.send(body)?;
        let after = answer.headers().get("retry-after").and_then(|value| value.to_str().ok()?.parse().ok());
        Ok((answer.status().as_u16(), after.map(Duration::from_secs)))
    }
}
