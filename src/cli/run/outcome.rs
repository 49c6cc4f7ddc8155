//! The result of a run, as a JSON document and as text for people.

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::cli::terminal::failure_text::failure_lines;
use crate::cli::terminal::look::{Ink, Look, harmless, harmless_name};
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
    /// Why the run failed, if it did and that can be told.
    failure: Option<Value>,
    artifacts: ArtifactsAt,
}

impl Outcome {
    /// The job and its result, as the API gives them.
    pub(crate) fn new(job: Value, result: Value, artifacts: ArtifactsAt) -> Self {
        Self { job, result, failure: None, artifacts }
    }

    /// The same outcome with the explanation of its failure.
    #[must_use]
    pub(crate) fn explained(mut self, failure: Option<Value>) -> Self {
        self.failure = failure;
        self
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

    /// The data of a success, for standard output.
    pub(crate) fn data(&self) -> Option<String> {
        // JSON escapes what could disturb a terminal, but for a few characters beyond ASCII.
        (self.status() == Some(Status::Succeeded)).then(|| harmless(&format!("{:#}", self.result["data"])))
    }

    /// How the run ended, for people: all but the data.
    pub(crate) fn summary(&self, look: Look) -> String {
        let status = harmless_name(self.job["status"].as_str().unwrap_or("unknown"));
        let run = harmless_name(self.job["run_id"].as_str().unwrap_or_default());
        let ink = if self.status() == Some(Status::Succeeded) { Ink::Good } else { Ink::Bad };
        let took = self.seconds().map(|seconds| format!(" after {seconds:.1} s")).unwrap_or_default();
        let mut lines = vec![format!("{}{took}, run {run}", look.paint(ink, &status))];
        match &self.failure {
            Some(failure) => lines.extend(failure_lines(failure)),
            None if self.result["error"].is_null() => {}
            None => {
                let text = |key: &str| self.result["error"][key].as_str().unwrap_or_default();
                lines.push(format!("error: {}: {}", harmless_name(text("code")), harmless(text("message"))));
            }
        }
        // Those of this run were shown when they came; those of an equal run were not.
        let warnings = self.result["validation_warnings"].as_array().filter(|_| self.job["cache_hit"] == true);
        for warning in warnings.into_iter().flatten() {
            let text = |key: &str| harmless(warning[key].as_str().unwrap_or_default());
            lines.push(look.paint(Ink::Caution, &format!("warning: {}: {}", text("code"), text("message"))));
        }
        let artifacts: Vec<&Value> = self.result["artifacts"].as_array().into_iter().flatten().collect();
        if !artifacts.is_empty() {
            lines.push("artifacts:".to_owned());
            lines.extend(artifacts.into_iter().map(|artifact| {
                let mime = harmless_name(artifact["mime"].as_str().unwrap_or_default());
                let place = harmless_name(&self.place(artifact).unwrap_or_default());
                format!("  {place} ({mime}, {} bytes)", harmless_name(&artifact["size"].to_string()))
            }));
        }
        if let ArtifactsAt::Folder(root) = &self.artifacts
            && self.status() != Some(Status::Succeeded)
        {
            lines.push(format!("logs: {}", root.join(RunFolder::Logs.name()).display()));
        }
        lines.join("\n")
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
