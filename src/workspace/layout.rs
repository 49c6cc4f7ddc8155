//! Every path under the data folder; no other module joins these names.

use std::path::{Path, PathBuf};

use crate::domain::ids::{RequestId, RunId};
use crate::domain::run_file::{RunFile, RunFolder};
use crate::engine;

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

/// The paths of one run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunPaths {
    /// The run's folder.
    pub root: PathBuf,
    /// The run's folder for temporary files, outside `root`.
    pub tmp: PathBuf,
}

impl RunPaths {
    /// The path of a file of the run.
    pub fn file(&self, file: RunFile) -> PathBuf {
        self.root.join(file.name())
    }

    /// The path of a folder of the run.
    pub fn folder(&self, folder: RunFolder) -> PathBuf {
        self.root.join(folder.name())
    }

    /// The run's own copy of the skill, where the engine looks for skills.
    pub fn skill_copy(&self, engine: &str, skill_id: &str) -> PathBuf {
        self.root.join(&*engine::skills_folder(engine)).join(skill_id)
    }

    // TRANSITION
    /// See [`RunFolder::Uploads`].
    pub fn uploads(&self) -> PathBuf {
        self.folder(RunFolder::Uploads)
    }
    /// See [`RunFolder::Artifacts`].
    pub fn artifacts(&self) -> PathBuf {
        self.folder(RunFolder::Artifacts)
    }
    /// See [`RunFolder::Result`].
    pub fn result(&self) -> PathBuf {
        self.folder(RunFolder::Result)
    }
    /// See [`RunFolder::Raw`].
    pub fn raw(&self) -> PathBuf {
        self.folder(RunFolder::Raw)
    }
    /// See [`RunFolder::Logs`].
    pub fn logs(&self) -> PathBuf {
        self.folder(RunFolder::Logs)
    }
    /// See [`RunFile::Skill`].
    pub fn skill_json(&self) -> PathBuf {
        self.file(RunFile::Skill)
    }
    /// See [`RunFile::Input`].
    pub fn input_json(&self) -> PathBuf {
        self.file(RunFile::Input)
    }
    /// See [`RunFile::Manifest`].
    pub fn manifest_json(&self) -> PathBuf {
        self.file(RunFile::Manifest)
    }
    /// See [`RunFile::Result`].
    pub fn result_json(&self) -> PathBuf {
        self.file(RunFile::Result)
    }
    /// See [`RunFile::Validation`].
    pub fn validation_json(&self) -> PathBuf {
        self.file(RunFile::Validation)
    }
    /// See [`RunFile::EngineOutput`].
    pub fn raw_engine_output(&self) -> PathBuf {
        self.file(RunFile::EngineOutput)
    }
    /// See [`RunFile::EngineOutputJson`].
    pub fn raw_engine_output_json(&self) -> PathBuf {
        self.file(RunFile::EngineOutputJson)
    }
    /// See [`RunFile::SkillResult`].
    pub fn raw_skill_result(&self) -> PathBuf {
        self.file(RunFile::SkillResult)
    }
    /// See [`RunFile::ScriptOutput`].
    pub fn raw_script_output(&self) -> PathBuf {
        self.file(RunFile::ScriptOutput)
    }
    /// See [`RunFile::ScriptOutputJson`].
    pub fn raw_script_output_json(&self) -> PathBuf {
        self.file(RunFile::ScriptOutputJson)
    }
    /// See [`RunFile::RepairOutput`].
    pub fn raw_repair_output(&self) -> PathBuf {
        self.file(RunFile::RepairOutput)
    }
    /// See [`RunFile::OutputSchema`].
    pub fn raw_output_schema(&self) -> PathBuf {
        self.file(RunFile::OutputSchema)
    }
    /// See [`RunFile::Stdout`].
    pub fn stdout(&self) -> PathBuf {
        self.file(RunFile::Stdout)
    }
    /// See [`RunFile::Stderr`].
    pub fn stderr(&self) -> PathBuf {
        self.file(RunFile::Stderr)
    }
    /// See [`RunFile::Pty`].
    pub fn pty(&self) -> PathBuf {
        self.file(RunFile::Pty)
    }
    /// See [`RunFile::Prompt`].
    pub fn prompt(&self) -> PathBuf {
        self.file(RunFile::Prompt)
    }
    /// See [`RunFile::Events`].
    pub fn events_jsonl(&self) -> PathBuf {
        self.file(RunFile::Events)
    }
    /// The result file that a later step of the same turn wrote, as it wrote it.
    pub fn raw_step_result(&self, level: &str) -> PathBuf {
        self.raw().join(format!("skill_result.{level}.json"))
    }
    /// The bundle for clients, or the one with everything.
    pub fn bundle(&self, debug: bool) -> PathBuf {
        self.file(if debug { RunFile::DebugBundle } else { RunFile::Bundle })
    }
    /// What is in that bundle.
    pub fn bundle_manifest(&self, debug: bool) -> PathBuf {
        self.file(if debug { RunFile::DebugBundleManifest } else { RunFile::BundleManifest })
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
            run.folder(RunFolder::Uploads),
            run.file(RunFile::Skill),
            run.file(RunFile::Validation),
            run.file(RunFile::EngineOutput),
            run.file(RunFile::Pty),
            run.file(RunFile::Bundle),
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
                "data/runs/ID/uploads",
                "data/runs/ID/skill.json",
                "data/runs/ID/result/validation.json",
                "data/runs/ID/raw/engine_output.txt",
                "data/runs/ID/logs/pty.txt",
                "data/runs/ID/bundle/run_bundle.zip",
                "data/runs/ID/.codex/skills/pdf-tools",
            ]
        );
    }
}
