//! Which files a run waits for, in words.

use serde_json::Value;

use crate::cli::terminal::look::one_line;

/// Longest list of names.
const VALUE_MAX: usize = 500;

/// Which files a run waits for, if it does.
pub(crate) fn awaited(job: &Value) -> Option<String> {
    if job["awaiting_upload"] != true {
        return None;
    }
    let names: Vec<&str> = job["awaiting_files"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let run = job["run_id"].as_str().unwrap_or_default();
    let what = if names.is_empty() { "its upload".to_owned() } else { format!("its files: {}", names.join(", ")) };
    Some(format!("waits for {}; send them to the service with POST /v1/jobs/{run}/upload", one_line(&what, VALUE_MAX)))
}
