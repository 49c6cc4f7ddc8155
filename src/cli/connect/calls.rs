//! What commands ask of a service, each call with the types of its answer. Every path of the API that a command uses stands here.

use std::io::BufRead;
use std::ops::Range;

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use crate::cli::connect::client::Client;
use crate::cli::failure::Failure;
use crate::domain::fact::Stream;
use crate::domain::ids::{RunId, Seq};
use crate::domain::interaction::{Interaction, InteractionId};
use crate::domain::statechart::Status;
use crate::orchestrator::{Created, ListFilter};
use crate::workspace::SentPart;

/// An answer: what commands decide by, and the document as it came, which is shown and printed whole.
#[derive(Debug, Clone)]
pub(crate) struct Told<T> {
    pub(crate) answer: T,
    pub(crate) document: Value,
}

/// A run, as far as commands decide by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub(crate) struct Job {
    pub(crate) run_id: RunId,
    pub(crate) status: Status,
}

/// Some runs, newest first.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct Jobs {
    pub(crate) jobs: Vec<Job>,
}

/// What a run asks.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(crate) struct Pending {
    pub(crate) status: Status,
    pub(crate) pending: Option<Interaction>,
}

/// The answer to a question.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Reply {
    pub(crate) question: InteractionId,
    pub(crate) response: Value,
    /// An answer that is sent again with the same key is accepted once.
    pub(crate) key: Option<String>,
}

/// Whether a cancel had an effect.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct Canceled {
    pub(crate) message: String,
}

/// A run that was deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub(crate) struct Deleted {
    pub(crate) run_id: RunId,
}

/// The result of a run that has ended.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(crate) struct RunResult {
    pub(crate) result: Value,
}

/// A part of an output; a range that would begin or end inside a character is widened to whole ones.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct LogRange {
    pub(crate) byte_from: u64,
    pub(crate) content: String,
    pub(crate) encoding: Encoding,
}

/// How bytes stand in JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub(crate) enum Encoding {
    #[serde(rename = "utf-8")]
    Text,
    #[serde(rename = "base64")]
    Base64,
}

/// Everything that a run's engine was given and wrote.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct Logs {
    pub(crate) prompt: String,
}

/// A run that failed, or a field of a result; only a run that failed has a cause.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct Explained {
    #[serde(default)]
    pub(crate) cause: Option<String>,
}

impl Client {
    pub(crate) fn create(&self, request: &Value) -> Result<Created, Failure> {
        Ok(told(self.post("/jobs", request)?)?.answer)
    }

    pub(crate) fn rerun(&self, run: RunId, changes: Map<String, Value>) -> Result<Created, Failure> {
        Ok(told(self.post(&of(run, "/rerun"), &Value::Object(changes))?)?.answer)
    }

    pub(crate) fn upload_files(&self, run: RunId, files: &[SentPart]) -> Result<(), Failure> {
        self.upload(&of(run, "/upload"), files).map(drop)
    }

    pub(crate) fn job(&self, run: RunId) -> Result<Told<Job>, Failure> {
        told(self.get(&of(run, ""))?)
    }

    /// The runs that a filter finds, newest first.
    pub(crate) fn jobs(&self, filter: &ListFilter) -> Result<Told<Jobs>, Failure> {
        told(self.get(&format!("/jobs?{}", query(filter)))?)
    }

    pub(crate) fn result(&self, run: RunId) -> Result<RunResult, Failure> {
        Ok(told(self.get(&of(run, "/result"))?)?.answer)
    }

    pub(crate) fn cancel(&self, run: RunId) -> Result<Told<Canceled>, Failure> {
        told(self.post(&of(run, "/cancel"), &json!({}))?)
    }

    /// The services that share the store.
    pub(crate) fn nodes(&self) -> Result<Value, Failure> {
        self.get("/management/nodes")
    }

    /// Lets a service start no more runs, or some again.
    pub(crate) fn drain(&self, node: &str, draining: bool) -> Result<Value, Failure> {
        self.post(&format!("/management/nodes/{node}/drain"), &json!({"draining": draining}))
    }

    pub(crate) fn remove(&self, run: RunId) -> Result<Told<Deleted>, Failure> {
        told(self.delete(&of(run, ""))?)
    }

    pub(crate) fn pending(&self, run: RunId) -> Result<Pending, Failure> {
        Ok(told(self.get(&of(run, "/interaction/pending"))?)?.answer)
    }

    /// Answers a question; the service's receipt.
    pub(crate) fn reply(&self, run: RunId, reply: Reply) -> Result<Value, Failure> {
        let mut body = json!({"interaction_id": reply.question, "response": reply.response});
        if let Some(key) = reply.key {
            body["idempotency_key"] = json!(key);
        }
        self.post(&of(run, "/interaction/reply"), &body)
    }

    /// The events after this one, as they come.
    pub(crate) fn events(&self, run: RunId, after: Seq) -> Result<impl BufRead + use<>, Failure> {
        self.stream(&of(run, &format!("/events?cursor={after}")), "text/event-stream")
    }

    /// The events that there are, one per line.
    pub(crate) fn history(&self, run: RunId, from: Seq, to: Option<Seq>) -> Result<impl BufRead + use<>, Failure> {
        let to = to.map(|to| format!("&to_seq={to}")).unwrap_or_default();
        self.stream(&of(run, &format!("/events/history?from_seq={from}{to}")), "application/x-ndjson")
    }

    /// The run as one file.
    pub(crate) fn export(&self, run: RunId) -> Result<impl BufRead + use<>, Failure> {
        self.stream(&of(run, "/export"), "application/zip")
    }

    pub(crate) fn logs(&self, run: RunId) -> Result<Told<Logs>, Failure> {
        told(self.get(&of(run, "/logs"))?)
    }

    pub(crate) fn log_range(&self, run: RunId, stream: Stream, range: &Range<u64>) -> Result<LogRange, Failure> {
        let (name, Range { start, end }) = (stream.as_str(), range);
        let asked = format!("/logs/range?stream={name}&byte_from={start}&byte_to={end}");
        Ok(told(self.get(&of(run, &asked))?)?.answer)
    }

    /// Why the run failed, or, if it did not, where its result came from.
    pub(crate) fn explain(&self, run: RunId) -> Result<Told<Explained>, Failure> {
        told(self.get(&of(run, "/explain"))?)
    }

    /// Where a field of the result came from.
    pub(crate) fn explain_field(&self, run: RunId, path: &str) -> Result<Value, Failure> {
        self.get(&of(run, &format!("/explain?path={}", encoded(path))))
    }

    /// What the cache did for the run.
    pub(crate) fn explain_cache(&self, run: RunId) -> Result<Value, Failure> {
        self.get(&of(run, "/explain/cache"))
    }

    pub(crate) fn engines(&self) -> Result<Value, Failure> {
        self.get("/engines")
    }

    pub(crate) fn models(&self, engine: &str) -> Result<Value, Failure> {
        self.get(&format!("/engines/{}/models", encoded(engine)))
    }

    pub(crate) fn begin_backup(&self, name: &str) -> Result<Value, Failure> {
        self.post("/backups", &json!({ "name": name }))
    }

    pub(crate) fn backup(&self, id: &str) -> Result<Value, Failure> {
        self.get(&format!("/backups/{}", encoded(id)))
    }

    pub(crate) fn system(&self) -> Result<Value, Failure> {
        self.get("/system")
    }
}

fn of(run: RunId, rest: &str) -> String {
    format!("/jobs/{run}{rest}")
}

fn told<T: DeserializeOwned>(document: Value) -> Result<Told<T>, Failure> {
    let answer = T::deserialize(&document).map_err(Failure::broken("read the service's answer"))?;
    Ok(Told { answer, document })
}

fn encoded(text: &str) -> String {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}

fn query(filter: &ListFilter) -> String {
    let mut parts = vec![format!("limit={}", filter.limit)];
    parts.extend(filter.before.map(|run| format!("before={run}")));
    parts.extend(filter.runs.status.map(|status| format!("status={}", status.as_str())));
    parts.extend(filter.runs.skill_id.as_deref().map(|skill| format!("skill_id={}", encoded(skill))));
    parts.extend(filter.runs.engine.as_deref().map(|engine| format!("engine={}", encoded(engine))));
    parts.extend(filter.runs.since.map(|since| format!("since={}", encoded(&since.to_string()))));
    parts.extend(filter.runs.until.map(|until| format!("until={}", encoded(&until.to_string()))));
    let labels = filter.runs.labels.iter();
    parts.extend(labels.map(|(name, value)| format!("label={}", encoded(&format!("{name}:{value}")))));
    parts.join("&")
}
