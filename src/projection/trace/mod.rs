//! A run as a trace: its log folded into spans for the run, its waits, its attempts and the tools they used.

mod otlp;
#[cfg(test)]
mod tests;

pub(crate) use otlp::{otlp, resource};

use crate::domain::cache_key::sha256_hex;
use crate::domain::event::{Event, Started, TurnStarted};
use crate::domain::ids::{RunId, Seq};
use crate::domain::outcome::{RunError, Usage};
use crate::domain::statechart::Status;
use crate::domain::time::Timestamp;
use crate::domain::trace_context::TraceParent;

/// Most spans of tools and events of one run; the rest is counted.
const DETAILS_MAX: usize = 2000;
/// Longest text in an attribute, in characters.
const TEXT_MAX: usize = 300;

/// A value of an attribute.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Attribute {
    Text(String),
    Whole(i64),
    Real(f64),
    Flag(bool),
}

/// How a span ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    Unset,
    Ok,
    Error(String),
}

/// Something that happened at one moment of a span.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Happened {
    pub(crate) name: &'static str,
    pub(crate) at: Timestamp,
    pub(crate) attributes: Vec<(&'static str, Attribute)>,
}

/// A part of a run, from one moment to another.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Span {
    pub(crate) trace_id: String,
    pub(crate) span_id: String,
    /// None if the trace begins with it.
    pub(crate) parent_id: Option<String>,
    pub(crate) name: String,
    pub(crate) from: Timestamp,
    pub(crate) to: Timestamp,
    pub(crate) attributes: Vec<(&'static str, Attribute)>,
    pub(crate) events: Vec<Happened>,
    pub(crate) outcome: Outcome,
}

/// Makes the trace of one run from the events of its log, which are given in their order.
#[derive(Debug)]
pub(crate) struct TraceBuilder {
    run: RunId,
    trace_id: String,
    sampled: bool,
    root: Option<Span>,
    done: Vec<Span>,
    /// The wait or the attempt that has not ended.
    open: Option<Span>,
    last: Option<Timestamp>,
    details: usize,
    left_out: u64,
    usage: Usage,
}

fn text(text: &str) -> Attribute {
    Attribute::Text(text.chars().take(TEXT_MAX).collect())
}

fn whole(number: u64) -> Attribute {
    Attribute::Whole(i64::try_from(number).unwrap_or(i64::MAX))
}

impl TraceBuilder {
    pub(crate) fn new(run: RunId) -> Self {
        Self {
            run,
            // An id of a run is sixteen bytes, as is that of a trace.
            trace_id: run.0.simple().to_string(),
            sampled: true,
            root: None,
            done: Vec::new(),
            open: None,
            last: None,
            details: 0,
            left_out: 0,
            usage: Usage::default(),
        }
    }

    /// The next event.
    pub(crate) fn push(&mut self, seq: Seq, at: Timestamp, event: &Event) {
        let before = self.last.replace(at).unwrap_or(at);
        match event {
            Event::Started(started) => self.begin(at, started),
            Event::Uploaded(_) => {
                self.close(at, Outcome::Unset);
                self.wait(seq, "queue", at);
            }
            Event::StateChanged(change) => match change.to {
                Status::Queued => {
                    self.close(at, Outcome::Unset);
                    self.wait(seq, "queue", at);
                }
                Status::Running => self.close(at, Outcome::Unset),
                Status::WaitingUser => {
                    self.close(at, Outcome::Unset);
                    self.wait(seq, "wait for user", at);
                }
                Status::Succeeded | Status::Failed | Status::Canceled => {}
            },
            Event::TurnStarted(turn) => {
                self.close(at, Outcome::Unset);
                self.attempt(seq, at, turn);
            }
            Event::ToolCall(call) => {
                let attributes = vec![
                    ("gen_ai.tool.name", text(&call.tool)),
                    ("gen_ai.tool.call.id", text(&call.call_id)),
                    ("skill_runner.tool.status", text(&call.status)),
                ];
                self.tool(seq, format!("tool {}", call.tool), before, at, attributes);
            }
            Event::CommandExecution(command) => {
                let mut attributes = vec![("skill_runner.tool.status", text(&command.status))];
                attributes.extend(command.exit_code.map(|code| ("process.exit.code", Attribute::Whole(code))));
                self.tool(seq, "command".to_owned(), before, at, attributes);
            }
            Event::UsageReported(usage) => self.usage = self.usage.plus(*usage),
            Event::Warned(warning) => {
                self.happened("warning", at, vec![("skill_runner.warning.code", text(&warning.code))]);
            }
            Event::CancelRequested(_) => self.happened("cancel requested", at, Vec::new()),
            Event::RetryScheduled(retry) => {
                let error = vec![("error.type", text(&retry.error.code))];
                self.happened("retry scheduled", at, error);
            }
            Event::Recovered(recovered) => {
                let reason = vec![("skill_runner.recovery.reason", text(&recovered.recovery_reason))];
                self.happened("recovered after a restart", at, reason);
            }
            Event::CacheHit(hit) => {
                self.note("skill_runner.cache_hit", Attribute::Flag(true));
                self.note("skill_runner.cache_source", text(&hit.source_run_id.to_string()));
            }
            Event::Completed(_) => self.end(at, Status::Succeeded, None),
            Event::Failed(failed) => self.end(at, failed.status, Some(&failed.error)),
            Event::SessionBound(_)
            | Event::AssistantMessage(_)
            | Event::AssistantReasoning(_)
            | Event::Progress(_)
            | Event::RawStdout(_)
            | Event::RawStderr(_)
            | Event::InputRequired(_)
            | Event::ReplyAccepted(_)
            | Event::AutoDecided(_)
            | Event::Normalized(_)
            | Event::ArtifactIndexed(_) => {}
        }
    }

    /// The spans, the run's own first; none if the run has not ended, or belongs to a trace that is not recorded.
    pub(crate) fn finish(self) -> Vec<Span> {
        let Some(mut root) = self.root.filter(|root| self.sampled && root.outcome != Outcome::Unset) else {
            return Vec::new();
        };
        if self.left_out > 0 {
            root.attributes.push(("skill_runner.left_out", whole(self.left_out)));
        }
        std::iter::once(root).chain(self.done).collect()
    }

    fn begin(&mut self, at: Timestamp, started: &Started) {
        let parent = started.traceparent.as_deref().and_then(TraceParent::parse);
        if let Some(parent) = &parent {
            self.trace_id.clone_from(&parent.trace_id);
            self.sampled = parent.sampled;
        }
        let mut attributes = vec![
            ("skill_runner.run_id", text(&self.run.to_string())),
            ("skill_runner.request_id", text(&started.request_id.to_string())),
            ("skill_runner.skill.id", text(&started.skill.id)),
            ("skill_runner.skill.version", text(&started.skill.version)),
            ("skill_runner.engine", text(&started.engine)),
        ];
        attributes.extend(started.model.as_deref().map(|model| ("gen_ai.request.model", text(model))));
        attributes.extend(started.requested_by.as_deref().map(|name| ("skill_runner.requested_by", text(name))));
        let name = format!("run {}", started.skill.id);
        self.root =
            Some(Span { parent_id: parent.map(|parent| parent.span_id), ..self.span("run", name, at, attributes) });
        let waits_for = if started.awaiting_upload { "wait for upload" } else { "queue" };
        self.wait(Seq::START, waits_for, at);
    }

    /// A span of this run that begins and has no end yet. `key` tells it from its siblings.
    fn span(&self, key: &str, name: String, from: Timestamp, attributes: Vec<(&'static str, Attribute)>) -> Span {
        let id = |key: &str| sha256_hex(format!("{} {key}", self.run).as_bytes()).chars().take(16).collect::<String>();
        Span {
            trace_id: self.trace_id.clone(),
            span_id: id(key),
            parent_id: (key != "run").then(|| id("run")),
            name,
            from,
            to: from,
            attributes,
            events: Vec::new(),
            outcome: Outcome::Unset,
        }
    }

    fn wait(&mut self, seq: Seq, name: &str, at: Timestamp) {
        self.open = Some(self.span(&format!("wait {seq}"), name.to_owned(), at, Vec::new()));
    }

    fn attempt(&mut self, seq: Seq, at: Timestamp, turn: &TurnStarted) {
        let attributes = vec![
            ("skill_runner.attempt", whole(turn.attempt.into())),
            ("skill_runner.engine.version", text(&turn.engine_version)),
            ("process.pid", whole(turn.pid.into())),
        ];
        self.open = Some(self.span(&format!("attempt {seq}"), format!("attempt {}", turn.attempt), at, attributes));
    }

    fn tool(
        &mut self,
        seq: Seq,
        name: String,
        from: Timestamp,
        to: Timestamp,
        attributes: Vec<(&'static str, Attribute)>,
    ) {
        if !self.has_room() {
            return;
        }
        let parent_id = self.open.as_ref().map(|attempt| attempt.span_id.clone());
        let span = self.span(&format!("tool {seq}"), name, from, attributes);
        let parent_id = parent_id.or_else(|| span.parent_id.clone());
        self.done.push(Span { parent_id, to, ..span });
    }

    fn happened(&mut self, name: &'static str, at: Timestamp, attributes: Vec<(&'static str, Attribute)>) {
        if !self.has_room() {
            return;
        }
        if let Some(span) = self.open.as_mut().or(self.root.as_mut()) {
            span.events.push(Happened { name, at, attributes });
        }
    }

    fn has_room(&mut self) -> bool {
        let has_room = self.details < DETAILS_MAX;
        self.details += 1;
        self.left_out += u64::from(!has_room);
        has_room
    }

    fn note(&mut self, key: &'static str, value: Attribute) {
        if let Some(root) = &mut self.root {
            root.attributes.push((key, value));
        }
    }

    fn close(&mut self, at: Timestamp, outcome: Outcome) {
        if let Some(span) = self.open.take() {
            // A wait that ended at once is none.
            if span.from < at || span.name.starts_with("attempt") {
                self.done.push(Span { to: at, outcome, ..span });
            }
        }
    }

    fn end(&mut self, at: Timestamp, status: Status, error: Option<&RunError>) {
        let outcome = match error {
            Some(error) => Outcome::Error(error.code.clone()),
            None => Outcome::Ok,
        };
        self.close(at, if error.is_some() { outcome.clone() } else { Outcome::Unset });
        let usage = self.usage;
        let Some(root) = &mut self.root else { return };
        root.to = at;
        root.outcome = outcome;
        root.attributes.push(("skill_runner.status", text(status.as_str())));
        root.attributes.extend(error.map(|error| ("error.type", text(&error.code))));
        if usage != Usage::default() {
            root.attributes.push(("gen_ai.usage.input_tokens", whole(usage.input_tokens)));
            root.attributes.push(("gen_ai.usage.output_tokens", whole(usage.output_tokens)));
        }
        root.attributes.extend(usage.cost_usd.map(|cost| ("skill_runner.cost_usd", Attribute::Real(cost))));
    }
}
