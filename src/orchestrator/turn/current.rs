//! The turn under way, once its engine has started: its log, its time, and what is still to be logged.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::domain::codes::WarningCode;
use crate::domain::command::Command;
use crate::domain::fact::Fact;
use crate::domain::outcome::Warning;
use crate::domain::run_file::RunFile;
use crate::domain::state::RunState;
use crate::files;
use crate::orchestrator::error::Error;
use crate::orchestrator::log::coverage::Coverage;
use crate::orchestrator::log::journal::Journal;
use crate::orchestrator::shared::Shared;
use crate::orchestrator::shared::live::{CancelMessage, Mailbox};
use crate::orchestrator::shared::skills::SkillPlace;
use crate::orchestrator::turn::deadline::Deadline;
use crate::orchestrator::turn::dependencies::Dependencies;
use crate::orchestrator::turn::process::{self, Stage};
use crate::orchestrator::turn::raw_files::RawFiles;
use crate::orchestrator::turn::result_file::FileMark;
use crate::orchestrator::turn::warnings::warned;
use crate::orchestrator::turn::watch::{FinishedProcess, Watched};
use crate::skill::Skill;
use crate::supervisor::{self, Ended};
use crate::verdict::stop::Stop;
use crate::workspace::RunPaths;

/// A turn whose engine has ended.
pub(crate) struct Turn<'a> {
    pub shared: &'a Arc<Shared>,
    pub journal: &'a mut Journal,
    pub mailbox: &'a mut Mailbox,
    pub skill: Arc<Skill>,
    pub skill_place: SkillPlace,
    /// The result file as the turn found it.
    pub result_before: Option<FileMark>,
    /// When the turn's time is over.
    pub deadline: Deadline,
    /// What is to be logged and not yet is.
    pub facts: Vec<Fact>,
    /// The end of the turn's last process.
    pub ended: Ended,
    /// Why the whole turn was stopped, if it was.
    pub stop: Option<Stop>,
    /// The Python packages of its commands, which stay while it runs.
    pub _dependencies: Dependencies,
    /// What is masked in the output of each of its processes.
    pub secrets: Vec<String>,
}

impl Turn<'_> {
    /// Run another process in this turn. What is to be logged is logged as soon as it has started.
    pub(crate) async fn run_process(
        &mut self,
        mut stage: Stage,
        deadline: Deadline,
    ) -> Result<Result<FinishedProcess, supervisor::Error>, Error> {
        let run = self.journal.state().run_id;
        if stage.launch.secrets.is_empty() {
            stage.launch.secrets.clone_from(&self.secrets);
        }
        let raw = self.blocking(|paths, _, _| Ok(RawFiles::read(paths))).await?;
        let resources = process::resources_of(self.shared, &self.skill);
        let process = match process::start(self.shared, run, stage.starting(), resources).await {
            Ok(process) => process,
            Err(failure) => return Ok(Err(failure)),
        };
        let home = stage.home.take();
        let from = Coverage { stdout: self.ended.stdout.bytes, stderr: self.ended.stderr.bytes };
        let attempt = process::attempt(self.shared, self.journal.state(), process, stage, deadline, from, self.mailbox);
        let watched = attempt.watch(self.journal, std::mem::take(&mut self.facts)).await?;
        process::settle(self.shared, run, home).await;
        let finished = self.absorb(watched);
        if self.blocking(move |paths, _, _| raw.restore(paths)).await? {
            let message = "a process of the skill changed the raw output; it was restored as the engine gave it";
            self.facts.push(warned(Warning::new(WarningCode::RawOutputRestored, message)));
        }
        Ok(Ok(finished))
    }

    /// A process is over: its remaining facts are to be logged, and the streams of the next process begin where its streams end.
    pub(crate) fn absorb(&mut self, watched: Watched) -> FinishedProcess {
        let Watched { process, ended, facts } = watched;
        self.facts.extend(facts);
        self.ended = ended;
        // These end the turn, whichever of its processes they met.
        let ends_turn = match &process.stop {
            Some(Stop::Canceled | Stop::Shutdown | Stop::LogFailed { .. } | Stop::LogChanged | Stop::Resources(_)) => {
                true
            }
            Some(Stop::HardTimeout { .. } | Stop::Stalled { .. } | Stop::OutputLimit { .. }) | None => false,
        };
        if ends_turn {
            self.stop.clone_from(&process.stop);
        }
        process
    }

    /// Log what is to be logged; the bytes it points to are made durable before.
    pub(crate) async fn log_facts(&mut self) -> Result<(), Error> {
        if self.facts.is_empty() {
            return Ok(());
        }
        self.blocking(|paths, _, _| {
            Ok(files::sync_files(&paths.root, &[paths.file(RunFile::Stdout), paths.file(RunFile::Stderr)])?)
        })
        .await?;
        self.journal.commit(Command::Record(std::mem::take(&mut self.facts))).await
    }

    /// The same, for work that may take long: a cancel tells it to stop, and is handed on with what it came to. A turn that
    /// is to be stopped already hears no other one.
    pub(crate) async fn blocking_until_canceled<T: Send + 'static>(
        &mut self,
        work: impl FnOnce(&RunPaths, &RunState, &Skill, &AtomicBool) -> Result<T, Error> + Send + 'static,
    ) -> Result<(T, Option<CancelMessage>), Error> {
        let stop = Arc::new(AtomicBool::new(false));
        let told = stop.clone();
        let state = self.journal.state().clone();
        let paths = self.shared.layout.run(state.run_id);
        let skill = self.skill.clone();
        let done = self.shared.blocking.run("conclude the turn", move || work(&paths, &state, &skill, &told));
        tokio::pin!(done);
        let canceled = tokio::select! {
            biased;
            done = &mut done => return Ok((done??, None)),
            Some(message) = self.mailbox.recv(), if self.stop.is_none() => message,
        };
        stop.store(true, Ordering::Relaxed);
        Ok((done.await??, Some(canceled)))
    }

    /// Work on the run's files, off the runtime's threads.
    pub(crate) async fn blocking<T: Send + 'static>(
        &mut self,
        work: impl FnOnce(&RunPaths, &RunState, &Skill) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let state = self.journal.state().clone();
        let paths = self.shared.layout.run(state.run_id);
        let skill = self.skill.clone();
        self.shared.blocking.run("conclude the turn", move || work(&paths, &state, &skill)).await?
    }
}
