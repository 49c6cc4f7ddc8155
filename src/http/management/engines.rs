//! `GET /v1/management/engines`: the engines with the number of their models; one of them with all of them and its last upgrade.

use axum::Json;
use axum::extract::State;
use serde_json::{Map, Value, json};

use crate::http::answer::problem::Problem;
use crate::http::engines::status::{AnyEngineInPath, with_isolation};
use crate::http::state::app::App;
use crate::http::state::task::blocking;
use crate::installed_engines::{Models, Status, Upgrade, UpgradeStatus};

pub(crate) async fn all(State(app): State<App>) -> Result<Json<Value>, Problem> {
    let installed = app.installed_engines().clone();
    let engines = blocking(move || {
        let models_of = |status: &Status| crate::engine::adapter_named(status.engine.as_str());
        let statuses = installed.statuses().into_iter().map(|status| {
            let models = models_of(&status).map_or_else(Models::of_scripts, |adapter| installed.models(adapter));
            (status, models)
        });
        Ok::<_, Problem>(statuses.collect::<Vec<_>>())
    })
    .await?;
    let engines: Vec<Value> = engines.iter().map(|(status, models)| shown(&app, status, models).into()).collect();
    Ok(Json(json!({"engines": engines})))
}

pub(crate) async fn one(
    State(app): State<App>,
    AnyEngineInPath(adapter): AnyEngineInPath,
) -> Result<Json<Value>, Problem> {
    let Some(adapter) = adapter else {
        return Ok(Json(whole(&app, &Status::of_scripts(), &Models::of_scripts(), None)));
    };
    let installed = app.installed_engines().clone();
    let failed = |source| Problem::EngineFile { path: "the records of upgrades".to_owned(), source };
    let (status, models, upgrade) = blocking(move || {
        let upgrade = installed.last_upgrade(adapter).map_err(failed)?;
        Ok::<_, Problem>((installed.status(adapter), installed.models(adapter), upgrade))
    })
    .await?;
    Ok(Json(whole(&app, &status, &models, upgrade.as_ref())))
}

/// What `GET /v1/engines` tells of an engine, and how many models it has.
fn shown(app: &App, status: &Status, models: &Models) -> Map<String, Value> {
    let Value::Object(mut answer) = with_isolation(app, status) else { return Map::new() };
    let isolation = app.orchestrator().isolation(crate::engine::adapter(status.engine));
    answer.insert("cli_version".to_owned(), json!(status.cli_version_detected));
    answer.insert("sandbox_status".to_owned(), json!(isolation.status()));
    answer.insert("models_count".to_owned(), json!(models.models.len()));
    answer
}

/// The same with its models, its last upgrade, and what last went wrong with it.
fn whole(app: &App, status: &Status, models: &Models, upgrade: Option<&Upgrade>) -> Value {
    let mut answer = shown(app, status, models);
    let of_engine = upgrade.and_then(|upgrade| Some((upgrade, upgrade.results.get(status.engine.as_str())?)));
    let upgraded = of_engine.map(|(upgrade, result)| {
        json!({
            "upgrade_id": upgrade.upgrade_id,
            "status": result.status,
            "created_at": upgrade.created_at,
            "finished_at": upgrade.finished_at,
            "package": result.package,
            "message": result.message,
        })
    });
    let error = |source: &str, message: &str| json!({"source": source, "message": message});
    let failed = of_engine.filter(|(_, result)| result.status == UpgradeStatus::Failed);
    let last_error = match (&status.problem, failed) {
        (Some(problem), _) => error("program", problem),
        (None, Some((_, result))) => {
            error("upgrade", result.message.as_deref().unwrap_or("it failed without a message"))
        }
        (None, None) => Value::Null,
    };
    answer.insert("models".to_owned(), json!(models));
    answer.insert("upgrade_status".to_owned(), json!(upgraded));
    answer.insert("last_error".to_owned(), last_error);
    answer.into()
}
