//! What all worlds share: the skills, the uploads, and a program whose only word is its version.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Value, json};
use skill_runner::installed_engines::InstalledEngines;
use skill_runner::registry::Registry;
use skill_runner::settings::Settings;

use crate::package::script_skill;
use crate::parts::LOG_MAX;

/// A folder for worlds.
pub struct StageSet {
    pub folder: PathBuf,
    pub installed_engines: InstalledEngines,
    pub registry: Registry,
    _guard: tempfile::TempDir,
}

impl StageSet {
    pub fn build() -> Arc<StageSet> {
        // In memory where the machine has it: bundles and results are written and synced for real.
        let memory = Path::new("/dev/shm");
        let place = tempfile::Builder::new().prefix("skill-runner-simulation-").tempdir_in(memory);
        let guard = place.or_else(|_| tempfile::tempdir()).unwrap();
        let folder = guard.path().to_owned();
        let skills = folder.join("skills");
        script_skill(&skills, "tiny", "", json!({}));
        let file = json!({"type": "object", "properties": {"a": {"type": "string", "x-input-source": "file"}}, "required": ["a"]});
        script_skill(&skills, "filed", "", json!({"input": file}));
        ask_skill(&skills, "ask", json!({"type": "prompt"}), &["auto", "interactive"]);
        let helper = json!({"type": "hybrid", "script": {"command": "sh scripts/behind.sh"}});
        ask_skill(&skills, "both", helper, &["auto"]);
        let output = json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]});
        let steps = json!({"normalizer": {"command": "sh scripts/normalizer.sh"}, "fallback": {"command": "sh scripts/fallback.sh"}});
        script_skill(&skills, "made", "", json!({"output": output, "runner": steps}));
        for script in ["normalizer.sh", "fallback.sh"] {
            fs::write(skills.join("made/scripts").join(script), "").unwrap();
        }
        let codex = folder.join("codex");
        fs::write(&codex, "#!/bin/sh\necho codex-cli 9.9.9\n").unwrap();
        fs::set_permissions(&codex, fs::Permissions::from_mode(0o755)).unwrap();
        fs::write(folder.join("bad.zip"), "not a zip").unwrap();
        let mut zip = zip::ZipWriter::new(fs::File::create(folder.join("good.zip")).unwrap());
        zip.start_file("a", zip::write::SimpleFileOptions::default()).unwrap();
        zip.write_all(b"a file").unwrap();
        zip.finish().unwrap();
        zip_skill(&folder, "own", "own.zip", |place| script_skill(place, "own", "", json!({})));
        for version in 1..=VERSIONS {
            zip_skill(&folder, "demo", &format!("demo-{version}.zip"), |place| {
                let manifest = json!({"version": format!("{version}.0.0")});
                script_skill(place, "demo", &format!("{version}\n"), json!({"runner": manifest}));
                fs::write(place.join("demo/notes.md"), format!("{version}\n")).unwrap();
            });
        }
        let installed_engines = InstalledEngines::with_env(&settings(&folder, &folder, &[]), BTreeMap::new());
        let registry = Registry::new(skills);
        Arc::new(StageSet { folder, installed_engines, registry, _guard: guard })
    }

    /// A skills folder of a world's own.
    pub fn copy_skills(&self, to: &Path) {
        copy(&self.folder.join("skills"), to);
    }

    /// The settings of a world.
    pub fn settings(&self, data: &Path, own: &[(&str, String)]) -> Settings {
        settings(&self.folder, data, own)
    }
}

fn settings(folder: &Path, data: &Path, own: &[(&str, String)]) -> Settings {
    let text = |path: &Path| path.to_str().unwrap().to_owned();
    let mut flags = vec![
        ("data_dir", text(data)),
        ("skills_dir", text(&folder.join("skills"))),
        ("agent_home", text(&data.join("home"))),
        ("npm_prefix", text(&folder.join("npm"))),
        ("engines.codex.command", text(&folder.join("codex"))),
        ("min_free_bytes", "0".to_owned()),
        ("kill_grace_seconds", "2".to_owned()),
        ("exit_grace_seconds", "3".to_owned()),
        ("max_log_bytes", LOG_MAX.to_string()),
    ];
    flags.extend(own.iter().cloned());
    let flags: Vec<(String, String)> = flags.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
    Settings::load(None, &BTreeMap::new(), &flags, 2).unwrap()
}

/// Versions of the package that is installed.
pub const VERSIONS: u64 = 4;

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// The zip of a skill that `write` makes, in the stage set's folder.
fn zip_skill(folder: &Path, id: &str, name: &str, write: impl FnOnce(&Path)) {
    let place = tempfile::tempdir_in(folder).unwrap();
    write(place.path());
    let mut zip = zip::ZipWriter::new(fs::File::create(folder.join(name)).unwrap());
    let mut waiting = vec![place.path().join(id)];
    while let Some(at) = waiting.pop() {
        let mut entries: Vec<PathBuf> = fs::read_dir(&at).unwrap().map(|entry| entry.unwrap().path()).collect();
        entries.sort();
        for path in entries {
            if path.is_dir() {
                waiting.push(path);
                continue;
            }
            let inside = path.strip_prefix(place.path()).unwrap().to_str().unwrap();
            zip.start_file(inside, zip::write::SimpleFileOptions::default()).unwrap();
            zip.write_all(&fs::read(&path).unwrap()).unwrap();
        }
    }
    zip.finish().unwrap();
}

fn ask_skill(skills: &Path, id: &str, entrypoint: Value, modes: &[&str]) {
    let dir = skills.join(id);
    fs::create_dir_all(dir.join("assets")).unwrap();
    fs::create_dir_all(dir.join("scripts")).unwrap();
    fs::write(dir.join("scripts/behind.sh"), "").unwrap();
    fs::write(dir.join("SKILL.md"), format!("---\nname: {id}\ndescription: Asks.\n---\n\nAsk for a name.\n")).unwrap();
    let mut runner = json!({"id": id, "version": "1.0.0", "execution_modes": modes,
        "entrypoint": entrypoint, "schemas": {"output": "assets/output.schema.json"}});
    if modes.contains(&"interactive") {
        runner["max_attempt"] = json!(4);
    }
    fs::write(dir.join("assets/runner.json"), runner.to_string()).unwrap();
    let output = json!({"type": "object", "additionalProperties": false, "required": ["name"],
        "properties": {"name": {"type": "string"}}});
    fs::write(dir.join("assets/output.schema.json"), output.to_string()).unwrap();
}
