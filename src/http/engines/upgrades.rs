//! `/v1/engines/upgrades`: installs agent CLIs into the managed prefix.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::request::Parts;
use serde::Deserialize;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::http::answer::problem::Problem;
use crate::http::engines::status::by_name;
use crate::http::request::json_body::JsonBody;
use crate::http::request::path_params::path_params;
use crate::http::state::app::App;
use crate::http::state::task::blocking;
use crate::installed_engines::{InstalledEngines, Upgrade, UpgradeRefused};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Request {
    mode: Mode,
    #[serde(default)]
    engine: Option<String>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Mode {
    Single,
    /// Every engine that can be installed.
    All,
}

pub(crate) async fn begin(
    State(app): State<App>,
    JsonBody(request, _): JsonBody<Request>,
) -> Result<(StatusCode, Json<Value>), Problem> {
    let engines = match (request.mode, &request.engine) {
        (Mode::Single, Some(name)) => vec![by_name(name)?],
        (Mode::Single, None) => {
            return Err(Problem::invalid(
                "/engine",
                "is required with mode \"single\"; use mode \"all\" for all engines",
            ));
        }
        (Mode::All, None) => InstalledEngines::installable(),
        (Mode::All, Some(_)) => return Err(Problem::invalid("/engine", "is only allowed with mode \"single\"")),
    };
    let installed = app.installed_engines().clone();
    let upgrade = blocking(move || installed.upgrade(&engines)).await?;
    let answer = json!({"upgrade_id": upgrade.upgrade_id, "status": upgrade.status});
    Ok((StatusCode::ACCEPTED, Json(answer)))
}

pub(crate) async fn one(State(app): State<App>, mut parts: Parts) -> Result<Json<Value>, Problem> {
    let given = path_params(&mut parts).await?.remove("id").unwrap_or_default();
    let unknown = || Problem::UpgradeNotFound { id: given.chars().take(64).collect() };
    let id: Uuid = given.parse().map_err(|_| unknown())?;
    let installed = app.installed_engines().clone();
    let read = move || match installed.upgrade_of(id)? {
        Some(upgrade) => installed.upgrade_log_tail(id).map(|log| Some(shown(&upgrade, log))),
        None => Ok(None),
    };
    let failed = |source| Problem::EngineFile { path: "an upgrade's record".to_owned(), source };
    blocking(move || read().map_err(failed)).await?.map(Json).ok_or_else(unknown)
}

fn shown(upgrade: &Upgrade, log: String) -> Value {
    json!({
        "upgrade_id": upgrade.upgrade_id,
        "status": upgrade.status,
        "created_at": upgrade.created_at,
        "started_at": upgrade.started_at,
        "finished_at": upgrade.finished_at,
        "results": upgrade.results,
        "log_tail": log,
    })
}

impl From<UpgradeRefused> for Problem {
    fn from(refused: UpgradeRefused) -> Self {
        match refused {
            UpgradeRefused::NotInstallable { .. } => Problem::invalid("/engine", refused.to_string()),
            UpgradeRefused::Busy { limit } => Problem::UpgradesBusy { limit },
            UpgradeRefused::Io(source) => Problem::EngineFile { path: "an upgrade's record".to_owned(), source },
        }
    }
}
