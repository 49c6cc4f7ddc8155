//! Python packages of skills: installed once, shared, and every way in which that can go wrong. Wheels are made here, so
//! nothing needs a network.

mod broken;
mod confined;
mod interrupted;
mod operator;
mod story;

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::support::zips::deflated;
use crate::support::{Server, of_type, script_skill};

/// Imports the package and answers with what it says and which Python it runs on.
const GREETS: &str = "import json, os, sys, greet\nrequest = json.load(sys.stdin)\n\
    data = {'greeting': greet.hello(), 'prefix': sys.prefix, 'variable': os.environ.get('VIRTUAL_ENV')}\n\
    print(json.dumps({'success': True, 'data': data}))\n";

const WHEEL: &str = "wheels/greet-1.0-py3-none-any.whl";

/// A wheel of the package `greet`, which says this.
fn wheel(version: &str, says: &str) -> Vec<u8> {
    let info = format!("greet-{version}.dist-info");
    let module = format!("def hello():\n    return {says:?}\n");
    let metadata = format!("Metadata-Version: 2.1\nName: greet\nVersion: {version}\n");
    let about = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n";
    let record = format!("greet.py,,\n{info}/METADATA,,\n{info}/WHEEL,,\n{info}/RECORD,,\n");
    deflated(&[
        ("greet.py", module.as_bytes()),
        (&format!("{info}/METADATA"), metadata.as_bytes()),
        (&format!("{info}/WHEEL"), about.as_bytes()),
        (&format!("{info}/RECORD"), record.as_bytes()),
    ])
}

/// A skill whose script is this Python, with `runtime.python` and any other files.
fn python_skill(skills: &Path, id: &str, script: &str, python: &Value, files: &[(&str, &[u8])]) -> PathBuf {
    let entrypoint = json!({"type": "script", "script": {"command": "python3 scripts/run.py"}});
    let runtime = if python.is_null() { json!({}) } else { json!({"python": python}) };
    script_skill(skills, id, "", json!({"runner": {"entrypoint": entrypoint, "runtime": runtime}}));
    let folder = skills.join(id);
    fs::write(folder.join("scripts/run.py"), script).unwrap();
    for (path, bytes) in files {
        fs::create_dir_all(folder.join(path).parent().unwrap()).unwrap();
        fs::write(folder.join(path), bytes).unwrap();
    }
    folder
}

/// The skill with its wheel in the package.
fn greeter(skills: &Path, id: &str) -> PathBuf {
    python_skill(
        skills,
        id,
        GREETS,
        &json!({"requirements": [format!("./{WHEEL}")]}),
        &[(WHEEL, &wheel("1.0", "good day"))],
    )
}

impl Server {
    fn skills(&self) -> PathBuf {
        self.folder.path().join("skills")
    }

    /// The environments there are.
    fn environments(&self) -> Vec<String> {
        let entries = fs::read_dir(self.data().join("environments")).into_iter().flatten();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    /// Run a skill anew; its events and its result.
    fn ran(&self, skill: &str) -> (Vec<Value>, Value) {
        let (_, run) = self.create_with(&json!({"skill_id": skill, "runtime_options": {"no_cache": true}}));
        let events = self.finish(&run);
        (events, self.get(&format!("/v1/jobs/{run}/result")).json()["result"].take())
    }
}

/// What a run told about its progress.
fn progress(events: &[Value]) -> Vec<String> {
    of_type(events, "run.progress").iter().map(|data| data["message"].as_str().unwrap().to_owned()).collect()
}

/// A package of the skill's own that is built from source, and whose build waits as long as this file is there.
fn slow_package(waits_for: &Path) -> Vec<(String, Vec<u8>)> {
    let project = "[build-system]\nrequires = []\nbuild-backend = 'backend'\nbackend-path = ['.']\n[project]\nname = 'slow'\nversion = '1.0'\n";
    let backend = format!(
        "import os, time, zipfile\n\
         def build_wheel(folder, config_settings=None, metadata_directory=None):\n\
         \x20   while os.path.exists({waits_for:?}):\n\
         \x20       time.sleep(0.05)\n\
         \x20   name = 'slow-1.0-py3-none-any.whl'\n\
         \x20   info = 'slow-1.0.dist-info/'\n\
         \x20   with zipfile.ZipFile(os.path.join(folder, name), 'w') as wheel:\n\
         \x20       wheel.writestr('slow.py', '')\n\
         \x20       wheel.writestr(info + 'METADATA', 'Metadata-Version: 2.1\\nName: slow\\nVersion: 1.0\\n')\n\
         \x20       wheel.writestr(info + 'WHEEL', 'Wheel-Version: 1.0\\nGenerator: t\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n')\n\
         \x20       wheel.writestr(info + 'RECORD', 'slow.py,,\\n' + info + 'METADATA,,\\n' + info + 'WHEEL,,\\n' + info + 'RECORD,,\\n')\n\
         \x20   return name\n"
    );
    vec![
        ("vendor/slow/pyproject.toml".to_owned(), project.as_bytes().to_vec()),
        ("vendor/slow/backend.py".to_owned(), backend.into_bytes()),
    ]
}

/// A folder for the file that a package waits for; to be shown to its installer.
fn waiting_place() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

/// A skill whose packages take as long to install as this file is there.
fn slow_skill(skills: &Path, id: &str, waits_for: &Path) {
    fs::write(waits_for, "").unwrap();
    let files = slow_package(waits_for);
    let files: Vec<(&str, &[u8])> = files.iter().map(|(path, bytes)| (path.as_str(), bytes.as_slice())).collect();
    let script = "import json, slow\nprint(json.dumps({'success': True, 'data': {}}))\n";
    python_skill(skills, id, script, &json!({"requirements": ["./vendor/slow"]}), &files);
}
