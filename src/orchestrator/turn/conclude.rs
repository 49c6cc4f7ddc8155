//! The end of a turn: its output is judged, normalized where it must be, the last files are written, the end is logged.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use serde_json::json;

use crate::artifact;
use crate::domain::codes::{ErrorCode, WarningCode};
use crate::domain::command::{Command, Conclusion, LastFiles, RestartQueued};
use crate::domain::ending;
use crate::domain::event::Event;
use crate::domain::fact::Fact;
use crate::domain::outcome::{RunError, StreamProof, Warning};
use crate::domain::run_file::{RunFile, RunFolder};
use crate::domain::state::RunState;
use crate::domain::statechart::Status;
use crate::engine;
use crate::files;
use crate::orchestrator::admission::cache;
use crate::orchestrator::admission::effects::perform;
use crate::orchestrator::error::Error;
use crate::orchestrator::log::journal::Step;
use crate::orchestrator::results::{FinalFiles, WrittenFiles, write_files};
use crate::orchestrator::shared::Shared;
use crate::orchestrator::shared::live::CancelMessage;
use crate::orchestrator::shared::skills::SkillPlace;
use crate::orchestrator::turn::current::Turn;
use crate::orchestrator::turn::hybrid;
use crate::orchestrator::turn::judge::{self, Judged, JudgedProcess};
use crate::orchestrator::turn::normalize::steps_for;
use crate::orchestrator::turn::script_call::ScriptCall;
use crate::orchestrator::turn::warnings::warned;
use crate::orchestrator::turn::watch::Watched;
use crate::skill::Skill;
use crate::store::IndexChange;
use crate::supervisor::{Ended, StreamTotals};
use crate::verdict::stop::Stop;
use crate::verdict::verdict::{InvalidOutput, Outcome, Verdict};
use crate::workspace::{self, RunPaths};

/// The end of a turn, ready to be logged.
struct Concluded {
    step: Step,
    /// The row under which an equal run finds this one's result.
    cached: Option<IndexChange>,
}

/// What writing the last files led to.
enum Closed {
    Concluded(Box<Concluded>),
    /// A cancel broke it off; these facts are still to be logged.
    BrokenOff(Vec<Fact>),
}

impl Closed {
    fn concluded(step: Step, cached: Option<IndexChange>) -> Self {
        Self::Concluded(Box::new(Concluded { step, cached }))
    }
}

/// What judging a turn's output led to.
enum AfterJudging {
    Closed(Closed),
    /// The output may still be made valid; `kept` tells whether the engine left a result file.
    Normalize {
        invalid: Box<InvalidOutput>,
        kept: bool,
        facts: Vec<Fact>,
    },
}

/// Judge the turn, write the last files, log the end. `script` is what a hybrid skill runs behind its engine.
pub(crate) async fn conclude(mut turn: Turn<'_>, engine: Watched, script: Option<ScriptCall>) -> Result<(), Error> {
    let process = turn.absorb(engine);
    let judged = match script {
        None => Ok(JudgedProcess { process, result_before: turn.result_before, part: Judged::Whole }),
        Some(script) => hybrid::run_script(&mut turn, script, process).await?,
    };
    let concluded = match judged {
        Err(verdict) => close(&mut turn, *verdict).await?,
        Ok(judged) => {
            let steps = steps_for(&turn.skill, turn.shared.settings.runs.repair, &judged.process.reader);
            let (judged, cancel) = judge_output(&mut turn, judged, steps.is_empty()).await?;
            match judged {
                AfterJudging::Closed(closed) => unless_canceled(&mut turn, closed, cancel).await?,
                // Whoever asked for a cancel asks again, and meets the next step.
                AfterJudging::Normalize { invalid, kept, facts } => {
                    turn.facts = facts;
                    let verdict = turn.normalize(steps, *invalid, kept).await?;
                    close(&mut turn, verdict).await?
                }
            }
        }
    };
    log(turn, concluded).await
}

/// The engine of a turn could not begin; `before` is the process that came before it. Its end is logged.
pub(crate) async fn conclude_unbegun(mut turn: Turn<'_>, before: Watched, error: RunError) -> Result<(), Error> {
    turn.absorb(before);
    let concluded = close(&mut turn, Verdict::failed(error)).await?;
    log(turn, concluded).await
}

/// Judge what was left; unless normalization may help, close the turn at once.
async fn judge_output(
    turn: &mut Turn<'_>,
    judged: JudgedProcess,
    last: bool,
) -> Result<(AfterJudging, Option<CancelMessage>), Error> {
    let closing = Closing::of(turn);
    turn.blocking_until_canceled(move |paths, state, skill, stop| {
        let shared = closing.shared.clone();
        let _alone = shared.large_output(paths);
        let (verdict, kept) = judge::judge(paths, state, skill, judged)?;
        if last {
            return closing.write(paths, state, skill, verdict, stop).map(AfterJudging::Closed);
        }
        match verdict.invalid_output() {
            Ok(invalid) => Ok(AfterJudging::Normalize { invalid: Box::new(invalid), kept, facts: closing.facts }),
            Err(verdict) => closing.write(paths, state, skill, *verdict, stop).map(AfterJudging::Closed),
        }
    })
    .await
}

async fn close(turn: &mut Turn<'_>, verdict: Verdict) -> Result<Concluded, Error> {
    let closing = Closing::of(turn);
    let closing = turn.blocking_until_canceled(move |paths, state, skill, stop| {
        workspace::reclaim(paths)?;
        closing.write(paths, state, skill, verdict, stop)
    });
    let (closed, cancel) = closing.await?;
    unless_canceled(turn, closed, cancel).await
}

/// The end of the turn, or of the cancel that broke it off. What the skill made is then set aside: to read it may take long,
/// and nothing unread may be among the artifacts.
async fn unless_canceled(
    turn: &mut Turn<'_>,
    closed: Closed,
    cancel: Option<CancelMessage>,
) -> Result<Concluded, Error> {
    let facts = match closed {
        // Whoever asked for a cancel that came too late looks again, and finds the run's end.
        Closed::Concluded(concluded) => return Ok(*concluded),
        Closed::BrokenOff(facts) => facts,
    };
    if let Some(CancelMessage { requested_by, reason, answer }) = cancel {
        turn.journal.commit(Command::Cancel { requested_by, reason }).await?;
        // Whoever asked may be gone; the cancel is carried out all the same.
        let _ = answer.send(Ok(Status::Running));
    }
    turn.stop = Some(Stop::Canceled);
    turn.facts = facts;
    turn.facts.push(warned(unread_artifacts()));
    let closing = Closing::of(turn);
    let closed = turn.blocking(move |paths, state, skill| {
        files::ensure_absent(&paths.folder(RunFolder::Artifacts))?;
        let canceled = Verdict::failed(Stop::Canceled.error());
        closing.write(paths, state, skill, canceled, &AtomicBool::new(false))
    });
    match closed.await? {
        Closed::Concluded(concluded) => Ok(*concluded),
        Closed::BrokenOff(_) => Err(Error::io("end a canceled run")(std::io::ErrorKind::Interrupted.into())),
    }
}

fn unread_artifacts() -> Warning {
    let message = "the run was canceled while its artifacts were being read; they are set aside in its folder";
    Warning::new(WarningCode::ArtifactRefused, message)
}

/// What is known of a turn besides the verdict on it.
struct Closing {
    shared: Arc<Shared>,
    skill_place: SkillPlace,
    facts: Vec<Fact>,
    ended: Ended,
    shutdown: bool,
    /// The turn was ended because there was no room for its output.
    disk_full: bool,
}

impl Closing {
    fn of(turn: &mut Turn<'_>) -> Self {
        let facts = std::mem::take(&mut turn.facts);
        Self {
            shared: turn.shared.clone(),
            skill_place: turn.skill_place.clone(),
            facts,
            ended: turn.ended.clone(),
            shutdown: turn.stop == Some(Stop::Shutdown),
            disk_full: matches!(turn.stop, Some(Stop::LogFailed { disk_full: true, .. })),
        }
    }

    /// Write the last files of a turn that is judged, if it ends the run. No process of the run may have run since its
    /// places were reclaimed. Blocks.
    fn write(
        mut self,
        paths: &RunPaths,
        state: &RunState,
        skill: &Skill,
        verdict: Verdict,
        stop: &AtomicBool,
    ) -> Result<Closed, Error> {
        let Verdict { outcome, normalized, warnings, transient, remarks, .. } = verdict;
        let mut facts = std::mem::take(&mut self.facts);
        facts.extend(warnings.into_iter().map(warned));
        let (conclusion, data) = match outcome {
            Ok(Outcome::Ask(interaction)) => (Conclusion::NeedsInput(interaction), None),
            Ok(Outcome::Done(completion, data)) => (Conclusion::Succeeded(completion), Some(data)),
            Err(error) => {
                let error = if self.disk_full { self.shared.naming_the_disk(error) } else { error };
                let retry_after_seconds = engine::retry_after(&error);
                let error = match retry_after_seconds {
                    Some(seconds) => error.with("retry_at", json!(self.shared.clock.now().plus_seconds(seconds))),
                    None => error,
                };
                let conclusion = match transient {
                    true => Conclusion::Transient { error, retry_after_seconds },
                    false => Conclusion::Failed(error),
                };
                (conclusion, None)
            }
        };
        // A question leaves the run open; its files are looked at when it ends.
        let asks = self.command(Vec::new(), conclusion.clone());
        if ending(state, &asks).is_none() {
            // The last words of the turn are logged with its question: their bytes come first, as with every event.
            files::sync_files(&paths.root, &[paths.file(RunFile::Stdout), paths.file(RunFile::Stderr)])?;
            return Ok(Closed::concluded(self.command(facts, conclusion).into(), None));
        }
        let Some(indexed) = artifact::index_unless(&paths.root, &skill.artifact_contract(), stop)? else {
            return Ok(Closed::BrokenOff(facts));
        };
        facts.extend(indexed.refused.iter().map(|refused| warned(refused_artifact(refused))));
        let warnings = facts.iter().filter_map(warning_in).cloned().collect();
        facts.extend(normalized.clone().map(|normalized| Fact::own(Event::Normalized(normalized))));
        let conclusion = match (conclusion, missing(&indexed)) {
            (Conclusion::Succeeded(_), Some(error)) => Conclusion::Failed(error),
            (conclusion, _) => conclusion,
        };
        let command = self.command(facts, conclusion);
        let Some(ending) = ending(state, &command) else {
            return Ok(Closed::concluded(command.into(), None));
        };
        let found =
            indexed.entries.iter().map(|entry| Fact::own(Event::ArtifactIndexed(Box::new(entry.clone())))).collect();
        let succeeded = ending.status() == Status::Succeeded;
        self.shared.take_back(&self.skill_place);
        let WrittenFiles { evidence, results } = write_files(
            paths,
            FinalFiles {
                state,
                ending: &ending,
                data: data.filter(|_| succeeded),
                remarks,
                artifacts: indexed.entries,
                warnings,
                normalized,
                streams: streams(&self.ended),
            },
        )?;
        let last_files = LastFiles { facts: found, evidence };
        let cached = if succeeded { cache::entry(state, &command, &last_files, &results) } else { None };
        Ok(Closed::concluded(Step { command, last_files: Some(last_files) }, cached))
    }

    /// A turn that the end of the service cut short is not the engine's failure.
    fn command(&self, facts: Vec<Fact>, conclusion: Conclusion) -> Command {
        if self.shutdown {
            return Command::Reconcile { restart_queued: RestartQueued::Fail, facts };
        }
        Command::EndTurn { facts, conclusion }
    }
}

async fn log(turn: Turn<'_>, concluded: Concluded) -> Result<(), Error> {
    let Concluded { step, cached } = concluded;
    let mut along = turn.shared.files_after(turn.journal.state(), step.last_files.as_ref()).await?;
    along.rows.extend(cached);
    let mark = along.mark.clone();
    turn.journal.commit_with(step, along).await?;
    let state = turn.journal.state();
    turn.shared.files().settled(state.run_id, mark).await;
    perform(turn.shared, state);
    Ok(())
}

fn warning_in(fact: &Fact) -> Option<&Warning> {
    match &fact.event {
        Event::Warned(warning) => Some(warning),
        _ => None,
    }
}

fn streams(ended: &Ended) -> BTreeMap<String, StreamProof> {
    let proof = |totals: &StreamTotals| StreamProof { bytes: totals.bytes, sha256: totals.sha256.clone() };
    BTreeMap::from([("stdout".to_owned(), proof(&ended.stdout)), ("stderr".to_owned(), proof(&ended.stderr))])
}

fn missing(indexed: &artifact::Indexed) -> Option<RunError> {
    if indexed.missing.is_empty() {
        return None;
    }
    let named = |pattern: &str| RunFolder::Artifacts.join(RunFolder::Artifacts.strip(pattern).unwrap_or(pattern));
    let patterns: Vec<String> = indexed.missing.iter().map(|entry| named(&entry.pattern)).collect();
    let message = format!("required artifacts are missing: {}", patterns.join(", "));
    Some(RunError::new(ErrorCode::ArtifactMissing, message).with("missing", patterns))
}

fn refused_artifact(refused: &artifact::Refused) -> Warning {
    let message = format!("{} is not an artifact: {}", refused.path_rel, refused.reason);
    let mut warning = Warning::new(WarningCode::ArtifactRefused, message);
    warning.details.insert("path".into(), refused.path_rel.clone().into());
    warning
}
