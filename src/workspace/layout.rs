//! Every path under the data folder; no other module joins these names.

use std::path::{Path, PathBuf};

use crate::domain::ids::{RequestId, RunId};
use crate::domain::run_file::{RunFile, RunFolder};
use crate::engine;

/// The file with a request whose skill is uploaded later.
pub(crate) const KEPT_REQUEST: &str = "request.json";

/// The folder of a store that is not in its place yet, and of one that was replaced.
pub(crate) const NEW_STORE: &str = "new-store";
pub(crate) const OLD_STORE: &str = "old-store";

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
    pub(crate) fn data(&self) -> &Path {
        &self.data
    }

    pub(crate) fn store(&self) -> PathBuf {
        self.data.join("store")
    }

    /// Where another store is made that takes its place.
    pub(crate) fn new_store(&self) -> PathBuf {
        self.data.join(NEW_STORE)
    }

    /// Where the store is kept that was there before.
    pub(crate) fn old_store(&self) -> PathBuf {
        self.data.join(OLD_STORE)
    }

    /// The folder of all runs.
    pub fn runs(&self) -> PathBuf {
        self.data.join("runs")
    }

    /// The files of one run.
    pub fn run(&self, run: RunId) -> RunPaths {
        // Temporary files stay outside the run's folder: they must never reach a debug bundle.
        RunPaths {
            root: self.runs().join(run.to_string()),
            tmp: self.tmp().join(run.to_string()),
            home: self.homes().join(run.to_string()),
            sealed: self.sealed().join(format!("{run}.jsonl")),
            state: self.cached().join(run.to_string()),
        }
    }

    /// What is known of runs whose files are shared, one file each.
    pub(crate) fn cached(&self) -> PathBuf {
        self.data.join("cached")
    }

    /// Copies of skills that runs share, by their content.
    pub(crate) fn skill_copies(&self) -> PathBuf {
        self.data.join("skill-copies")
    }

    /// Python environments of skills, by their content.
    pub(crate) fn environments(&self) -> PathBuf {
        self.data.join("environments")
    }

    /// Sealed logs of runs that have no folder.
    pub(crate) fn sealed(&self) -> PathBuf {
        self.data.join("sealed")
    }

    /// Results that runs share, by the run they came from.
    pub(crate) fn shared_results(&self) -> PathBuf {
        self.data.join("results")
    }

    /// The result of this run, for those that took it.
    pub(crate) fn shared_result(&self, source: RunId) -> PathBuf {
        self.shared_results().join(source.to_string())
    }

    /// Temporary files of runs, one folder each.
    pub fn tmp(&self) -> PathBuf {
        self.data.join("tmp")
    }

    /// Homes of engines, one folder for each run that has one.
    pub(crate) fn homes(&self) -> PathBuf {
        self.data.join("homes")
    }

    /// The folder of all requests.
    pub(crate) fn requests(&self) -> PathBuf {
        self.data.join("requests")
    }

    /// The folder of one request.
    pub(crate) fn request(&self, request: RequestId) -> PathBuf {
        self.requests().join(request.to_string())
    }

    /// The engine configuration a client sent; it may hold secrets, so it is never in the run's folder.
    pub(crate) fn request_engine_config(&self, request: RequestId) -> PathBuf {
        self.request(request).join("engine_config.json")
    }

    /// The request for a run whose skill is uploaded later; it may hold secrets, like the engine configuration.
    pub(crate) fn kept_request(&self, request: RequestId) -> PathBuf {
        self.request(request).join(KEPT_REQUEST)
    }

    /// Where a request's uploads are staged.
    pub(crate) fn request_uploads(&self, request: RequestId) -> PathBuf {
        self.request(request).join("uploads")
    }

    /// The demo skills that the program carries.
    pub(crate) fn builtin_skills(&self) -> PathBuf {
        self.data.join("builtin-skills")
    }

    /// What became of the packages that were sent to be installed.
    pub(crate) fn installs(&self) -> PathBuf {
        self.data.join("installs")
    }

    /// Its folders, but for those that a setting can put elsewhere.
    pub(crate) fn folders(&self) -> [PathBuf; 16] {
        [
            self.store(),
            self.new_store(),
            self.old_store(),
            self.runs(),
            self.cached(),
            self.skill_copies(),
            self.environments(),
            self.sealed(),
            self.shared_results(),
            self.tmp(),
            self.homes(),
            self.requests(),
            self.builtin_skills(),
            self.installs(),
            self.data.join("engines"),
            self.data.join("logs"),
        ]
    }

    /// The private key that signs the runs of this data folder.
    pub(crate) fn signing_key(&self) -> PathBuf {
        self.data.join("signing-key")
    }

    /// The named tokens that open the service.
    pub(crate) fn tokens(&self) -> PathBuf {
        self.data.join("tokens.json")
    }

    /// What is left of that file when its tokens have become those of several services; nobody reads it.
    pub(crate) fn moved_tokens(&self) -> PathBuf {
        self.data.join("tokens-moved.json")
    }

    /// Held while the tokens are changed.
    pub(crate) fn tokens_lock(&self) -> PathBuf {
        self.data.join("tokens.lock")
    }

    /// The sessions of browsers that have logged in.
    pub(crate) fn sessions(&self) -> PathBuf {
        self.data.join("sessions.json")
    }

    /// What is known to be damaged.
    pub(crate) fn damage(&self) -> PathBuf {
        self.data.join("damage.json")
    }

    /// How far a check of the whole data folder has come.
    pub(crate) fn verify_progress(&self) -> PathBuf {
        self.data.join("verify.json")
    }

    /// Address and pid of the service that runs on this data folder.
    pub(crate) fn service_address(&self) -> PathBuf {
        self.data.join("service.json")
    }
}

/// The paths of one run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunPaths {
    pub(crate) root: PathBuf,
    /// The run's folder for temporary files, outside `root`.
    pub(crate) tmp: PathBuf,
    /// The home of the run's engine, with its sessions; outside `root`, so that it is never shown.
    pub(crate) home: PathBuf,
    /// The run's sealed log while it has no folder.
    pub(crate) sealed: PathBuf,
    /// Says which of the shared files of the run are on this disk; outside `root`, where engines write.
    pub(crate) state: PathBuf,
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

    /// Where the sealed log is, if the run has one.
    pub(crate) fn sealed_log(&self) -> Option<PathBuf> {
        [self.file(RunFile::Events), self.sealed.clone()].into_iter().find(|path| path.symlink_metadata().is_ok())
    }

    /// The run's own copy of the skill, where the engine looks for skills.
    pub(crate) fn skill_copy(&self, engine: &str, skill_id: &str) -> PathBuf {
        self.root.join(&*engine::skills_folder(engine)).join(skill_id)
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
            run.root.clone(),
            run.tmp.clone(),
            run.home.clone(),
            run.sealed.clone(),
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
                "data/runs/ID",
                "data/tmp/ID",
                "data/homes/ID",
                "data/sealed/ID.jsonl",
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
