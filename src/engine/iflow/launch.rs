//! How iflow was started: the prompt is an argument, for it did not read standard input.

use crate::engine::adapter::Adapter;
use crate::engine::turn::{ConfigFile, LaunchPlan, Turn, TurnRefused, words};

/// Longest prompt; one argument can hold no more than 128 KiB.
const PROMPT_MAX: usize = 120 * 1024;

pub(super) fn launch(adapter: &Adapter, turn: &Turn<'_>) -> Result<LaunchPlan, TurnRefused> {
    if turn.prompt.len() > PROMPT_MAX {
        let reason = format!("iflow takes at most {PROMPT_MAX} bytes");
        return Err(TurnRefused::Config { key: "prompt".to_owned(), reason });
    }
    let mut arguments = Vec::new();
    if let Some(model) = turn.model {
        arguments.extend(["-m".to_owned(), model.to_owned()]);
    }
    arguments.extend(words(&["--yolo"]));
    if let Some(handle) = turn.resume {
        arguments.extend(["-r".to_owned(), handle.to_owned()]);
    }
    // One word with its flag: a prompt that begins with a dash stays a prompt.
    arguments.push(format!("--prompt={}", turn.prompt));
    let mut plan = turn.plan(adapter, arguments, &[]);
    plan.launch.stdin = Vec::new();
    if let Some(prompt) = plan.shown_argv.last_mut() {
        // What it was is in logs/prompt.txt.
        *prompt = "--prompt=…".to_owned();
    }
    if turn.config.as_object().is_some_and(|config| !config.is_empty()) {
        plan.files.push(ConfigFile::of_run(turn.run_dir.join(".iflow/settings.json"), turn.config));
    }
    Ok(plan)
}
