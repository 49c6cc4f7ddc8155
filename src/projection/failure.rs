//! Why a run failed: the event that decided it, and where its output breaks the schema.

use serde::Serialize;
use serde_json::{Map, Value};

use super::explain::Origin;
use crate::domain::codes::ErrorCode;
use crate::domain::event::{Event, NormalizationStep, ValidationError};
use crate::domain::ids::{RequestId, RunId, Seq};
use crate::domain::outcome::RunError;
use crate::domain::statechart::Status;

/// Why a run failed or was canceled.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct FailureExplanation {
    /// The client's name for the run.
    pub(crate) request_id: RequestId,
    pub(crate) run_id: RunId,
    pub(crate) status: Status,
    pub(crate) code: String,
    /// The cause, in one sentence.
    pub(crate) cause: String,
    pub(crate) decided_by: DecidingEvent,
    /// Each place where the output breaks its schema.
    pub(crate) violations: Vec<Violation>,
    /// What else is known about the error.
    pub(crate) details: Map<String, Value>,
    /// The end of what the engine wrote to standard error.
    pub(crate) stderr_tail: String,
    /// What to do.
    pub(crate) next: String,
}

/// The event that decided how the run ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct DecidingEvent {
    pub(crate) seq: Seq,
    #[serde(rename = "type")]
    pub(crate) type_name: String,
}

/// A place where the output breaks its schema.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Violation {
    /// JSON pointer into the output.
    pub(crate) path: String,
    pub(crate) message: String,
    /// What is there; none if nothing is.
    pub(crate) value: Option<Value>,
    /// Where it was written.
    pub(crate) origin: Origin,
}

/// An output that was not valid.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Refused {
    pub(crate) errors: Vec<ValidationError>,
    /// Whether the errors are about the whole answer of a script, and not about its data.
    pub(crate) whole_answer: bool,
}

/// What a run's events tell about its failure.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct FailureTrail {
    refused: Option<(DecidingEvent, Refused)>,
    canceled: Option<DecidingEvent>,
    recovered: Option<DecidingEvent>,
    stderr: Option<DecidingEvent>,
    end: Option<(DecidingEvent, RunError)>,
}

impl FailureTrail {
    /// Take the next event of the log.
    pub(crate) fn push(&mut self, seq: Seq, event: &Event) {
        let here = || DecidingEvent { seq, type_name: event.type_name().to_owned() };
        match event {
            // A new turn: what was wrong before does not count any more.
            Event::TurnStarted(_) => (self.refused, self.stderr) = (None, None),
            Event::Normalized(normalized) if normalized.valid => self.refused = None,
            Event::Normalized(normalized) => {
                let not_an_envelope = |step: &NormalizationStep| step.step == "envelope" && !step.ok;
                let whole_answer = normalized.steps.iter().any(not_an_envelope);
                let refused = Refused { errors: normalized.validation_errors.clone(), whole_answer };
                self.refused = Some((here(), refused));
            }
            Event::CancelRequested(_) => self.canceled = self.canceled.take().or_else(|| Some(here())),
            Event::Recovered(_) => self.recovered = Some(here()),
            Event::RawStderr(_) => self.stderr = Some(here()),
            Event::Failed(failed) => self.end = Some((here(), failed.error.clone())),
            Event::Started(_)
            | Event::Uploaded(_)
            | Event::CacheHit(_)
            | Event::StateChanged(_)
            | Event::SessionBound(_)
            | Event::AssistantMessage(_)
            | Event::AssistantReasoning(_)
            | Event::ToolCall(_)
            | Event::CommandExecution(_)
            | Event::Progress(_)
            | Event::UsageReported(_)
            | Event::RawStdout(_)
            | Event::InputRequired(_)
            | Event::ReplyAccepted(_)
            | Event::AutoDecided(_)
            | Event::RetryScheduled(_)
            | Event::ArtifactIndexed(_)
            | Event::Warned(_)
            | Event::Completed(_) => {}
        }
    }

    /// The error, the event that decided it, and the refused output if that was the reason; none if the run did not fail.
    pub(crate) fn decided(self) -> Option<(RunError, DecidingEvent, Option<Refused>)> {
        let (end, error) = self.end?;
        let of_output = [ErrorCode::SchemaValidationFailed, ErrorCode::OutputMissing, ErrorCode::SchemaTooCostly];
        if let Some((event, refused)) = self.refused.filter(|_| of_output.iter().any(|code| error.code == *code)) {
            return Some((error, event, Some(refused)));
        }
        let reason = if error.code == ErrorCode::CanceledByUser {
            self.canceled
        } else if error.code == ErrorCode::OrchestratorRestartInterrupted {
            self.recovered
        } else if error.code == ErrorCode::EngineFailed {
            self.stderr
        } else {
            None
        };
        Some((error, reason.unwrap_or(end), None))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::domain::event::{CancelRequested, Failed, NormalizationLevel, Normalized, RawText};
    use crate::domain::outcome::Usage;

    fn failed(code: ErrorCode) -> Event {
        let proof = json!({"events": 0, "chain_sha256": "", "streams": {}, "artifacts_sha256": ""});
        let proof = serde_json::from_value(proof).unwrap();
        Event::Failed(Box::new(Failed {
            status: Status::Failed,
            error: RunError::new(code, "why"),
            usage: Usage::default(),
            proof,
        }))
    }

    fn decided(code: ErrorCode) -> u64 {
        let mut trail = FailureTrail::default();
        let error = ValidationError { path: "/a".into(), message: "no".into() };
        let events = [
            Event::RawStderr(RawText { text: "x".into() }),
            Event::Normalized(Normalized {
                level: NormalizationLevel::None,
                valid: false,
                source: "stdout".into(),
                steps: Vec::new(),
                validation_errors: vec![error],
            }),
            Event::CancelRequested(CancelRequested { requested_by: "user".into(), reason: String::new() }),
            failed(code),
        ];
        for (at, event) in (1..).zip(&events) {
            trail.push(Seq(at), event);
        }
        trail.decided().unwrap().1.seq.0
    }

    #[test]
    fn each_kind_of_failure_leads_to_the_event_that_decided_it() {
        assert_eq!(decided(ErrorCode::EngineFailed), 1);
        assert_eq!(decided(ErrorCode::SchemaValidationFailed), 2);
        assert_eq!(decided(ErrorCode::CanceledByUser), 3);
        assert_eq!(decided(ErrorCode::Timeout), 4);
        assert_eq!(decided(ErrorCode::OrchestratorRestartInterrupted), 4, "nothing says that it was recovered");
    }

    #[test]
    fn a_run_that_did_not_fail_is_not_explained() {
        assert_eq!(FailureTrail::default().decided(), None);
    }
}
