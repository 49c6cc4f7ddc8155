//! Hybrid skills: the engine has spoken, and a script makes the result of its words.

use serde_json::{Map, Value};

use crate::domain::run_file::RunFile;
use crate::domain::state::RunState;
use crate::engine::script;
use crate::orchestrator::error::Error;
use crate::orchestrator::runs::actor::not_started;
use crate::orchestrator::turn::conclude::Ending;
use crate::orchestrator::turn::judge;
use crate::orchestrator::turn::judge::{BehindEngine, Turned};
use crate::orchestrator::turn::prepare::path_variable;
use crate::orchestrator::turn::process::{Stage, StageEnd};
use crate::orchestrator::turn::reader::TurnReader;
use crate::verdict::verdict::Verdict;
use crate::workspace::RunPaths;

/// A script's call, as far as it is known before the engine runs.
pub(crate) struct ScriptCall {
    pub argv: Vec<String>,
    pub action: String,
    pub params: Map<String, Value>,
}

impl ScriptCall {
    /// The process of the script.
    pub fn stage(self, state: &RunState, paths: &RunPaths, engine: Option<script::EngineWords<'_>>) -> Stage {
        let launch = script::launch(script::Invocation {
            argv: self.argv,
            action: self.action,
            params: self.params,
            skill_id: &state.skill.id,
            request_id: state.request_id.to_string(),
            run_id: state.run_id.to_string(),
            run_dir: &paths.root,
            home: &paths.tmp,
            path: &path_variable(),
            debug: state.options.debug,
            engine,
        });
        Stage {
            launch,
            reader: TurnReader::Script(script::ProgressParser),
            stdout_max: Some(script::STDOUT_MAX),
            line_max: script::LINE_MAX,
        }
    }
}

impl Ending<'_> {
    /// Run the script on what the engine said; or the verdict on an engine that failed or asks.
    pub(crate) async fn run_script(
        &mut self,
        call: ScriptCall,
        engine: StageEnd,
    ) -> Result<Result<Turned, Box<Verdict>>, Error> {
        let heard = self.blocking(move |paths, state, skill| judge::hear(paths, state, skill, engine)).await?;
        let text = match heard {
            Ok(text) => text,
            Err(verdict) => return Ok(Err(verdict)),
        };
        let state = self.journal.state();
        let paths = self.shared.layout.run(state.run_id);
        let place = paths.file(RunFile::EngineOutput);
        let stage = call.stage(state, &paths, Some(script::EngineWords { text: &text, path: &place }));
        let program = stage.launch.argv.first().cloned().unwrap_or_default();
        let behind_engine = BehindEngine { stdout_from: self.ended.stdout.bytes };
        Ok(match self.stage(stage, self.deadline).await? {
            Err(failure) => Err(Box::new(Verdict::failed(not_started(&program, &failure)))),
            Ok(StageEnd { exit, stop, reader, dismissed }) => {
                let behind_engine = Some(behind_engine);
                Ok(Turned { exit, stop, reader, dismissed, result_before: None, behind_engine })
            }
        })
    }
}
