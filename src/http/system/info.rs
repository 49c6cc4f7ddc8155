//! `GET /v1/system`: version, load, limits, disk.

use axum::Json;
use axum::extract::State;
use serde_json::{Value, json};

use crate::files::free_bytes;
use crate::http::answer::problem::Problem;
use crate::http::state::app::App;
use crate::http::state::task::blocking;
use crate::orchestrator::Error;

pub(crate) async fn system(State(app): State<App>) -> Result<Json<Value>, Problem> {
    let orchestrator = app.orchestrator();
    let settings = orchestrator.settings();
    let sizes = orchestrator.sizes();
    let data = orchestrator.layout().data().to_owned();
    let folder = data.clone();
    let free = blocking(move || free_bytes(&folder).map_err(Error::from)).await?;
    let environments = orchestrator.environments();
    let environments = blocking(move || Ok::<_, Error>(environments.totals())).await?;
    Ok(Json(json!({
        "version": env!("CARGO_PKG_VERSION"),
        "protocol_version": crate::fcmp::PROTOCOL_VERSION,
        "queue": {
            "queued": sizes.queued,
            "running": sizes.running,
            "max_queued_jobs": settings.runs.max_queued_jobs,
            "max_running_jobs": settings.runs.max_running_jobs,
            "max_running_per_engine": settings.runs.max_running_per_engine,
            "max_running_per_skill": settings.runs.max_running_per_skill,
            "fair_label": settings.runs.fair_label,
        },
        "limits": {
            "run": settings.resources,
            "max_upload_bytes": settings.limits.max_upload_bytes,
            "max_unpacked_bytes": settings.limits.max_unpacked_bytes,
            "max_entries": settings.limits.max_entries,
            "max_log_bytes": settings.limits.max_log_bytes,
            "min_free_bytes": settings.limits.min_free_bytes,
            "hard_timeout_seconds": settings.times.hard_timeout_seconds,
            "stall_timeout_seconds": settings.times.stall_timeout_seconds,
        },
        "data_dir": {"path": data, "free_bytes": free},
        "python_environments": environments,
        "store": {"trouble": orchestrator.store_trouble()},
        "integrity": orchestrator.integrity(),
    })))
}
