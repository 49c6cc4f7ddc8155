//! Turn by turn: the adapter's launch, the supervisor's process, the parser's account of it.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};
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

use super::{Cli, on_every_cli, path};
use crate::support::LONG;
use crate::support::model_server::{INPUT_TOKENS, ModelServer, OUTPUT_TOKENS, Reply};

on_every_cli!(a_second_turn_carries_the_first);

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
    report: TurnReport,
    verdict: EngineVerdict,
}

/// A turn under way.
struct Playing {
    process: Process,
    parser: TurnParser,
    readers: [StreamReader; 2],
    begun_at: [u64; 2],
    facts: Vec<Fact>,
}

fn schema() -> Value {
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object", "required": ["word"],
        "properties": {"word": {"type": "string", "x-note": "of the garden"}}, "additionalProperties": false,
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
            begun_at: [stdout, stderr],
            facts: Vec::new(),
        }
    }

    fn turn(&self, prompt: &str, mode: ExecutionMode, resume: Option<&str>, usage_before: Usage) -> Played {
        let playing = self.begin(&self.plan(prompt, mode, resume), resume, usage_before);
        let ended = self.runtime.block_on(async { tokio::time::timeout(2 * LONG, playing.finished()).await });
        let (playing, exit) = ended.expect("the engine ends in time");
        let report = playing.parser.report().clone();
        let verdict = engine::verdict(self.cli.adapter, &report, exit);
        Played { report, verdict }
    }
}

impl Playing {
    async fn finished(mut self) -> (Playing, Exit) {
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
        self.parser.finish();
        for (stream, totals) in [(Stream::Stdout, &ended.stdout), (Stream::Stderr, &ended.stderr)] {
            let told = self.facts.iter().filter_map(|fact| fact.raw).filter(|raw| raw.stream == stream);
            let kept = totals.bytes - self.begun_at[usize::from(stream == Stream::Stderr)];
            assert_eq!(told.map(|raw| raw.to - raw.from).sum::<u64>(), kept, "some of {stream:?} is in no fact");
        }
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

/// What an answer of the model costs.
fn one_answer() -> Usage {
    Usage { input_tokens: INPUT_TOKENS, output_tokens: OUTPUT_TOKENS, ..Usage::default() }
}

/// The tokens; what they cost in money is the engine's own reckoning.
fn tokens(played: &Played) -> Option<Usage> {
    played.report.usage.map(|usage| Usage { cost_usd: None, ..usage })
}

fn a_second_turn_carries_the_first(name: &str) {
    let room = Room::new(name);
    room.model.script(&[Reply::Say("Is it a plum?"), Reply::Result(json!({"word": "plum"}))]);
    let first = room.turn("Guess the secret word of the garden.", ExecutionMode::Interactive, None, Usage::default());
    let EngineVerdict::Succeeded { text, .. } = &first.verdict else { panic!("{first:#?}") };
    assert_eq!(text, "Is it a plum?");
    assert_eq!(tokens(&first), Some(one_answer()));
    let handle = first.report.handle.clone().expect("the engine names its session");
    let used = first.report.usage.unwrap();
    let second = room.turn("Yes, answer now.", ExecutionMode::Auto, Some(&handle), used);
    assert_eq!(result(&second), json!({"word": "plum"}));
    assert_eq!(second.report.handle, Some(handle));
    assert_eq!(tokens(&second), Some(one_answer()));
    let requests = room.model.requests();
    assert_eq!(requests.len(), 2, "{requests:#?}");
    let carried = requests[1].to_string();
    for words in ["Guess the secret word of the garden.", "Is it a plum?", "Yes, answer now."] {
        assert!(carried.contains(words), "{words:?} is not in {carried}");
    }
    for played in [first, second] {
        assert_eq!(played.report.unrecognized, Vec::<String>::new());
    }
}
