//! The normalization ladder behind the first validation: the skill's normalizer, its fallback, the runner's repair.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Map, Value};
use tokio::time::Instant;

use crate::convergence;
use crate::convergence::StepName;
use crate::domain::causes::chain;
use crate::domain::event::{Event, NormalizationLevel, NormalizationStep, Normalized, ValidationError};
use crate::domain::fact::Fact;
use crate::domain::outcome::{RunError, Warning, WarningLevel};
use crate::domain::run_file::RunFile;
use crate::engine::script;
use crate::files;
use crate::orchestrator::error::Error;
use crate::orchestrator::turn::conclude::Ending;
use crate::orchestrator::turn::prepare::path_variable;
use crate::orchestrator::turn::process::{Deadline, Stage, StageEnd};
use crate::orchestrator::turn::reader::TurnReader;
use crate::orchestrator::turn::result_file;
use crate::orchestrator::turn::watch::warned;
use crate::skill::manifest::{EntrypointKind, OutputCommand};
use crate::skill::{Skill, command};
use crate::supervisor::ProcessExit;
use crate::verdict::stop::Stop;
use crate::verdict::verdict::{Outcome, Unsettled, Verdict, convert_step, steps};
use crate::workspace;

/// Longest time a normalizer or fallback may take. It never takes more than half of what the turn has left, so that a
/// step that hangs leaves time for the next.
const STEP_MAX: Duration = Duration::from_secs(60);

/// A rung that starts a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Rung {
    /// N1, by this command.
    Normalizer(String),
    /// N2, by this command.
    Fallback(String),
    /// N3.
    Repair,
}

impl Rung {
    fn level(&self) -> NormalizationLevel {
        match self {
            Rung::Normalizer(_) => NormalizationLevel::N1,
            Rung::Fallback(_) => NormalizationLevel::N2,
            Rung::Repair => NormalizationLevel::N3,
        }
    }

    /// Where its result file is kept, unless it is the first of its turn.
    fn result_file(&self) -> RunFile {
        match self {
            Rung::Normalizer(_) => RunFile::NormalizerResult,
            Rung::Fallback(_) => RunFile::FallbackResult,
            Rung::Repair => RunFile::RepairResult,
        }
    }

    fn name(&self) -> StepName {
        match self {
            Rung::Normalizer(_) => StepName::Normalizer,
            Rung::Fallback(_) => StepName::Fallback,
            Rung::Repair => StepName::Repair,
        }
    }
}

/// The rungs there are for a turn, in their order.
pub(crate) fn rungs(skill: &Skill, repair: bool, reader: &TurnReader) -> Vec<Rung> {
    let enabled = |written: &Option<OutputCommand>| {
        written.as_ref().filter(|written| written.enabled).map(|written| written.command.clone())
    };
    let normalizer = enabled(&skill.manifest.normalizer).map(Rung::Normalizer);
    let fallback = enabled(&skill.manifest.fallback).map(Rung::Fallback);
    // Only a session can be asked again, and only where its own words are the result.
    let can_repair = match reader {
        TurnReader::Cli(..) => repair && skill.manifest.entrypoint.kind == EntrypointKind::Prompt,
        TurnReader::Script(_) => false,
    };
    [normalizer, fallback, can_repair.then_some(Rung::Repair)].into_iter().flatten().collect()
}

/// What a rung came to.
pub(crate) struct Taken {
    /// Whether it brought something to validate.
    pub ok: bool,
    pub detail: String,
    /// How that was read and validated.
    pub checked: Vec<NormalizationStep>,
    /// Where it breaks the schema; none when nothing was validated.
    pub errors: Option<Vec<ValidationError>>,
    /// The value, when it is valid.
    pub data: Option<Value>,
}

impl Taken {
    pub fn failed(detail: impl Into<String>) -> Self {
        Self { ok: false, detail: detail.into(), checked: Vec::new(), errors: None, data: None }
    }
}

impl Ending<'_> {
    /// Climb until the output is valid or no rung is left. `kept` tells whether the engine left a result file.
    pub(crate) async fn climb(
        &mut self,
        rungs: Vec<Rung>,
        unsettled: Unsettled,
        mut kept: bool,
    ) -> Result<Verdict, Error> {
        let Unsettled { error, normalized: mut so_far, mut warnings, completion } = unsettled;
        for rung in rungs {
            // How far the chain has come is seen while its next step runs.
            self.facts.extend(warnings.drain(..).map(|warning| warned(&warning)));
            self.facts.push(Fact::own(Event::Normalized(so_far.clone())));
            let taken = match &rung {
                Rung::Normalizer(command) | Rung::Fallback(command) => {
                    self.run_command(rung.result_file(), command, raw_output(&error), &mut kept).await?
                }
                Rung::Repair => self.repair(&so_far, &error).await?,
            };
            warnings.push(warning(&rung, &taken));
            let data = record(&mut so_far, &rung, taken);
            if let Some(stop) = &self.stop {
                return Ok(climbed(Err(stop.error()), so_far, warnings));
            }
            if let Some(data) = data {
                so_far.source = rung.name().as_str().to_owned();
                return Ok(climbed(Ok(Outcome::Done(completion, data)), so_far, warnings));
            }
        }
        Ok(climbed(Err(error), so_far, warnings))
    }

    /// Run the skill's own command on the raw output and read the result file it writes.
    async fn run_command(
        &mut self,
        later: RunFile,
        command: &str,
        raw: String,
        kept: &mut bool,
    ) -> Result<Taken, Error> {
        let words = match command::split(command) {
            Ok(words) => words,
            Err(error) => return Ok(Taken::failed(error.to_string())),
        };
        let Some(time) = self.step_time() else { return Ok(Taken::failed("no time is left for it")) };
        let (argv, run_dir, home) = self
            .blocking(move |paths, state, skill| {
                // The place of the result is the command's alone.
                workspace::create_run(paths)?;
                result_file::clear(paths)?;
                let schema = paths.file(RunFile::OutputSchema);
                files::write_whole(&schema, &crate::orchestrator::intake::create::pretty(&skill.output_schema))?;
                let copy = paths.skill_copy(&state.engine, &state.skill.id);
                let mut argv = command::in_copy(&words, |word| copy.join(word).is_file(), &copy);
                let told: [PathBuf; 3] = [paths.root.join(raw), schema, paths.root.clone()];
                argv.extend(told.iter().map(|path| path.to_string_lossy().into_owned()));
                Ok((argv, paths.root.clone(), paths.tmp.clone()))
            })
            .await?;
        let debug = self.journal.state().options.debug;
        let path = path_variable();
        let launch = script::launch_helper(script::Helper { argv, run_dir: &run_dir, home: &home, path: &path, debug });
        let stage = Stage {
            launch,
            reader: TurnReader::Script(script::ProgressParser),
            stdout_max: Some(script::STDOUT_MAX),
            line_max: script::LINE_MAX,
        };
        let end = match self.stage(stage, Deadline::after(time)).await? {
            Ok(end) => end,
            Err(failure) => return Ok(Taken::failed(format!("it could not be started: {}", chain(&failure)))),
        };
        if let Some(detail) = failure_of(&end) {
            return Ok(Taken::failed(detail));
        }
        self.read_written(later, kept).await
    }

    async fn read_written(&mut self, later: RunFile, kept: &mut bool) -> Result<Taken, Error> {
        let first = !*kept;
        let (taken, wrote) = self
            .blocking(move |paths, _, skill| {
                workspace::create_run(paths)?;
                // The first result file of a turn and each later one stay as they were written.
                let place = paths.file(if first { RunFile::SkillResult } else { later });
                let Some(text) = result_file::keep(paths, None, None, &place)? else {
                    return Ok((
                        Taken::failed(format!("it ended well but wrote no {}", RunFile::Result.name())),
                        false,
                    ));
                };
                let parsed = convergence::parse(&text);
                let mut checked = steps(&parsed);
                let detail = format!("it wrote {} bytes to {}", text.len(), RunFile::Result.name());
                let Some(value) = parsed.value else {
                    return Ok((Taken { ok: true, detail, checked, errors: None, data: None }, true));
                };
                let (step, errors) = convergence::validate(&value, skill.output_validator());
                checked.push(convert_step(&step));
                let data = errors.is_empty().then_some(value);
                Ok((Taken { ok: true, detail, checked, errors: Some(errors), data }, true))
            })
            .await?;
        *kept |= wrote;
        Ok(taken)
    }

    fn step_time(&self) -> Option<Duration> {
        let left = self.deadline.at.saturating_duration_since(Instant::now());
        (!left.is_zero()).then(|| STEP_MAX.min(left / 2))
    }
}

/// Where the output is that nobody could use, in the run's folder.
fn raw_output(error: &RunError) -> String {
    let named = error.details.get("raw_output_path").and_then(Value::as_str);
    named.unwrap_or(RunFile::EngineOutput.name()).to_owned()
}

/// Why a step that ran is no good, if it is none.
fn failure_of(end: &StageEnd) -> Option<String> {
    match (&end.stop, end.exit) {
        (Some(Stop::HardTimeout { seconds }), _) => Some(format!("it did not finish within {seconds} s")),
        (Some(Stop::Stalled { seconds, .. }), _) => Some(format!("it wrote nothing for {seconds} s")),
        (Some(Stop::OutputLimit { limit }), _) => Some(format!("it wrote more than {limit} bytes to standard output")),
        (Some(Stop::LogFailed { message }), _) => Some(format!("its output could not be kept: {message}")),
        (Some(Stop::Canceled), _) => Some("the run was canceled meanwhile".to_owned()),
        (Some(Stop::Shutdown), _) => Some("the service ended meanwhile".to_owned()),
        (None, ProcessExit::Code(0)) => None,
        (None, exit @ (ProcessExit::Code(_) | ProcessExit::Signal(_) | ProcessExit::Unknown)) => {
            Some(format!("it {exit}"))
        }
    }
}

/// Enter a rung into the chain's account; the value, when it is valid.
fn record(so_far: &mut Normalized, rung: &Rung, taken: Taken) -> Option<Value> {
    let Taken { ok, detail, checked, errors, data } = taken;
    so_far.level = rung.level();
    so_far.valid = data.is_some();
    so_far.steps.push(NormalizationStep { step: rung.name().as_str().to_owned(), ok, detail });
    so_far.steps.extend(checked);
    if let Some(errors) = errors {
        so_far.validation_errors = errors;
    }
    data
}

fn climbed(outcome: Result<Outcome, RunError>, normalized: Normalized, warnings: Vec<Warning>) -> Verdict {
    // What the engine itself answered is on disk already.
    Verdict { outcome, normalized: Some(normalized), warnings, answer: None, awaited: None }
}

fn warning(rung: &Rung, taken: &Taken) -> Warning {
    let by = match rung {
        Rung::Normalizer(_) => "the skill's normalizer",
        Rung::Fallback(_) => "the skill's fallback",
        Rung::Repair => "the engine, asked once more",
    };
    let why = taken.checked.iter().rev().find(|step| !step.ok).map_or(&taken.detail, |step| &step.detail);
    let (code, message, level) = match (&taken.data, rung) {
        (None, _) => {
            ("NORMALIZATION_FAILED", format!("{by} did not make the output valid: {why}"), WarningLevel::Warning)
        }
        (Some(_), Rung::Normalizer(_) | Rung::Fallback(_)) => {
            ("OUTPUT_NORMALIZED", format!("the output was made valid by {by}"), WarningLevel::Info)
        }
        (Some(_), Rung::Repair) => (
            "OUTPUT_REPAIRED",
            format!("the output was made valid by {by}; it may have drifted from what the engine found first"),
            WarningLevel::Warning,
        ),
    };
    Warning {
        code: code.to_owned(),
        message,
        level,
        normalization_level: Some(rung.level()),
        details: Map::from_iter([
            ("step".to_owned(), rung.name().as_str().into()),
            ("detail".to_owned(), taken.detail.clone().into()),
        ]),
    }
}
