//! N3: the engine's own session is asked once more, with what is wrong with its output.

use crate::domain::causes::chain;
use crate::domain::event::Normalized;
use crate::domain::outcome::RunError;
use crate::domain::request::ExecutionMode;
use crate::domain::state::RunState;
use crate::engine::Adapter;
use crate::orchestrator::error::Error;
use crate::orchestrator::turn::current::Turn;
use crate::orchestrator::turn::judge;
use crate::orchestrator::turn::prepare_cli::{adapter_of, answer_of, prepare_repair};
use crate::orchestrator::turn::result_file;
use crate::prompt::contract;
use crate::skill::Skill;
use crate::verdict::normalize::StepResult;
use crate::verdict::stop::Stop;
use crate::verdict::verdict::Outcome;

/// Most violations an engine is told of.
const TOLD_MAX: usize = 20;

impl Turn<'_> {
    /// Ask the session again, within the turn and its time.
    pub(crate) async fn repair(&mut self, so_far: &Normalized, error: &RunError) -> Result<StepResult, Error> {
        // The session may have been named in what is not logged yet.
        self.log_facts().await?;
        let problem = problem(so_far, error);
        let shared = self.shared.clone();
        let prepared = self
            .blocking(move |paths, state, skill| {
                let adapter = match adapter_of(state) {
                    Ok(adapter) => adapter,
                    Err(error) => return Ok(Err(error)),
                };
                let text = request(&problem, adapter, state, skill);
                let named = skill.manifest.entrypoint.prompt.result_file.as_deref();
                result_file::clear(paths)?;
                let before = result_file::mark(paths, named);
                Ok(prepare_repair(&shared, state, skill, paths, &text)?.map(|start| (start, before)))
            })
            .await?;
        let (start, before) = match prepared {
            Ok(prepared) => prepared,
            Err(error) => return Ok(StepResult::failed(error.message)),
        };
        let end = match self.run_process(start.stage, self.deadline).await? {
            Ok(end) => end,
            Err(failure) => return Ok(StepResult::failed(format!("it could not be started: {}", chain(&failure)))),
        };
        if let Some(stop @ Stop::HardTimeout { .. }) = &end.stop {
            // The time is the whole turn's.
            self.stop = Some(stop.clone());
        }
        self.blocking(move |paths, state, skill| {
            let verdict = judge::judge_repair(paths, state, skill, end, before)?;
            let normalized = verdict.normalized;
            let checked = normalized.as_ref().map(|normalized| normalized.steps.clone()).unwrap_or_default();
            let errors = normalized.map(|normalized| normalized.validation_errors);
            Ok(match verdict.outcome {
                Ok(Outcome::Done(_, data)) => StepResult {
                    ok: true,
                    detail: "the engine answered again".into(),
                    checked,
                    errors,
                    data: Some(data),
                },
                Ok(Outcome::Ask(_)) => StepResult::failed("the engine asked a question instead of answering"),
                Err(error) => {
                    let detail = format!("{}: {}", error.code, error.message);
                    StepResult { ok: errors.is_some(), detail, checked, errors, data: None }
                }
            })
        })
        .await
    }
}

/// What is wrong, in words for the engine.
fn problem(so_far: &Normalized, error: &RunError) -> String {
    if so_far.validation_errors.is_empty() {
        return error.message.clone();
    }
    let told = so_far.validation_errors.iter().take(TOLD_MAX);
    let lines: Vec<String> = told.map(|error| format!("- at {:?}: {}", error.path, error.message)).collect();
    format!("it breaks the output schema:\n{}", lines.join("\n"))
}

fn request(problem: &str, adapter: &Adapter, state: &RunState, skill: &Skill) -> String {
    let schema = &skill.output_schema;
    let told = format!(
        "The result of your last message cannot be accepted: {problem}\n\nAnswer again with the corrected result. Keep \
         everything you found; change only what the schema demands, and do no further work.\n\n# Output schema\n\n{schema:#}"
    );
    let mode: ExecutionMode = state.options.execution_mode;
    contract::append(&told, mode, answer_of(adapter, state, skill))
}
