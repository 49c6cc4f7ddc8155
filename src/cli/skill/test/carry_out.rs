//! One test of a package, carried out by this process in a data folder that is thrown away.

use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use crate::bounded;
use crate::cli::connect::data_folder;
use crate::cli::failure::Failure;
use crate::cli::run::input_files;
use crate::cli::skill::test::recorded;
use crate::domain::engine::Engine;
use crate::domain::ids::RunId;
use crate::domain::statechart::Status;
use crate::files;
use crate::orchestrator::{CreateRequest, Delivery, Orchestrator};
use crate::registry::{Installed, Registry};
use crate::settings::{EngineSettings, Settings};
use crate::skill::own_tests::{Came, FOLDER, OwnTest};
use crate::store::MemoryStore;
use crate::workspace::Sent;

/// A wait that ends by itself is begun again.
const WAIT: Duration = Duration::from_secs(60);
/// How long a test's run is waited for after its end.
const DRAIN: Duration = Duration::from_secs(5);

/// Runs the test in a folder that all tests of the package share, so that what their runs need is made once; what came of it. A
/// test that cannot be run at all is a failure.
pub(super) async fn carry_out(
    mut settings: Settings,
    package: &Installed,
    test: &OwnTest,
    scratch: &Path,
) -> Result<Came, Failure> {
    let skills_dir = package.dir.parent().unwrap_or(Path::new("/"));
    settings.paths.data_dir = scratch.join("data");
    // Neither logins nor sessions of the user: nothing but the recording speaks.
    settings.paths.agent_home = scratch.join("home");
    settings.paths.skills_dir = skills_dir.to_owned();
    let engine = engine_of(package, test)?;
    if engine != Engine::Script {
        let folder = tempfile::Builder::new().prefix("recorded-").tempdir_in(scratch);
        // It goes with the scratch folder, when nothing uses it any more.
        let folder = folder.map_err(Failure::broken("make a folder for the recording"))?.keep();
        let recordings = test.recording.iter().map(|path| recording(package, path));
        let program = recorded::engine(&recordings.collect::<Result<Vec<_>, _>>()?, &folder)?;
        let command = Some(program.to_string_lossy().into_owned());
        settings.engines.insert(engine, EngineSettings { command, env_pass: Vec::new() });
        // The recording is played by this program, wherever it is.
        let own = std::env::current_exe().map_err(Failure::broken("find this program"))?;
        settings.runs.sandbox_read.extend(own.parent().map(Path::to_owned));
    }
    std::fs::create_dir_all(&settings.paths.data_dir).map_err(Failure::broken("make a folder for the test"))?;
    let store = Arc::new(MemoryStore::default());
    let orchestrator = data_folder::take_over(store, Registry::new(skills_dir), settings).await?;
    let came = outcome(&orchestrator, package, test, engine).await;
    let layout = orchestrator.layout().clone();
    orchestrator.drain(DRAIN).await;
    // The next test has another store, which would find runs that it does not know.
    for folder in [layout.runs(), layout.homes(), layout.sealed()] {
        files::remove_tree(&folder).map_err(Failure::broken("remove the runs of a test"))?;
    }
    came
}

/// The test's engine: that which it names, else the script, else the first of the skill's.
fn engine_of(package: &Installed, test: &OwnTest) -> Result<Engine, Failure> {
    let engines = package.skill.effective_engines();
    let usual = || {
        let script = engines.iter().find(|engine| **engine == Engine::Script && test.recording.is_empty());
        script.or_else(|| engines.iter().find(|engine| **engine != Engine::Script)).or(engines.first()).copied()
    };
    let Some(engine) = test.engine.or_else(usual) else {
        return Err(Failure::Usage("the skill runs on no engine".into()));
    };
    match (engine, test.recording.is_empty()) {
        (Engine::Script, false) => {
            Err(Failure::Usage("a script runs as it is: leave out recording, or name an engine".into()))
        }
        (Engine::Script, true) => Ok(engine),
        (other, true) => Err(Failure::Usage(format!(
            "on {other} a test needs a recording: a file in {FOLDER}/ with what the engine printed; `skill-runner logs ID \
             --stream stdout` prints that of a run"
        ))),
        (other, false) => Ok(other),
    }
}

/// The path of a file that a test names, relative to the folder of tests. A package is somebody else's: its tests get none but its own
/// files.
fn own_file(package: &Installed, path: &str) -> Result<String, Failure> {
    let foreign = || {
        Failure::Usage(format!(
            "the package has no file {path:?}: a test names files of its package, relative to {FOLDER}/"
        ))
    };
    let mut parts = vec![FOLDER];
    for part in Path::new(path).components() {
        match part {
            Component::Normal(part) => parts.push(part.to_str().ok_or_else(foreign)?),
            Component::CurDir => {}
            Component::ParentDir => drop(parts.pop().ok_or_else(foreign)?),
            Component::RootDir | Component::Prefix(_) => return Err(foreign()),
        }
    }
    let named = parts.join("/");
    let begin = format!("{named}/");
    let is_own = package.files.iter().any(|file| *file == named || file.starts_with(&begin));
    if is_own { Ok(named) } else { Err(foreign()) }
}

/// A recording, which is a file or a folder with the engine's standard output.
fn recording(package: &Installed, path: &str) -> Result<PathBuf, Failure> {
    Ok(package.dir.join(own_file(package, path)?))
}

/// A file that the test gives to its run.
fn given(package: &Installed, path: &str) -> Result<PathBuf, Failure> {
    let named = own_file(package, path)?;
    if package.files.contains(&named) {
        Ok(package.dir.join(named))
    } else {
        Err(Failure::Usage(format!("{named} is a folder")))
    }
}

async fn outcome(
    orchestrator: &Orchestrator,
    package: &Installed,
    test: &OwnTest,
    engine: Engine,
) -> Result<Came, Failure> {
    let files = test.files.iter().map(|(field, path)| Ok((field.clone(), given(package, path)?)));
    let parts = input_files::named(&files.collect::<Result<Vec<_>, Failure>>()?)?;
    let mut options = json!({"no_cache": true});
    if let Some(mode) = test.execution_mode {
        options["execution_mode"] = json!(mode);
    }
    let body = json!({
        "skill_id": package.skill.id, "engine": engine, "input": test.input, "parameter": test.parameter,
        "runtime_options": options, "await_upload": !parts.is_empty(),
    });
    let request: CreateRequest = serde_json::from_value(body).map_err(Failure::broken("make the request"))?;
    let created = match orchestrator.create(request, None).await {
        Ok(created) => created,
        Err(refused) => return refusal(refused.into()),
    };
    let run = created.run_id;
    if !parts.is_empty()
        && let Err(refused) =
            orchestrator.upload(run, Delivery { files: Sent { zip: None, parts }, package: None }).await
    {
        return refusal(refused.into());
    }
    let unanswered = answered(orchestrator, run, &test.replies).await?;
    let state = orchestrator.state(run).await?;
    let result = orchestrator.log().result(&state).await?;
    let result: Value = bounded::json::from_str(result.get()).map_err(Failure::broken("read the result"))?;
    let text = |key: &str| result["error"][key].as_str().map(str::to_owned);
    let message = unanswered.or_else(|| text("message")).unwrap_or_default();
    Ok(Came {
        status: state.status().as_str().to_owned(),
        data: result["data"].clone(),
        error: text("code").map(|code| (code, message)),
    })
}

/// A request that makes no run is an outcome, too.
fn refusal(refused: Failure) -> Result<Came, Failure> {
    match refused {
        Failure::Refused { code, message, .. } => {
            Ok(Came { status: "refused".into(), data: Value::Null, error: Some((code, message)) })
        }
        broken => Err(broken),
    }
}

/// Waits for the end of the run and answers its questions; the question for which the test has no answer, if there is one.
async fn answered(orchestrator: &Orchestrator, run: RunId, replies: &[Value]) -> Result<Option<String>, Failure> {
    let mut replies = replies.iter();
    let mut unanswered = None;
    loop {
        let state = orchestrator.wait(run, WAIT).await?;
        if state.status().is_final() {
            return Ok(unanswered);
        }
        let Some(pending) = state.pending().filter(|_| state.status() == Status::WaitingUser) else { continue };
        match replies.next() {
            Some(reply) => {
                orchestrator.reply(run, pending.interaction.interaction_id, reply.clone(), None, None).await?;
            }
            None => {
                unanswered = Some(format!("the test has no reply to the question {:?}", pending.interaction.prompt));
                orchestrator.cancel(run, "user", "the test has no reply").await?;
            }
        }
    }
}
