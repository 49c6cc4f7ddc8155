//! The result of a run, as a JSON document and as text for people.

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::cli::terminal::look::{Ink, Look, harmless};
use crate::domain::codes::ErrorCode;
use crate::domain::run_file::RunFolder;
use crate::domain::statechart::Status;
use crate::domain::time::Timestamp;

/// Where artifacts can be had.
pub(crate) enum ArtifactsAt {
    /// In the run's folder.
    Folder(PathBuf),
    /// From the service at this address.
    Service(String),
}

pub(crate) struct Outcome {
    job: Value,
    result: Value,
    artifacts: ArtifactsAt,
}

impl Outcome {
    /// The job and its result, as the API gives them.
    pub(crate) fn new(job: Value, result: Value, artifacts: ArtifactsAt) -> Self {
        Self { job, result, artifacts }
    }

    pub(crate) fn status(&self) -> Option<Status> {
        serde_json::from_value(self.job["status"].clone()).ok()
    }

    /// The job with its result.
    pub(crate) fn document(&self) -> Value {
        let mut document = self.job.clone();
        document["result"] = self.result.clone();
        for artifact in document["result"]["artifacts"].as_array_mut().into_iter().flatten() {
            if let Some(place) = self.place(artifact) {
                artifact["path"] = json!(place);
            }
        }
        document
    }

    /// The result for people.
    pub(crate) fn text(&self, look: Look) -> String {
        let status = self.job["status"].as_str().unwrap_or("unknown");
        let run = self.job["run_id"].as_str().unwrap_or_default();
        let ink = if self.status() == Some(Status::Succeeded) { Ink::Good } else { Ink::Bad };
        let took = self.seconds().map(|seconds| format!(" after {seconds:.1} s")).unwrap_or_default();
        let mut lines = vec![format!("{}{took}, run {run}", look.paint(ink, status))];
        let error = &self.result["error"];
        if !error.is_null() {
            lines.extend(self.error(error, run));
        }
        for warning in self.result["validation_warnings"].as_array().into_iter().flatten() {
            let text = |key: &str| harmless(warning[key].as_str().unwrap_or_default());
            lines.push(look.paint(Ink::Caution, &format!("warning: {}: {}", text("code"), text("message"))));
        }
        let artifacts: Vec<&Value> = self.result["artifacts"].as_array().into_iter().flatten().collect();
        if !artifacts.is_empty() {
            lines.push("artifacts:".to_owned());
            lines.extend(artifacts.into_iter().map(|artifact| {
                let mime = artifact["mime"].as_str().unwrap_or_default();
                let place = self.place(artifact).unwrap_or_default();
                format!("  {} ({mime}, {} bytes)", harmless(&place), artifact["size"])
            }));
        }
        if !self.result["data"].is_null() {
            // JSON escapes what could disturb a terminal, but for a few characters beyond ASCII.
            lines.push(format!("data:\n{}", harmless(&format!("{:#}", self.result["data"]))));
        }
        lines.join("\n")
    }

    fn error(&self, error: &Value, run: &str) -> Vec<String> {
        let text = |value: &Value| harmless(value.as_str().unwrap_or_default());
        let mut lines = vec![format!("error: {}: {}", text(&error["code"]), text(&error["message"]))];
        let mut details = error["details"].clone();
        let hint = details.as_object_mut().and_then(|details| details.remove("hint"));
        if details.as_object().is_some_and(|details| !details.is_empty()) {
            lines.push(format!("details: {}", harmless(&format!("{details:#}"))));
        }
        let known = error["code"].as_str().and_then(ErrorCode::from_text);
        lines.push(match (hint, known) {
            (Some(hint), _) => format!("hint: {}", text(&hint)),
            (None, Some(code)) => format!("hint: {}", code.info().hint.cli),
            (None, None) => format!("hint: `skill-runner history {run}` shows what happened"),
        });
        if let ArtifactsAt::Folder(root) = &self.artifacts {
            lines.push(format!("logs: {}", root.join(RunFolder::Logs.name()).display()));
        }
        lines
    }

    fn place(&self, artifact: &Value) -> Option<String> {
        match &self.artifacts {
            ArtifactsAt::Folder(root) => Some(root.join(artifact["path_rel"].as_str()?).display().to_string()),
            ArtifactsAt::Service(base) => Some(format!("{base}{}", artifact["url"].as_str()?)),
        }
    }

    fn seconds(&self) -> Option<f64> {
        let moment = |key: &str| -> Option<Timestamp> { self.job[key].as_str()?.parse().ok() };
        let micros = moment("updated_at")?.as_micros() - moment("created_at")?.as_micros();
        Some(micros as f64 / 1e6)
    }
}
