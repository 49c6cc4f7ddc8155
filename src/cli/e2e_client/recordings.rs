//! The folder of recordings: a file per run, written whole with each step.

use std::fs;
use std::path::PathBuf;
use std::sync::Mutex;

use serde_json::{Value, json};
use tracing::warn;
use uuid::Uuid;

use crate::bounded;
use crate::cli::e2e_client::recording::{FORMAT, Recording, Step};
use crate::domain::causes::chain;
use crate::files;
use crate::settings::Secret;

/// Most bytes of a recording that is read.
const FILE_MAX: u64 = 32 * 1024 * 1024;
/// Most recordings in the list, newest first.
const LISTED_MAX: usize = 200;
/// What stands in the place of the token, should somebody have written it into a form.
const MASK: &str = "***";

#[derive(Debug)]
pub(crate) struct Recordings {
    folder: PathBuf,
    service: String,
    token: Option<Secret>,
    /// What went wrong last; held while a file is changed, so that no step is lost.
    trouble: Mutex<Option<String>>,
}

impl Recordings {
    pub(super) fn new(folder: PathBuf, service: String, token: Option<Secret>) -> Self {
        Self { folder, service, token, trouble: Mutex::new(None) }
    }

    fn file(&self, run: Uuid) -> PathBuf {
        self.folder.join(format!("{run}.json"))
    }

    /// Adds a step to the recording of a run. What cannot be written is told in the list: the run itself goes on.
    pub(super) fn add(&self, run: &str, step: Step) {
        let Ok(run) = run.parse::<Uuid>() else { return };
        let Ok(mut trouble) = self.trouble.lock() else { return };
        *trouble = self.write(run, step).err();
        if let Some(trouble) = trouble.as_deref() {
            warn!("{trouble}");
        }
    }

    fn write(&self, run: Uuid, step: Step) -> Result<(), String> {
        let path = self.file(run);
        let failed = |error: files::Error| format!("a step is not recorded: {}", chain(&error));
        let mut recording = match self.read(&run.to_string()) {
            Some(recording) => recording,
            None if path.exists() => return Err(format!("{} is no recording, and is left as it is", path.display())),
            None => Recording::new(run.to_string(), self.service.clone()),
        };
        if !recording.add(step) {
            return Ok(());
        }
        let text = serde_json::to_string_pretty(&recording).map_err(|error| error.to_string())?;
        files::create_folder(&self.folder).map_err(failed)?;
        files::write_private(&path, self.masked(text).as_bytes()).map_err(failed)
    }

    /// The text without the token.
    fn masked(&self, text: String) -> String {
        match &self.token {
            Some(token) if text.contains(token.expose()) => text.replace(token.expose(), MASK),
            Some(_) | None => text,
        }
    }

    /// A recording; none if there is none of this run that can be read.
    pub(super) fn read(&self, run: &str) -> Option<Recording> {
        let run: Uuid = run.parse().ok()?;
        let bytes = files::read_regular(&self.file(run), FILE_MAX).ok()??;
        let recording: Recording = bounded::json::from_slice(&bytes).ok()?;
        (recording.format == FORMAT).then_some(recording)
    }

    /// The recordings, newest first, and what went wrong last.
    pub(super) fn list(&self) -> Value {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let name = |entry: fs::DirEntry| Some(entry.file_name().to_str()?.strip_suffix(".json")?.to_owned());
        let mut runs: Vec<Uuid> = entries.filter_map(name).filter_map(|name| name.parse().ok()).collect();
        // Ids begin with the time.
        runs.sort_unstable_by(|one, other| other.cmp(one));
        let told = runs.iter().take(LISTED_MAX).filter_map(|run| self.read(&run.to_string())).map(|recording| {
            json!({
                "request_id": recording.request_id,
                "skill_id": recording.skill_id,
                "service": recording.service,
                "began_at": recording.steps.first().map(|step| step.at),
                "actions": recording.steps.iter().map(|step| step.action).collect::<Vec<_>>(),
            })
        });
        let told: Vec<Value> = told.collect();
        let trouble = self.trouble.lock().map(|trouble| trouble.clone()).unwrap_or_default();
        json!({"recordings": told, "folder": self.folder, "trouble": trouble})
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::cli::e2e_client::recording::{Action, Content};
    use crate::domain::time::Timestamp;

    const RUN: &str = "0192f0c1-2d3e-7f40-8a51-6b7c8d9e0f11";

    fn step(text: &str) -> Step {
        Step {
            at: Timestamp::from_micros(0),
            action: Action::Create,
            method: "POST".to_owned(),
            path: "/v1/jobs".to_owned(),
            request: Content::of(json!({"skill_id": "demo-echo", "input": {"text": text}}).to_string().as_bytes()),
            files: Vec::new(),
            status: 201,
            answer: Content::of(b"{}"),
        }
    }

    #[test]
    fn a_step_is_kept_what_is_no_recording_is_left_alone_and_the_trouble_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let recordings = Recordings::new(folder.path().join("deep/er"), "http://x".to_owned(), None);
        recordings.add(RUN, step("a"));
        recordings.add(RUN, step("b"));
        recordings.add("../../escape", step("c"));
        assert_eq!(recordings.read(RUN).unwrap().steps.len(), 2);
        assert_eq!(recordings.list()["recordings"][0]["actions"], json!(["create", "create"]));
        assert_eq!(recordings.list()["trouble"], Value::Null);
        let other = "0192f0c1-2d3e-7f40-8a51-6b7c8d9e0f12";
        let file = folder.path().join(format!("deep/er/{other}.json"));
        fs::write(&file, "{}").unwrap();
        recordings.add(other, step("d"));
        assert_eq!(fs::read_to_string(&file).unwrap(), "{}");
        assert!(recordings.list()["trouble"].as_str().unwrap().contains("is no recording"));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is written elsewhere");
    }
}
