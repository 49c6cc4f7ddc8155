//! How iflow is started: the prompt is an argument, since it does not read standard input.

use crate::engine::adapter::Adapter;
use crate::engine::launch::{ConfigFile, LaunchPlan, words};
use crate::engine::turn::{Turn, TurnRefused};

/// Longest prompt; one argument can hold no more than 128 KiB.
const PROMPT_MAX: usize = 120 * 1024;

pub(crate) fn launch(adapter: &Adapter, turn: &Turn<'_>) -> Result<LaunchPlan, TurnRefused> {
    if turn.prompt.len() > PROMPT_MAX {
        let reason = format!("{} takes at most {PROMPT_MAX} bytes", adapter.name());
        return Err(TurnRefused::Config { key: "prompt".to_owned(), reason });
    }
    let mut arguments = Vec::new();
    if let Some(model) = adapter.model(turn) {
        arguments.extend(["-m".to_owned(), model.to_owned()]);
    }
    arguments.extend(words(&["--yolo"]));
    if let Some(handle) = turn.resume {
        arguments.extend(["-r".to_owned(), handle.to_owned()]);
    }
    // One word with its flag, so that a prompt that begins with a dash is not read as a flag.
    arguments.push(format!("--prompt={}", turn.prompt));
    let mut plan = adapter.plan(turn, arguments, &[]);
    plan.launch.stdin = Vec::new();
    if let Some(prompt) = plan.shown_argv.last_mut() {
        // The prompt itself is in logs/prompt.txt.
        *prompt = "--prompt=…".to_owned();
    }
    if turn.config.as_object().is_some_and(|config| !config.is_empty()) {
        plan.files.push(ConfigFile::of_run(turn.run_dir.join(".iflow/settings.json"), turn.config));
    }
    Ok(plan)
}
