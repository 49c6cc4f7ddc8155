//! Whether skills can run: the engines are there and logged in.

use serde_json::Value;

use crate::cli::engines::statuses;
use crate::cli::service::doctor::finding::Finding;
use crate::settings::Settings;

/// Checks every engine.
pub(crate) fn check(settings: &Settings) -> Vec<Finding> {
    let all = match statuses(settings) {
        Ok(Value::Array(all)) => all,
        Ok(_) | Err(_) => {
            let fix = "restart the service, then try again";
            return vec![Finding::broken("engines", "the running service does not tell its engines", fix)];
        }
    };
    all.iter().filter(|status| status["state"] != "built_in").filter_map(one).collect()
}

fn one(status: &Value) -> Option<Finding> {
    let text = |key: &str| status[key].as_str().unwrap_or_default();
    let check = format!("engine {}", text("engine"));
    let (installed, ready) = (status["installed"] == true, status["auth_ready"] == true);
    let (version, pinned) = (text("cli_version_detected"), text("pinned_version"));
    Some(match (installed, ready) {
        // Its service is closed: that it is missing is as it should be.
        (false, _) if text("state") == "sunset" => return None,
        // Whoever does not use an engine need not have it.
        (false, _) => Finding::warning(&check, text("problem"), text("install_command")),
        (true, false) => Finding::warning(&check, format!("{} has no login", text("program")), text("auth_detail")),
        (true, true) if version.is_empty() => Finding::warning(
            &check,
            format!("{} does not tell its version", text("program")),
            "try it by hand; install it again if it does not work",
        ),
        (true, true) if version != pinned && !pinned.is_empty() => Finding::warning(
            &check,
            format!("version {version}; the runner was measured with {pinned}"),
            format!("if it misbehaves: skill-runner engines --install {}", text("engine")),
        ),
        (true, true) => Finding::ok(&check, format!("{version}, {}", text("auth_detail"))),
    })
}
