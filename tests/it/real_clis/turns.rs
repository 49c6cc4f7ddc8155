//! Turn by turn: the adapter's launch, the supervisor's process, the parser's account of it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

use serde_json::{Value, json};
use skill_runner::domain::event::Event;
use skill_runner::domain::fact::{Fact, Stream};
use skill_runner::domain::ids::RunId;
use skill_runner::domain::outcome::Usage;
use skill_runner::domain::request::ExecutionMode;
use skill_runner::engine::config::{Layers, merge};
use skill_runner::engine::{
    self, EngineVerdict, Exit, LINE_MAX, LaunchPlan, OutputSchema, StreamReader, Turn, TurnParser, TurnReport,
};
use skill_runner::supervisor::{self, Limits, Output, Process, Spec};
use tokio::runtime::Runtime;
use uuid::Uuid;

use super::{Cli, on_every_cli, path, processes_in};
use crate::support::LONG;
use crate::support::model_server::{INPUT_TOKENS, ModelServer, OUTPUT_TOKENS, Reply};

on_every_cli!(
    a_result_is_heard_and_a_second_turn_carries_the_first,
    a_command_of_the_model_is_run_and_told,
    a_refused_key_is_a_missing_login,
    too_many_requests_are_told_as_such,
    a_stop_in_the_middle_of_a_command_leaves_no_process,
);

/// How long an engine may tidy up after its last word.
const EXIT_GRACE: Duration = Duration::from_secs(2);
/// How long an engine may take to stop.
const KILL_GRACE: Duration = Duration::from_secs(4);

/// A run's folder, an engine's home and a model.
struct Room {
    cli: Cli,
    model: ModelServer,
    runtime: Runtime,
    folder: tempfile::TempDir,
    run: RunId,
}

/// A turn that is over.
#[derive(Debug)]
struct Played {
    facts: Vec<Fact>,
    report: TurnReport,
    verdict: EngineVerdict,
}

/// A turn under way.
struct Playing {
    process: Process,
    parser: TurnParser,
    readers: [StreamReader; 2],
    facts: Vec<Fact>,
}

fn schema() -> Value {
    json!({
        "type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"],
        "additionalProperties": false,
    })
}

impl Room {
    fn new(name: &str) -> Room {
        let model = ModelServer::start();
        let cli = Cli::talking_to(&model, name);
        let folder = tempfile::tempdir().unwrap();
        for name in ["run/artifacts", "home"] {
            fs::create_dir_all(folder.path().join(name)).unwrap();
        }
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        Room { cli, model, runtime, folder, run: RunId(Uuid::now_v7()) }
    }

    fn run_dir(&self) -> PathBuf {
        self.folder.path().join("run")
    }

    fn plan(&self, prompt: &str, mode: ExecutionMode, resume: Option<&str>) -> LaunchPlan {
        let Cli { adapter, model, config, env, .. } = &self.cli;
        let layers = Layers { skill_file: None, request: Some(config), model: Some(model), mode };
        let schema_file = self.folder.path().join("schema.json");
        let turn = Turn {
            program: &self.cli.program(),
            run_dir: &self.run_dir(),
            engine_home: &self.folder.path().join("home"),
            tmp: &self.folder.path().join("tmp"),
            path: &path(),
            env,
            prompt,
            model: Some(model),
            resume,
            config: &merge(adapter, &layers).unwrap(),
            mode,
            output_schema: Some(OutputSchema { value: &schema(), path: &schema_file }),
            own_sandbox: true,
            network: false,
        };
        adapter.launch(&turn).unwrap()
    }

    fn begin(&self, plan: &LaunchPlan, resume: Option<&str>, usage_before: Usage) -> Playing {
        for file in plan.files.iter().filter(|file| !(file.keep_existing && file.path.exists())) {
            fs::create_dir_all(file.path.parent().unwrap()).unwrap();
            fs::write(&file.path, &file.bytes).unwrap();
        }
        let logs = ["stdout.txt", "stderr.txt"].map(|name| self.folder.path().join(name));
        let spec = Spec {
            launch: &plan.launch,
            run: self.run,
            stdout_log: &logs[0],
            stderr_log: &logs[1],
            tmp_dir: &self.folder.path().join("tmp"),
            limits: Limits { stdout_max: None, log_max: 1 << 30 },
            shim: Path::new(env!("CARGO_BIN_EXE_skill-runner")),
        };
        let from = |log: &PathBuf| fs::metadata(log).map_or(0, |found| found.len());
        let (stdout, stderr) = (from(&logs[0]), from(&logs[1]));
        Playing {
            process: self.runtime.block_on(supervisor::spawn(spec)).unwrap(),
            parser: self.cli.adapter.parser(resume, usage_before),
            readers: [
                StreamReader::new(Stream::Stdout, stdout, LINE_MAX),
                StreamReader::new(Stream::Stderr, stderr, LINE_MAX),
            ],
            facts: Vec::new(),
        }
    }

    fn turn(&self, prompt: &str, mode: ExecutionMode, resume: Option<&str>, usage_before: Usage) -> Played {
        let plan = self.plan(prompt, mode, resume);
        let playing = self.begin(&plan, resume, usage_before);
        self.end(playing)
    }

    fn end(&self, playing: Playing) -> Played {
        let ended = self.runtime.block_on(async { tokio::time::timeout(2 * LONG, playing.to_its_end()).await });
        let (playing, exit) = ended.expect("the engine ends in time");
        let report = playing.parser.report().clone();
        let verdict = engine::verdict(self.cli.adapter, &report, exit);
        Played { facts: playing.facts, report, verdict }
    }
}

impl Playing {
    async fn to_its_end(mut self) -> (Playing, Exit) {
        let mut dismissed = false;
        let ended = loop {
            let output = if self.parser.ended() && !dismissed {
                match tokio::time::timeout(EXIT_GRACE, self.process.next()).await {
                    Ok(output) => output,
                    Err(_) => {
                        dismissed = true;
                        self.process.stop(KILL_GRACE);
                        continue;
                    }
                }
            } else {
                self.process.next().await
            };
            match output.expect("an end comes before the last output") {
                Output::Chunk { stream, bytes, .. } => {
                    let reader = &mut self.readers[usize::from(stream == Stream::Stderr)];
                    reader.push(&bytes, &mut self.parser, &mut self.facts);
                }
                Output::Ended(ended) => break ended,
                other @ (Output::StdoutLimitExceeded | Output::LogFailed { .. }) => panic!("{other:?}"),
            }
        };
        for reader in &mut self.readers {
            reader.flush(&mut self.parser, &mut self.facts);
        }
        let last = self.parser.finish().into_iter().map(|event| Fact { event, raw: None });
        self.facts.extend(last);
        let exit = match ended.exit {
            _ if dismissed => Exit::Dismissed,
            supervisor::Exit::Code(code) => Exit::Code(code),
            supervisor::Exit::Signal(signal) => Exit::Signal(signal),
            supervisor::Exit::Unknown => Exit::Unknown,
        };
        (self, exit)
    }
}

/// The result as the engine handed it over: structured where it can, else the text it said.
fn result(played: &Played) -> Value {
    match &played.verdict {
        EngineVerdict::Succeeded { structured: Some(value), .. } => value.clone(),
        EngineVerdict::Succeeded { text, .. } => serde_json::from_str(text).unwrap_or_else(|_| panic!("{played:#?}")),
        EngineVerdict::Failed(_) => panic!("{played:#?}"),
    }
}

fn failure(played: &Played) -> &str {
    match &played.verdict {
        EngineVerdict::Failed(error) => &error.code,
        EngineVerdict::Succeeded { .. } => panic!("{played:#?}"),
    }
}

/// What so many answers of the model cost.
fn answers(count: u64) -> Usage {
    let (input_tokens, output_tokens) = (count * INPUT_TOKENS, count * OUTPUT_TOKENS);
    Usage { input_tokens, output_tokens, ..Usage::default() }
}

/// The tokens; what they cost in money is the engine's own reckoning.
fn tokens(played: &Played) -> Option<Usage> {
    played.report.usage.map(|usage| Usage { cost_usd: None, ..usage })
}

fn a_result_is_heard_and_a_second_turn_carries_the_first(name: &str) {
    let room = Room::new(name);
    room.model.script(&[Reply::Say("Is it a plum?"), Reply::Result(json!({"word": "plum"}))]);
    let first = room.turn("Guess the secret word of the garden.", ExecutionMode::Interactive, None, Usage::default());
    let EngineVerdict::Succeeded { text, .. } = &first.verdict else { panic!("{first:#?}") };
    assert_eq!(text, "Is it a plum?");
    assert_eq!(tokens(&first), Some(answers(1)));
    let handle = first.report.handle.clone().expect("the engine names its session");
    let used = first.report.usage.unwrap();
    let second = room.turn("Yes, answer now.", ExecutionMode::Auto, Some(&handle), used);
    assert_eq!(result(&second), json!({"word": "plum"}));
    assert_eq!(second.report.handle, Some(handle));
    assert_eq!(tokens(&second), Some(answers(1)));
    let requests = room.model.requests();
    assert_eq!(requests.len(), 2, "{requests:#?}");
    let carried = requests[1].body.to_string();
    for words in ["Guess the secret word of the garden.", "Is it a plum?", "Yes, answer now."] {
        assert!(carried.contains(words), "{words:?} is not in {carried}");
    }
    for played in [first, second] {
        assert_eq!(played.report.unrecognized, Vec::<String>::new());
    }
}

fn a_command_of_the_model_is_run_and_told(name: &str) {
    let room = Room::new(name);
    let command = "printf 'from the model' > artifacts/notes.md && echo written".to_owned();
    room.model.script(&[Reply::Shell(command), Reply::Result(json!({"word": "done"}))]);
    let played = room.turn("Write the notes.", ExecutionMode::Auto, None, Usage::default());
    assert_eq!(result(&played), json!({"word": "done"}));
    assert_eq!(fs::read_to_string(room.run_dir().join("artifacts/notes.md")).unwrap(), "from the model");
    let commands = played.facts.iter().filter_map(|fact| match &fact.event {
        Event::CommandExecution(command) => Some(command),
        _ => None,
    });
    let last = commands.last().unwrap_or_else(|| panic!("no command was told: {played:#?}"));
    assert_eq!(last.status, "completed", "{last:?}");
    assert_eq!(tokens(&played), Some(answers(2)));
    assert_eq!(played.report.unrecognized, Vec::<String>::new());
    assert_eq!(room.model.requests().len(), 2);
}

fn a_refused_key_is_a_missing_login(name: &str) {
    let room = Room::new(name);
    room.model.script(&[Reply::Refuse(401)]);
    let played = room.turn("Answer.", ExecutionMode::Auto, None, Usage::default());
    assert_eq!(failure(&played), "ENGINE_AUTH_REQUIRED", "{played:#?}");
}

fn too_many_requests_are_told_as_such(name: &str) {
    let room = Room::new(name);
    room.model.script(&[Reply::Refuse(429)]);
    let played = room.turn("Answer.", ExecutionMode::Auto, None, Usage::default());
    assert_eq!(failure(&played), "ENGINE_RATE_LIMITED", "{played:#?}");
}

fn a_stop_in_the_middle_of_a_command_leaves_no_process(name: &str) {
    let room = Room::new(name);
    let gate = room.run_dir().join("gate");
    rustix::fs::mkfifoat(rustix::fs::CWD, &gate, rustix::fs::Mode::from_raw_mode(0o600)).unwrap();
    fs::set_permissions(&gate, fs::Permissions::from_mode(0o666)).unwrap();
    room.model.script(&[Reply::Shell("echo begun > gate; sleep 600".to_owned()), Reply::Say("never")]);
    let plan = room.plan("Take your time.", ExecutionMode::Auto, None);
    let (begun, heard) = mpsc::channel();
    // Opening waits for the command to open its end.
    std::thread::spawn(move || begun.send(fs::read_to_string(gate)));
    let playing = room.begin(&plan, None, Usage::default());
    let word = heard.recv_timeout(LONG).expect("the command begins in time").unwrap();
    assert_eq!(word, "begun\n");
    assert!(!processes_in(&room.run_dir(), &room.run.to_string()).is_empty());
    playing.process.stop(KILL_GRACE);
    let played = room.end(playing);
    assert_eq!(processes_in(&room.run_dir(), &room.run.to_string()), Vec::<String>::new());
    assert_eq!(failure(&played), "ENGINE_FAILED", "{played:#?}");
    assert!(!room.folder.path().join("tmp").exists());
}
