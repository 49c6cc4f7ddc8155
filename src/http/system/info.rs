//! `GET /v1/system`: version, load, limits, disk, what is kept, where telemetry goes.

use axum::Json;
use axum::extract::State;
use serde_json::{Map, Value, json};

use crate::domain::time::Timestamp;
use crate::files::{disk_bytes, free_bytes, own_process};
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
    let look = move || Ok::<_, Error>((free_bytes(&folder)?, disk_bytes(&folder)?, own_process()));
    let (free, size, process) = blocking(look).await?;
    let used = orchestrator.data_use();
    let folders: Option<Map<String, Value>> = used
        .as_ref()
        .map(|(found, _)| found.folders.iter().map(|(name, bytes)| (name.clone(), json!(bytes))).collect());
    let environments = orchestrator.environments();
    let environments = blocking(move || Ok::<_, Error>(environments.totals())).await?;
    let mut told = json!({
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
            "fair_tokens": settings.runs.fair_tokens,
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
        "data_dir": {
            "path": data,
            "free_bytes": free,
            "size_bytes": size,
            "used_bytes": used.as_ref().map(|(found, _)| found.folders.iter().map(|(_, bytes)| bytes).sum::<u64>()),
            "folders": folders,
            "measured_at": used.map(|(_, at)| at),
        },
        "python_environments": environments,
        "store": {"kind": settings.store.kind.to_string(), "bytes": orchestrator.store_bytes(), "trouble": orchestrator.store_trouble()},
        "process": {
            "pid": std::process::id(),
            "started_at": started_at(process.started_at_seconds),
            "resident_bytes": process.resident_bytes,
            "open_descriptors": process.open_descriptors,
            "threads": process.threads,
        },
        "sse_readers": orchestrator.metrics().sse_readers(),
        "retention": {
            "keep_days": settings.retention.keep_days,
            "keep_last": settings.retention.keep_last,
            "keep_labels": settings.retention.by_label.iter().map(ToString::to_string).collect::<Vec<_>>(),
            "summary": settings.retention.in_words(),
        },
        "telemetry": {
            "otlp_endpoint": settings.otlp.as_ref().map(|otlp| &otlp.endpoint),
        },
        "integrity": orchestrator.integrity(),
    });
    if let (Some(several), Some(told)) = (orchestrator.among_several(), told.as_object_mut()) {
        told.insert("several".to_owned(), json!(several));
    }
    Ok(Json(told))
}

#[expect(clippy::cast_possible_truncation, reason = "seconds of this century")]
fn started_at(seconds: f64) -> Timestamp {
    Timestamp::from_micros((seconds * 1e6) as i64)
}
