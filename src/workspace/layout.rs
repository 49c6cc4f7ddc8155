//! Where everything under the data folder lives; no other place joins these names.

use std::path::{Path, PathBuf};

use crate::domain::ids::{RequestId, RunId};

/// The data folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    data: PathBuf,
}

impl Layout {
    /// The layout below this data folder. Nothing is created.
    pub fn new(data_dir: impl Into<PathBuf>) -> Self {
        Self { data: data_dir.into() }
    }

    /// The data folder itself.
    pub fn data(&self) -> &Path {
        &self.data
    }

    /// The event store.
    pub fn store(&self) -> PathBuf {
        self.data.join("store")
    }

    /// The folder of all runs.
    pub fn runs(&self) -> PathBuf {
        self.data.join("runs")
    }

    /// The files of one run.
    pub fn run(&self, run: RunId) -> RunPaths {
        // Temporary files stay outside the run's folder: they must never reach a debug bundle.
        RunPaths { root: self.runs().join(run.to_string()), tmp: self.tmp().join(run.to_string()) }
    }

    /// Temporary files of runs, one folder each.
    pub fn tmp(&self) -> PathBuf {
        self.data.join("tmp")
    }

    /// The folder of all requests.
    pub fn requests(&self) -> PathBuf {
        self.data.join("requests")
    }

    /// The folder of one request.
    pub fn request(&self, request: RequestId) -> PathBuf {
        self.requests().join(request.to_string())
    }

    /// The engine configuration a client sent; it may hold secrets, so it is never in the run's folder.
    pub fn request_engine_config(&self, request: RequestId) -> PathBuf {
        self.request(request).join("engine_config.json")
    }

    /// The request for a run whose skill comes later; it may hold secrets, as the engine configuration may.
    pub fn kept_request(&self, request: RequestId) -> PathBuf {
        self.request(request).join("request.json")
    }

    /// Where a request's uploads are staged.
    pub fn request_uploads(&self, request: RequestId) -> PathBuf {
        self.request(request).join("uploads")
    }

    /// What became of the packages that were sent to be installed.
    pub fn installs(&self) -> PathBuf {
        self.data.join("installs")
    }

    /// Address and pid of the service that runs on this data folder.
    pub fn service_address(&self) -> PathBuf {
        self.data.join("service.json")
    }

    /// The service's own log, where no other place is configured.
    pub fn log_file(&self) -> PathBuf {
        self.data.join("logs").join("skill-runner.log")
    }
}

/// The files of one run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunPaths {
    /// The run's folder.
    pub root: PathBuf,
    /// The run's folder for temporary files, outside `root`.
    pub tmp: PathBuf,
}

impl RunPaths {
    /// The skill as it was when the run began.
    pub fn skill_json(&self) -> PathBuf {
        self.root.join("skill.json")
    }

    /// Inline inputs, parameters and options.
    pub fn input_json(&self) -> PathBuf {
        self.root.join("input.json")
    }

    /// The artifact manifest.
    pub fn manifest_json(&self) -> PathBuf {
        self.root.join("manifest.json")
    }

    /// Uploaded files, one per file field.
    pub fn uploads(&self) -> PathBuf {
        self.root.join("uploads")
    }

    /// What the skill produced.
    pub fn artifacts(&self) -> PathBuf {
        self.root.join("artifacts")
    }

    /// The folder of the result.
    pub fn result(&self) -> PathBuf {
        self.root.join("result")
    }

    /// The final result; before the end perhaps the skill's own bare data.
    pub fn result_json(&self) -> PathBuf {
        self.result().join("result.json")
    }

    /// The steps of validation.
    pub fn validation_json(&self) -> PathBuf {
        self.result().join("validation.json")
    }

    /// The folder of unprocessed output.
    pub fn raw(&self) -> PathBuf {
        self.root.join("raw")
    }

    /// The engine's output as text.
    pub fn raw_engine_output(&self) -> PathBuf {
        self.raw().join("engine_output.txt")
    }

    /// The engine's output, where it is one JSON document.
    pub fn raw_engine_output_json(&self) -> PathBuf {
        self.raw().join("engine_output.json")
    }

    /// `result/result.json` as the skill wrote it.
    pub fn raw_skill_result(&self) -> PathBuf {
        self.raw().join("skill_result.json")
    }

    /// The result file that a later step of the same turn wrote, as it wrote it.
    pub fn raw_step_result(&self, level: &str) -> PathBuf {
        self.raw().join(format!("skill_result.{level}.json"))
    }

    /// What the script behind an engine answered.
    pub fn raw_script_output(&self) -> PathBuf {
        self.raw().join("script_output.txt")
    }

    /// The same, where it is one JSON document.
    pub fn raw_script_output_json(&self) -> PathBuf {
        self.raw().join("script_output.json")
    }

    /// What an engine answered when it was asked to repair its output.
    pub fn raw_repair_output(&self) -> PathBuf {
        self.raw().join("repair_output.txt")
    }

    /// The output schema, for those who are given its path.
    pub fn raw_output_schema(&self) -> PathBuf {
        self.raw().join("output.schema.json")
    }

    /// The folder of the run's logs.
    pub fn logs(&self) -> PathBuf {
        self.root.join("logs")
    }

    /// Every byte of the engine's standard output.
    pub fn stdout(&self) -> PathBuf {
        self.logs().join("stdout.txt")
    }

    /// Every byte of the engine's standard error.
    pub fn stderr(&self) -> PathBuf {
        self.logs().join("stderr.txt")
    }

    /// Every byte of the engine's terminal.
    pub fn pty(&self) -> PathBuf {
        self.logs().join("pty.txt")
    }

    /// The rendered prompt.
    pub fn prompt(&self) -> PathBuf {
        self.logs().join("prompt.txt")
    }

    /// The exported event log.
    pub fn events_jsonl(&self) -> PathBuf {
        self.logs().join("events.jsonl")
    }

    /// The folder of the bundles.
    pub fn bundles(&self) -> PathBuf {
        self.root.join("bundle")
    }

    /// The bundle for clients, or the one with everything.
    pub fn bundle(&self, debug: bool) -> PathBuf {
        self.bundles().join(if debug { "run_bundle_debug.zip" } else { "run_bundle.zip" })
    }

    /// What is in that bundle.
    pub fn bundle_manifest(&self, debug: bool) -> PathBuf {
        self.bundles().join(if debug { "manifest_debug.json" } else { "manifest.json" })
    }

    /// The run's own copy of the skill, where the engine looks for skills.
    pub fn skill_copy(&self, engine: &str, skill_id: &str) -> PathBuf {
        self.root.join(format!(".{engine}")).join("skills").join(skill_id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_layout_is_the_documented_one() {
        let layout = Layout::new("data");
        let id = "0192f0c1-2d3e-7f40-8a51-6b7c8d9e0f11";
        let run = layout.run(id.parse().unwrap());
        let found = [
            layout.store(),
            layout.request_uploads(id.parse().unwrap()),
            layout.service_address(),
            layout.log_file(),
            run.root.clone(),
            run.tmp.clone(),
            run.skill_json(),
            run.validation_json(),
            run.raw_engine_output(),
            run.pty(),
            run.bundle(false),
            run.bundle(true),
            run.bundle_manifest(true),
            run.skill_copy("codex", "pdf-tools"),
        ]
        .map(|path| path.to_str().unwrap().replace(id, "ID"));
        assert_eq!(
            found,
            [
                "data/store",
                "data/requests/ID/uploads",
                "data/service.json",
                "data/logs/skill-runner.log",
                "data/runs/ID",
                "data/tmp/ID",
                "data/runs/ID/skill.json",
                "data/runs/ID/result/validation.json",
                "data/runs/ID/raw/engine_output.txt",
                "data/runs/ID/logs/pty.txt",
                "data/runs/ID/bundle/run_bundle.zip",
                "data/runs/ID/bundle/run_bundle_debug.zip",
                "data/runs/ID/bundle/manifest_debug.json",
                "data/runs/ID/.codex/skills/pdf-tools",
            ]
        );
    }
}
