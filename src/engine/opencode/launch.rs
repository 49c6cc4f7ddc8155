//! How opencode is started: configuration in its environment, everything it keeps below its home.

use crate::engine::adapter::Adapter;
use crate::engine::turn::{LaunchPlan, Turn, TurnRefused, shown, words};

pub(super) fn launch(adapter: &Adapter, turn: &Turn<'_>) -> Result<LaunchPlan, TurnRefused> {
    let mut arguments = words(&["run", "--format", "json", "--auto"]);
    match turn.resume {
        // Without its folder, a session resumed from elsewhere never says a word nor ends.
        Some(handle) => {
            arguments.extend(["--dir".to_owned(), shown(turn.run_dir), "--session".to_owned(), handle.to_owned()])
        }
        // A title of our own saves the request opencode makes to find one.
        None => arguments.extend(words(&["--title", "run"])),
    }
    let below_home = |folder: &str| shown(&turn.engine_home.join(folder));
    let on = || "1".to_owned();
    let variables = [
        ("XDG_DATA_HOME", below_home("data")),
        ("XDG_CONFIG_HOME", below_home("config")),
        ("XDG_STATE_HOME", below_home("state")),
        ("XDG_CACHE_HOME", below_home("cache")),
        ("OPENCODE_DISABLE_AUTOUPDATE", on()),
        ("OPENCODE_DISABLE_MODELS_FETCH", on()),
        ("OPENCODE_DISABLE_LSP_DOWNLOAD", on()),
        ("OPENCODE_DISABLE_DEFAULT_PLUGINS", on()),
        ("OPENCODE_CONFIG_CONTENT", turn.config.to_string()),
    ];
    Ok(turn.plan(adapter, arguments, &variables))
}
