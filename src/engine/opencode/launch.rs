//! How opencode is started: configuration in its environment, everything it keeps below its home.

use std::path::Path;

use crate::engine::adapter::Adapter;
use crate::engine::hidden_keys;
use crate::engine::launch::{LaunchPlan, path_text, words};
use crate::engine::turn::{Turn, TurnRefused};

pub(crate) fn launch(adapter: &Adapter, turn: &Turn<'_>) -> Result<LaunchPlan, TurnRefused> {
    let mut arguments = words(&["run", "--format", "json", "--auto"]);
    match turn.resume {
        // Without its folder, a session resumed from elsewhere prints nothing and never ends.
        Some(handle) => {
            arguments.extend(["--dir".to_owned(), path_text(turn.run_dir), "--session".to_owned(), handle.to_owned()])
        }
        // A title of our own saves the request opencode makes to find one.
        None => arguments.extend(words(&["--title", "run"])),
    }
    let mut variables = home_variables(turn.engine_home);
    variables.push(("OPENCODE_CONFIG_CONTENT", turn.config.to_string()));
    let mut files = Vec::new();
    let keys = hidden_keys::names(adapter, turn);
    if !keys.is_empty() {
        // It has no setting for this; the bash that it runs commands with reads this file first.
        let (path, file) = hidden_keys::shell_file(turn.engine_home, &keys, "OPENCODE");
        variables.push(("BASH_ENV", path_text(&path)));
        files.push(file);
    }
    Ok(LaunchPlan { files, ..adapter.plan(turn, arguments, &variables) })
}

/// The variables that keep everything opencode stores below its home.
pub(crate) fn home_variables(home: &Path) -> Vec<(&'static str, String)> {
    let below = |folder: &str| path_text(&home.join(folder));
    vec![
        ("XDG_DATA_HOME", below("data")),
        ("XDG_CONFIG_HOME", below("config")),
        ("XDG_STATE_HOME", below("state")),
        ("XDG_CACHE_HOME", below("cache")),
    ]
}
