//! A turn behind its engine: judged, carried up the ladder where it must be, closed and logged.

use std::sync::Arc;

use tokio::sync::mpsc;

use crate::domain::command::{Command, RestartQueued};
use crate::domain::fact::Fact;
use crate::domain::run_file::RunFile;
use crate::domain::state::RunState;
use crate::files;
use crate::orchestrator::error::Error;
use crate::orchestrator::handle::Shared;
use crate::orchestrator::log::journal::Journal;
use crate::orchestrator::runs::actor::Message;
use crate::orchestrator::turn::hybrid::ScriptCall;
use crate::orchestrator::turn::judge;
use crate::orchestrator::turn::judge::{Conclusion, Judged, Turned};
use crate::orchestrator::turn::normalize;
use crate::orchestrator::turn::process::Deadline;
use crate::orchestrator::turn::result_file::FileMark;
use crate::orchestrator::turn::watch::TurnOver;
use crate::skill::Skill;
use crate::supervisor::Ended;
use crate::verdict::stop::Stop;
use crate::verdict::verdict::Verdict;
use crate::workspace::RunPaths;

/// A turn whose engine has ended.
pub(crate) struct Ending<'a> {
    pub shared: &'a Arc<Shared>,
    pub journal: &'a mut Journal,
    pub mailbox: &'a mut mpsc::Receiver<Message>,
    pub skill: Arc<Skill>,
    /// The script that stands behind the engine.
    pub script: Option<ScriptCall>,
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
}

impl Ending<'_> {
    /// Judge the turn, write the last files, log the end.
    pub async fn finish(mut self, over: TurnOver) -> Result<(), Error> {
        let engine = self.take_over(over);
        let turned = match self.script.take() {
            None => Ok(Turned {
                exit: engine.exit,
                stop: engine.stop,
                reader: engine.reader,
                dismissed: engine.dismissed,
                result_before: self.result_before,
                behind_engine: None,
            }),
            Some(script) => self.run_script(script, engine).await?,
        };
        let conclusion = match turned {
            Err(verdict) => self.close(*verdict).await?,
            Ok(turned) => {
                let rungs = normalize::rungs(&self.skill, self.shared.settings.runs.repair, &turned.reader);
                match self.judge(turned, rungs.is_empty()).await? {
                    Judged::Closed(conclusion) => *conclusion,
                    Judged::Open { unsettled, kept } => {
                        let verdict = self.climb(rungs, *unsettled, kept).await?;
                        self.close(verdict).await?
                    }
                }
            }
        };
        self.log(conclusion).await
    }

    /// Judge what was left; unless the ladder may help, close the turn at once.
    async fn judge(&mut self, turned: Turned, last: bool) -> Result<Judged, Error> {
        let (ended, facts) = (self.ended.clone(), std::mem::take(&mut self.facts));
        let (judged, facts) = self
            .blocking(move |paths, state, skill| {
                let (verdict, kept) = judge::judge(paths, state, skill, turned)?;
                let settled = if last {
                    verdict
                } else {
                    match verdict.unsettled() {
                        Ok(unsettled) => return Ok((Judged::Open { unsettled: Box::new(unsettled), kept }, facts)),
                        Err(settled) => *settled,
                    }
                };
                let closed = judge::close(paths, state, skill, settled, facts, &ended)?;
                Ok((Judged::Closed(Box::new(closed)), Vec::new()))
            })
            .await?;
        self.facts = facts;
        Ok(judged)
    }

    async fn close(&mut self, verdict: Verdict) -> Result<Conclusion, Error> {
        let (ended, facts) = (self.ended.clone(), std::mem::take(&mut self.facts));
        self.blocking(move |paths, state, skill| {
            judge::reclaim(paths)?;
            judge::close(paths, state, skill, verdict, facts, &ended)
        })
        .await
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

    /// Work on the run's files, off the runtime's threads.
    pub(crate) async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&RunPaths, &RunState, &Skill) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let state = self.journal.state().clone();
        let paths = self.shared.layout.run(state.run_id);
        let skill = self.skill.clone();
        self.shared.blocking.run("conclude the run", move || work(&paths, &state, &skill)).await?
    }

    async fn log(self, conclusion: Conclusion) -> Result<(), Error> {
        let Conclusion { facts, end, evidence, cached } = conclusion;
        let interrupted = self.stop == Some(Stop::Shutdown) && !self.journal.state().cancel_requested;
        let command = if interrupted {
            Command::Reconcile { restart_queued: RestartQueued::Fail, tails: facts, evidence }
        } else {
            Command::EndTurn { facts, end, evidence }
        };
        self.journal.commit_with(command, cached.into_iter().collect()).await?;
        let state = self.journal.state();
        self.shared.owe(state);
        let request = self.shared.layout.request_engine_config(state.request_id);
        if state.status.is_final() && request.exists() {
            // The configuration a client sent may hold secrets; nobody needs it any more.
            let _ = std::fs::remove_file(&request);
            let _ = request.parent().map(std::fs::remove_dir);
        }
        Ok(())
    }
}
