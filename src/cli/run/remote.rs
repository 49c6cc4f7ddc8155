//! The run in a service, over HTTP.

use std::io::BufRead;
use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::backend::{EVENTS_WAITING, Events};
use super::outcome::{ArtifactsAt, Outcome};
use super::request::Wanted;
use crate::cli::client::Client;
use crate::cli::failure::Failure;
use crate::domain::event::Event;
use crate::domain::ids::{RunId, Seq};
use crate::fcmp::read_envelope;
use crate::orchestrator::Created;
use crate::workspace::Layout;

/// How often in a row a broken event stream is taken up again without having brought anything.
const TRIES: u32 = 5;
/// How long is waited before that.
const PAUSE: Duration = Duration::from_millis(500);

/// A service as the runner.
pub(super) struct Remote {
    client: Client,
    skill_id: String,
    /// The service's data folder, where it is on this machine.
    data_dir: Option<PathBuf>,
}

impl Remote {
    /// The service behind this client.
    pub(super) fn new(client: Client, skill_id: String, data_dir: Option<PathBuf>) -> Self {
        Self { client, skill_id, data_dir }
    }

    /// Creates the run.
    pub(super) async fn create(&self, wanted: &Wanted) -> Result<Created, Failure> {
        let body = wanted.body(&self.skill_id);
        let answer = self.call(move |client| client.post("/jobs", &body)).await?;
        serde_json::from_value(answer).map_err(Failure::broken("read the service's answer"))
    }

    /// Hands over the files of the run.
    pub(super) async fn upload(&self, run: RunId, zip: PathBuf) -> Result<(), Failure> {
        self.call(move |client| client.upload(&format!("/jobs/{run}/upload"), &zip)).await.map(drop)
    }

    /// The run's events from the first on.
    pub(super) fn follow(&self, run: RunId) -> Events {
        let (events, shown) = mpsc::channel(EVENTS_WAITING);
        let client = self.client.clone();
        tokio::task::spawn_blocking(move || {
            if let Err(failure) = follow(&client, run, &events) {
                // Nobody shows events any more.
                let _ = events.blocking_send(Err(failure));
            }
        });
        shown
    }

    /// Stops the run.
    pub(super) async fn cancel(&self, run: RunId) -> Result<(), Failure> {
        self.call(move |client| client.post(&format!("/jobs/{run}/cancel"), &json!({}))).await.map(drop)
    }

    /// What came out.
    pub(super) async fn outcome(&self, run: RunId) -> Result<Outcome, Failure> {
        let job = self.call(move |client| client.get(&format!("/jobs/{run}"))).await?;
        let mut answer = self.call(move |client| client.get(&format!("/jobs/{run}/result"))).await?;
        let artifacts = match &self.data_dir {
            Some(data_dir) => ArtifactsAt::Folder(Layout::new(data_dir).run(run).root),
            None => ArtifactsAt::Service(self.client.base().to_owned()),
        };
        Ok(Outcome::new(job, answer["result"].take(), artifacts))
    }

    async fn call(
        &self,
        call: impl FnOnce(&Client) -> Result<Value, Failure> + Send + 'static,
    ) -> Result<Value, Failure> {
        let client = self.client.clone();
        tokio::task::spawn_blocking(move || call(&client)).await.map_err(Failure::broken("ask the service"))?
    }
}

/// Sends the run's events until the terminal one; a stream that breaks is taken up where it broke.
fn follow(client: &Client, run: RunId, events: &mpsc::Sender<Result<Bytes, Failure>>) -> Result<(), Failure> {
    let mut after = Seq::START;
    let mut failed = 0;
    loop {
        let before = after;
        let path = format!("/jobs/{run}/events?cursor={after}");
        let failure = match client.stream(&path, "text/event-stream") {
            Ok(stream) => match relay(stream, &mut after, events)? {
                Relayed::Ended => return Ok(()),
                Relayed::Broken(reason) => Failure::Broken(format!("the service's event stream broke: {reason}")),
            },
            Err(failure) => failure,
        };
        failed = if after > before { 0 } else { failed + 1 };
        if failed == TRIES {
            return Err(failure);
        }
        std::thread::sleep(PAUSE);
    }
}

enum Relayed {
    /// The terminal event was sent, or nobody listens any more.
    Ended,
    /// The stream ended before it.
    Broken(String),
}

fn relay(
    stream: impl BufRead,
    after: &mut Seq,
    events: &mpsc::Sender<Result<Bytes, Failure>>,
) -> Result<Relayed, Failure> {
    let mut stream = SseReader { stream };
    loop {
        let data = match stream.next_chat_event() {
            Ok(Some(data)) => data,
            Ok(None) => return Ok(Relayed::Broken("it ended early".to_owned())),
            Err(error) => return Ok(Relayed::Broken(error.to_string())),
        };
        let envelope = read_envelope(&data).map_err(Failure::broken("read an event"))?;
        *after = envelope.seq;
        let last = matches!(envelope.event, Some(Event::Completed(_) | Event::Failed(_)));
        if events.blocking_send(Ok(data)).is_err() || last {
            return Ok(Relayed::Ended);
        }
    }
}

/// Reads a stream of server-sent events.
struct SseReader<R> {
    stream: R,
}

impl<R: BufRead> SseReader<R> {
    /// The data of the next `chat_event`; none at the end. Snapshots and heartbeats are no part of the log.
    fn next_chat_event(&mut self) -> std::io::Result<Option<Bytes>> {
        let (mut is_chat, mut data) = (false, Vec::new());
        let mut line = Vec::new();
        loop {
            line.clear();
            if self.stream.read_until(b'\n', &mut line)? == 0 {
                return Ok(None);
            }
            while line.last().is_some_and(|byte| matches!(byte, b'\n' | b'\r')) {
                line.pop();
            }
            if line.is_empty() {
                if is_chat && !data.is_empty() {
                    return Ok(Some(data.into()));
                }
                (is_chat, data) = (false, Vec::new());
            } else if let Some(name) = field(&line, b"event:") {
                is_chat = name == b"chat_event";
            } else if let Some(part) = field(&line, b"data:") {
                data.extend_from_slice(part);
            }
        }
    }
}

fn field<'a>(line: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let value = line.strip_prefix(name)?;
    Some(value.strip_prefix(b" ").unwrap_or(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chat_events_are_told_from_snapshots_and_heartbeats() {
        let stream = "event: snapshot\ndata: {}\n\n: a comment\nid: 1\nevent: chat_event\ndata: {\"a\":1}\n\n\
                      event: heartbeat\ndata: {}\n\nevent:chat_event\r\ndata:{\"b\":2}\r\n\r\nevent: chat_event\ndata: cut";
        let mut reader = SseReader { stream: stream.as_bytes() };
        let mut next = || reader.next_chat_event().unwrap();
        assert_eq!((next(), next(), next()), (Some("{\"a\":1}".into()), Some("{\"b\":2}".into()), None));
    }
}
