//! Hybrid skills: the engine has answered, and a script makes the result of its words.

use crate::domain::run_file::RunFile;
use crate::engine::script;
use crate::orchestrator::error::Error;
use crate::orchestrator::turn::current::Turn;
use crate::orchestrator::turn::judge::{self, Judged, JudgedProcess};
use crate::orchestrator::turn::process::not_started;
use crate::orchestrator::turn::script_call::ScriptCall;
use crate::orchestrator::turn::watch::FinishedProcess;
use crate::verdict::verdict::Verdict;

/// Run the script on what the engine said; or the verdict on an engine that failed or asks.
pub(crate) async fn run_script(
    turn: &mut Turn<'_>,
    call: ScriptCall,
    engine: FinishedProcess,
) -> Result<Result<JudgedProcess, Box<Verdict>>, Error> {
    let answered = turn.blocking(move |paths, state, skill| judge::engine_words(paths, state, skill, engine)).await?;
    let text = match answered {
        Ok(text) => text,
        Err(verdict) => return Ok(Err(verdict)),
    };
    let state = turn.journal.state();
    let paths = turn.shared.layout.run(state.run_id);
    let place = paths.file(RunFile::EngineOutput);
    let stage =
        call.stage(turn.shared, &turn.skill, state, &paths, Some(script::EngineWords { text: &text, path: &place }));
    let program = stage.launch.argv.first().cloned().unwrap_or_default();
    let stdout_from = turn.ended.stdout.bytes;
    Ok(match turn.run_process(stage, turn.deadline).await? {
        Err(failure) => Err(Box::new(Verdict::failed(turn.shared.naming_the_disk(not_started(&program, &failure))))),
        Ok(process) => {
            Ok(JudgedProcess { process, result_before: None, part: Judged::ScriptBehindEngine { stdout_from } })
        }
    })
}
