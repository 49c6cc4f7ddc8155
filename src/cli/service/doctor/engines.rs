//! Checks the engines: whether they are installed and logged in.

use serde_json::Value;

use crate::cli::engines::statuses;
use crate::cli::service::doctor::finding::Finding;
use crate::installed_engines::operator_config;
use crate::settings::Settings;

pub(crate) fn check(settings: &Settings) -> Vec<Finding> {
    let all = match statuses(settings) {
        Ok(Value::Array(all)) => all,
        Ok(_) | Err(_) => {
            let fix = "restart the service, then try again";
            return vec![Finding::broken("engines", "the running service does not list its engines", fix)];
        }
    };
    let configs = operator_config::problems(&settings.paths.configs_dir).into_iter();
    let configs = configs.map(|problem| {
        Finding::broken(
            "engine configuration",
            problem,
            "correct the file, or remove it; `skill-runner config --engine NAME` shows what is in force",
        )
    });
    all.iter().filter(|status| status["state"] != "built_in").filter_map(one).chain(configs).collect()
}

fn one(status: &Value) -> Option<Finding> {
    let text = |key: &str| status[key].as_str().unwrap_or_default();
    let check = format!("engine {}", text("engine"));
    let (installed, ready) = (status["installed"] == true, status["auth_ready"] == true);
    let (version, pinned) = (text("cli_version_detected"), text("pinned_version"));
    Some(match (installed, ready) {
        // Its vendor has closed the service, so nobody needs the CLI.
        (false, _) if text("state") == "sunset" => return None,
        // A warning: an engine that is not used need not be installed.
        (false, _) => {
            let fix = status["install_command"].as_str().unwrap_or(text("advice"));
            Finding::warning(&check, text("problem"), fix)
        }
        (true, false) => Finding::warning(&check, format!("{} is not logged in", text("program")), text("auth_detail")),
        (true, true) if version.is_empty() => Finding::warning(
            &check,
            format!("{} does not print its version", text("program")),
            "run it by hand; install it again if it does not work",
        ),
        (true, true) if version != pinned && !pinned.is_empty() => Finding::warning(
            &check,
            format!("version {version}; skill-runner was tested with {pinned}"),
            format!("if runs fail: skill-runner engines --install {}", text("engine")),
        ),
        (true, true) => Finding::ok(&check, format!("{version}, {}", text("auth_detail"))),
    })
}
