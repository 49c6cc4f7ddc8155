//! The Python packages that the commands of a turn need: found, or installed by a process of the run before its engine begins.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::bounded;
use crate::domain::codes::ErrorCode;
use crate::domain::outcome::RunError;
use crate::domain::run_file::RunFile;
use crate::domain::state::RunState;
use crate::engine::script::{self, Answer};
use crate::engine::{Launch, PoliteSignal, Streams};
use crate::environments::{self, InUse, Order, UnderWay, Wanted};
use crate::orchestrator::error::Error;
use crate::orchestrator::log::coverage::Coverage;
use crate::orchestrator::log::journal::Journal;
use crate::orchestrator::shared::Shared;
use crate::orchestrator::shared::live::Mailbox;
use crate::orchestrator::shared::skills::SkillPlace;
use crate::orchestrator::turn::confine_installer::{self, InstallerPlaces};
use crate::orchestrator::turn::deadline::Deadline;
use crate::orchestrator::turn::judge;
use crate::orchestrator::turn::process::{self, Stage};
use crate::orchestrator::turn::reader::TurnReader;
use crate::orchestrator::turn::script_call::path_variable;
use crate::orchestrator::turn::watch::Watched;
use crate::skill::Skill;
use crate::skill::manifest::EntrypointKind;
use crate::skill::python::{Command, Needs};
use crate::supervisor::{Process, ProcessExit};
use crate::verdict::stop::Stop;
use crate::workspace::RunPaths;

/// The environments of a turn.
#[derive(Debug, Default)]
pub(crate) struct Dependencies {
    ids: Vec<String>,
    /// Held, so that no clean-up removes one meanwhile.
    in_use: Vec<InUse>,
    missing: Vec<Wanted>,
    /// Held while they are made: nobody takes the folders away.
    under_way: Vec<UnderWay>,
}

impl Dependencies {
    /// What the turn's commands need, and what of it is there. Blocks.
    pub(crate) fn of(shared: &Shared, state: &RunState, skill: &Skill, place: &SkillPlace) -> Result<Self, RunError> {
        let mut found = Self::default();
        let script = match skill.manifest.entrypoint.kind_on(&state.engine) {
            EntrypointKind::Script | EntrypointKind::Hybrid => skill.python.command(Command::Script),
            EntrypointKind::Prompt => None,
        };
        let behind = [Command::Normalizer, Command::Fallback].map(|command| skill.python.command(command));
        for needs in [script].into_iter().chain(behind).flatten() {
            if found.ids.contains(&needs.id) {
                continue;
            }
            if !shared.settings.python.install {
                return Err(switched_off(needs));
            }
            found.ids.push(needs.id.clone());
            match shared.environments.find(&needs.id) {
                Some(in_use) => found.in_use.push(in_use),
                None => found.missing.push(wanted(shared, needs, place)),
            }
        }
        Ok(found)
    }

    /// The process that makes those that are missing. Blocks.
    pub(crate) fn making(
        &mut self,
        shared: &Shared,
        paths: &RunPaths,
        skill: &Skill,
        skill_place: &SkillPlace,
    ) -> Result<Option<Stage>, Error> {
        if self.missing.is_empty() {
            return Ok(None);
        }
        // What is to be shown to the process must be there.
        for wanted in &self.missing {
            self.under_way.push(shared.environments.begin(&wanted.id)?);
        }
        let folders: Vec<PathBuf> = self.missing.iter().map(|wanted| wanted.folder.clone()).collect();
        let path = path_variable();
        let variables = environments::variables_of_operator();
        let secrets = environments::secrets(&variables);
        let places = InstallerPlaces { paths, skill, skill_place, environments: &folders, path: &path };
        let (sandbox, variables) = confine_installer::sandbox(shared, &places, variables);
        let own = [("PATH", path), ("HOME", paths.tmp.to_string_lossy().into_owned()), ("LANG", "C.UTF-8".into())];
        let own = own.map(|(name, value)| (name.to_owned(), value));
        let order = Order { environments: self.missing.clone() };
        let launch = Launch {
            argv: vec![shared.program.to_string_lossy().into_owned(), environments::MAKE.to_owned()],
            env: variables.into_iter().chain(own).collect(),
            cwd: skill_place.seen_at.clone(),
            stdin: serde_json::to_vec(&order).unwrap_or_default(),
            polite: PoliteSignal::TerminateAll,
            streams: Streams::Pipes,
            secrets,
            own_tmp: false,
        };
        Ok(Some(Stage {
            launch,
            reader: TurnReader::Script(script::ScriptParser::default()),
            stdout_max: Some(script::STDOUT_MAX),
            line_max: script::LINE_MAX,
            home: None,
            sandbox,
            fills: folders,
        }))
    }

    /// Watches the process that makes what is missing to its end; the inner error is the run's.
    pub(crate) async fn install(
        &mut self,
        shared: &Arc<Shared>,
        journal: &mut Journal,
        mailbox: &mut Mailbox,
        process: Process,
        making: Stage,
        from: Coverage,
    ) -> Result<(Watched, Result<(), RunError>), Error> {
        let deadline = Deadline::after(Duration::from_secs(shared.settings.python.timeout_seconds));
        let attempt = process::attempt(shared, journal.state(), process, making, deadline, from, mailbox);
        let watched = attempt.watch(journal, Vec::new()).await?;
        let (stop, exit) = (watched.process.stop.clone(), watched.process.exit);
        let paths = shared.layout.run(journal.state().run_id);
        let (owned, ids, under_way) = (shared.clone(), self.ids.clone(), std::mem::take(&mut self.under_way));
        let judged = shared.blocking.run("look at the installed packages", move || {
            let outcome = outcome(&paths, stop, exit, from.stdout)?;
            let found =
                outcome.and_then(|()| ids.iter().map(|id| owned.environments.find_made(id).ok_or_else(gone)).collect());
            drop(under_way);
            if found.is_err() {
                ids.iter().for_each(|id| owned.environments.discard_half_made(id));
            }
            Ok::<_, Error>(found)
        });
        let found: Result<Vec<InUse>, RunError> = judged.await??;
        Ok((watched, found.map(|in_use| self.in_use = in_use)))
    }
}

fn wanted(shared: &Shared, needs: &Needs, place: &SkillPlace) -> Wanted {
    Wanted {
        id: needs.id.clone(),
        folder: shared.environments.folder(&needs.id),
        requirements: needs.requirements.iter().map(ToString::to_string).collect(),
        lines: needs.requirements.iter().map(|requirement| requirement.in_package(&place.seen_at)).collect(),
        python: needs.python.clone(),
    }
}

/// How the process that installs has ended; its answer is what it printed from this byte on. Blocks.
fn outcome(
    paths: &RunPaths,
    stop: Option<Stop>,
    exit: ProcessExit,
    stdout_from: u64,
) -> Result<Result<(), RunError>, Error> {
    let error = match (stop, exit) {
        (None, ProcessExit::Code(0)) => return Ok(Ok(())),
        (Some(Stop::HardTimeout { seconds, .. }), _) => RunError::new(
            ErrorCode::Timeout,
            format!("the Python packages of the skill were not installed within {seconds} s; raise the setting python_install_timeout_seconds"),
        )
        .with("python_install_timeout_seconds", seconds),
        (Some(stop), _) => stop.error(),
        (None, exit) => {
            let answer = judge::read_output(&paths.file(RunFile::Stdout), stdout_from)?;
            match bounded::json::from_slice(&answer).map(|answer| script::read_answer(&answer)) {
                Ok(Answer::Failure(error)) => RunError::of_script(error.code, error.message, error.details),
                Ok(Answer::Success { .. } | Answer::NotAnEnvelope(_)) | Err(_) => RunError::new(
                    ErrorCode::DependenciesUnavailable,
                    format!("the process that installs the Python packages of the skill {exit}"),
                ),
            }
        }
    };
    Ok(Err(error))
}

fn switched_off(needs: &Needs) -> RunError {
    let requirements: Vec<String> = needs.requirements.iter().map(ToString::to_string).collect();
    let message =
        "the skill needs Python packages, and the setting python_packages is off: ask the operator to switch it on";
    RunError::new(ErrorCode::DependenciesUnavailable, message).with("reason", "off").with("requirements", requirements)
}

fn gone() -> RunError {
    let message = "the Python packages of the skill were installed and removed again; run it again";
    RunError::new(ErrorCode::DependenciesUnavailable, message).with("reason", "removed")
}
