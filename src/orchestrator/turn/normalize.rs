//! Output that breaks its schema: the skill's normalizer, its fallback and the runner's repair try to make it valid.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

use crate::convergence;
use crate::domain::causes::chain;
use crate::domain::event::{Event, Normalized};
use crate::domain::fact::Fact;
use crate::domain::outcome::{RunError, Warning};
use crate::domain::run_file::RunFile;
use crate::engine::script;
use crate::files;
use crate::orchestrator::error::Error;
use crate::orchestrator::results::pretty;
use crate::orchestrator::turn::current::Turn;
use crate::orchestrator::turn::deadline::Deadline;
use crate::orchestrator::turn::reader::TurnReader;
use crate::orchestrator::turn::result_file;
use crate::orchestrator::turn::script_call::{PythonOf, path_variable, script_stage};
use crate::orchestrator::turn::warnings::warned;
use crate::orchestrator::turn::watch::FinishedProcess;
use crate::skill::manifest::{EntrypointKind, OutputCommand};
use crate::skill::python::Command;
use crate::skill::{Skill, command};
use crate::supervisor::ProcessExit;
use crate::verdict::normalize::{NormalizeStep, StepResult, record, warning};
use crate::verdict::stop::Stop;
use crate::verdict::verdict::{InvalidOutput, Outcome, Verdict, convert_step, steps};
use crate::workspace;

/// Longest time a normalizer or fallback may take. It never takes more than half of what the turn has left, so that a
/// step that hangs leaves time for the next.
const STEP_MAX: Duration = Duration::from_secs(60);

/// The steps there are for a turn, in their order.
pub(crate) fn steps_for(skill: &Skill, repair: bool, reader: &TurnReader) -> Vec<NormalizeStep> {
    let enabled = |written: &Option<OutputCommand>| {
        written.as_ref().filter(|written| written.enabled).map(|written| written.command.clone())
    };
    let normalizer = enabled(&skill.manifest.normalizer).map(NormalizeStep::Normalizer);
    let fallback = enabled(&skill.manifest.fallback).map(NormalizeStep::Fallback);
    // Only a session can be asked again, and only where its own words are the result.
    let can_repair = match reader {
        TurnReader::Cli(..) => repair && skill.manifest.entrypoint.kind != EntrypointKind::Hybrid,
        TurnReader::Script(_) => false,
    };
    [normalizer, fallback, can_repair.then_some(NormalizeStep::Repair)].into_iter().flatten().collect()
}

impl Turn<'_> {
    /// Take steps until the output is valid or none is left. `kept` tells whether the engine left a result file.
    pub(crate) async fn normalize(
        &mut self,
        steps: Vec<NormalizeStep>,
        invalid: InvalidOutput,
        mut kept: bool,
    ) -> Result<Verdict, Error> {
        let InvalidOutput { error, normalized: mut so_far, mut warnings, completion, remarks } = invalid;
        for step in steps {
            // Readers see how far normalization has come while its next step runs.
            self.facts.extend(warnings.drain(..).map(warned));
            self.facts.push(Fact::own(Event::Normalized(so_far.clone())));
            let result = match &step {
                NormalizeStep::Normalizer(command) => {
                    let which = (Command::Normalizer, command.as_str());
                    self.run_command(step.result_file(), which, raw_output(&error), &mut kept).await?
                }
                NormalizeStep::Fallback(command) => {
                    let which = (Command::Fallback, command.as_str());
                    self.run_command(step.result_file(), which, raw_output(&error), &mut kept).await?
                }
                NormalizeStep::Repair => self.repair(&so_far, &error).await?,
            };
            warnings.push(warning(&step, &result));
            let data = record(&mut so_far, &step, result);
            if let Some(stop) = &self.stop {
                return Ok(verdict_of(Err(stop.error()), so_far, warnings));
            }
            if let Some(data) = data {
                so_far.source = step.name().as_str().to_owned();
                let done = verdict_of(Ok(Outcome::Done(completion, data)), so_far, warnings);
                return Ok(Verdict { remarks, ..done });
            }
        }
        Ok(verdict_of(Err(error), so_far, warnings))
    }

    /// Run the skill's own command on the raw output and read the result file it writes.
    async fn run_command(
        &mut self,
        later: RunFile,
        (which, command): (Command, &str),
        raw: String,
        kept: &mut bool,
    ) -> Result<StepResult, Error> {
        let words = match command::split(command) {
            Ok(words) => words,
            Err(error) => return Ok(StepResult::failed(error.to_string())),
        };
        let Some(time) = self.step_time() else { return Ok(StepResult::failed("no time is left for it")) };
        let place = self.skill_place.clone();
        let (argv, run_dir, home) = self
            .blocking(move |paths, _, skill| {
                workspace::create_for_engine(paths, false)?;
                // Only what this command writes may be found as the result.
                result_file::clear(paths)?;
                let schema = paths.file(RunFile::OutputSchema);
                files::write_own(&schema, &pretty(&skill.output_schema))?;
                let in_package = |word: &str| place.files.join(word).is_file();
                let mut argv = command::in_copy(&words, in_package, &place.seen_at);
                let told: [PathBuf; 3] = [paths.root.join(raw), schema, paths.root.clone()];
                argv.extend(told.iter().map(|path| path.to_string_lossy().into_owned()));
                Ok((argv, paths.root.clone(), paths.tmp.clone()))
            })
            .await?;
        let debug = self.journal.state().options.debug;
        let path = path_variable();
        let mut launch =
            script::launch_helper(script::Helper { argv, run_dir: &run_dir, home: &home, path: &path, debug });
        PythonOf::command(self.shared, &self.skill, which).apply(&mut launch);
        let paths = self.shared.layout.run(self.journal.state().run_id);
        let stage = script_stage(self.shared, &self.skill, &paths, launch);
        let end = match self.run_process(stage, Deadline::after(time)).await? {
            Ok(end) => end,
            Err(failure) => return Ok(StepResult::failed(format!("it could not be started: {}", chain(&failure)))),
        };
        if let Some(detail) = failure_of(&end) {
            return Ok(StepResult::failed(detail));
        }
        self.read_written(later, kept).await
    }

    async fn read_written(&mut self, later: RunFile, kept: &mut bool) -> Result<StepResult, Error> {
        let first = !*kept;
        let (result, wrote) = self
            .blocking(move |paths, _, skill| {
                workspace::reclaim(paths)?;
                // The first result file of a turn and each later one stay as they were written.
                let place = paths.file(if first { RunFile::SkillResult } else { later });
                let Some(text) = result_file::keep(paths, None, None, &place)? else {
                    return Ok((
                        StepResult::failed(format!("it ended well but wrote no {}", RunFile::Result.name())),
                        false,
                    ));
                };
                let parsed = convergence::parse(&text);
                let mut checked = steps(&parsed);
                let detail = format!("it wrote {} bytes to {}", text.len(), RunFile::Result.name());
                let Some(value) = parsed.value else {
                    return Ok((StepResult { ok: true, detail, checked, errors: None, data: None }, true));
                };
                let (step, errors) = convergence::validate(&value, skill.output_validator());
                checked.push(convert_step(&step));
                let errors = errors.unwrap_or_else(|costly| vec![costly.into()]);
                let data = errors.is_empty().then_some(value);
                Ok((StepResult { ok: true, detail, checked, errors: Some(errors), data }, true))
            })
            .await?;
        *kept |= wrote;
        Ok(result)
    }

    fn step_time(&self) -> Option<Duration> {
        let left = self.deadline.at.saturating_duration_since(Instant::now());
        (!left.is_zero()).then(|| STEP_MAX.min(left / 2))
    }
}

/// Where the invalid output is, in the run's folder.
fn raw_output(error: &RunError) -> String {
    let named = error.details.get("raw_output_path").and_then(Value::as_str);
    named.unwrap_or(RunFile::EngineOutput.name()).to_owned()
}

/// Why a step that ran did not help; `None` when it ended well.
fn failure_of(end: &FinishedProcess) -> Option<String> {
    match (&end.stop, end.exit) {
        (Some(Stop::HardTimeout { seconds, .. }), _) => Some(format!("it did not finish within {seconds} s")),
        (Some(Stop::Stalled { seconds, .. }), _) => Some(format!("it wrote nothing for {seconds} s")),
        (Some(Stop::OutputLimit { limit }), _) => Some(format!("it wrote more than {limit} bytes to standard output")),
        (Some(Stop::LogFailed { message, .. }), _) => Some(format!("its output could not be kept: {message}")),
        (Some(Stop::LogChanged), _) => Some("it changed the log of the run".to_owned()),
        (Some(Stop::Resources(exceeded)), _) => Some(format!("it was stopped because {exceeded}")),
        (Some(Stop::Canceled), _) => Some("the run was canceled meanwhile".to_owned()),
        (Some(Stop::Shutdown), _) => Some("the service ended meanwhile".to_owned()),
        (None, ProcessExit::Code(0)) => None,
        (
            None,
            exit @ (ProcessExit::Code(_) | ProcessExit::Signal(_) | ProcessExit::Dismissed | ProcessExit::Unknown),
        ) => Some(format!("it {exit}")),
    }
}

fn verdict_of(outcome: Result<Outcome, RunError>, normalized: Normalized, warnings: Vec<Warning>) -> Verdict {
    // What the engine itself answered is on disk already.
    Verdict { normalized: Some(normalized), warnings, ..Verdict::of_outcome(outcome) }
}
