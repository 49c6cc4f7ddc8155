//! The names of all settings: the one list that the file, the environment and the flags are read against.

use crate::domain::engine::Engine;
use crate::domain::similar::most_like;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Key {
    /// In the file and as a flag.
    pub(crate) name: String,
    /// In the environment, the name that every setting has first.
    pub(crate) variables: Vec<String>,
}

/// Settings of one value each, with the variable they have besides `SKILL_RUNNER_<KEY>`.
const PLAIN: &[(&str, Option<&str>)] = &[
    ("host", None),
    ("port", None),
    ("token", None),
    ("allowed_hosts", None),
    ("allowed_origins", None),
    ("session_hours", None),
    ("max_failed_logins", None),
    ("ui_basic_auth_enabled", Some("UI_BASIC_AUTH_ENABLED")),
    ("ui_basic_auth_username", Some("UI_BASIC_AUTH_USERNAME")),
    ("ui_basic_auth_password", Some("UI_BASIC_AUTH_PASSWORD")),
    ("heartbeat_seconds", None),
    ("drain_grace_seconds", None),
    ("max_connections", None),
    ("max_connections_per_address", None),
    ("header_timeout_seconds", None),
    ("body_timeout_seconds", None),
    ("send_timeout_seconds", None),
    ("data_dir", None),
    ("skills_dir", None),
    ("agents_dir", None),
    ("configs_dir", None),
    ("agent_home", None),
    ("npm_prefix", None),
    ("backup_dir", None),
    ("store", None),
    ("seal_grace_seconds", None),
    ("blobs", None),
    ("s3_endpoint", Some("AWS_ENDPOINT_URL")),
    ("s3_region", Some("AWS_REGION")),
    ("s3_addressing", None),
    ("s3_access_key_id", Some("AWS_ACCESS_KEY_ID")),
    ("s3_secret_access_key", Some("AWS_SECRET_ACCESS_KEY")),
    ("s3_session_token", Some("AWS_SESSION_TOKEN")),
    ("s3_credentials_file", None),
    ("node_name", None),
    ("lease_seconds", None),
    ("work", None),
    ("shared_files_grace_seconds", None),
    ("cache_max_bytes", None),
    ("scrub", None),
    ("scrub_pause_seconds", None),
    ("max_running_jobs", None),
    ("max_queued_jobs", None),
    ("max_awaiting_upload", None),
    ("max_running_per_engine", None),
    ("max_running_per_skill", None),
    ("fair_label", None),
    ("fair_tokens", None),
    ("restart_queued", None),
    ("repair", None),
    ("sandbox", None),
    ("control_groups", None),
    ("sandbox_read", None),
    ("sandbox_write", None),
    ("egress_allow", None),
    ("python_packages", None),
    ("python_install_timeout_seconds", None),
    ("python_environment_days", None),
    ("hard_timeout_seconds", Some("SKILL_RUNNER_ENGINE_HARD_TIMEOUT_SECONDS")),
    ("stall_timeout_seconds", None),
    ("rate_limit_wait_seconds", None),
    ("exit_grace_seconds", None),
    ("kill_grace_seconds", None),
    ("max_upload_bytes", None),
    ("max_unpacked_bytes", None),
    ("max_entries", None),
    ("temp_skill_package_max_bytes", Some("TEMP_SKILL_PACKAGE_MAX_BYTES")),
    ("max_log_bytes", None),
    ("min_free_bytes", None),
    ("limits.memory_bytes", None),
    ("limits.processes", None),
    ("limits.cpu_seconds", None),
    ("limits.file_bytes", None),
    ("limits.disk_bytes", None),
    ("limits.open_files", None),
    ("log_level", Some("LOG_LEVEL")),
    ("log_file", Some("LOG_FILE")),
    ("log_max_bytes", Some("LOG_MAX_BYTES")),
    ("log_backup_count", Some("LOG_BACKUP_COUNT")),
    ("log_format", Some("LOG_FORMAT")),
    ("access_log", None),
    ("keep_days", None),
    ("keep_last", None),
    ("keep_labels", None),
    ("otlp_endpoint", Some("OTEL_EXPORTER_OTLP_ENDPOINT")),
    ("otlp_headers", Some("OTEL_EXPORTER_OTLP_HEADERS")),
    ("otlp_service_name", Some("OTEL_SERVICE_NAME")),
    ("otlp_interval_seconds", None),
    ("e2e_client_port", None),
    ("e2e_client_backend_base_url", None),
    ("e2e_client_recordings_dir", None),
    ("ui_legacy_api_mode", None),
    ("ui_legacy_api_sunset", None),
];

/// Every setting; each agent CLI has its own below `engines.<name>`.
pub(crate) fn all() -> Vec<Key> {
    let plain = PLAIN.iter().map(|(name, extra)| key(name, extra.map(str::to_owned)));
    let engines = Engine::AGENTS.iter().flat_map(|engine| {
        let binary = format!("SKILL_RUNNER_{}_BIN", engine.as_str().to_uppercase());
        [key(&format!("engines.{engine}.command"), Some(binary)), key(&format!("engines.{engine}.env_pass"), None)]
    });
    plain.chain(engines).collect()
}

fn key(name: &str, extra_variable: Option<String>) -> Key {
    let usual = format!("SKILL_RUNNER_{}", name.to_uppercase().replace('.', "_"));
    Key { name: name.to_owned(), variables: std::iter::once(usual).chain(extra_variable).collect() }
}

/// Whether other programs read this variable as well, so that it may be meant for them: anything else that sets the setting wins.
pub(super) fn is_of_others(variable: &str) -> bool {
    variable.starts_with("AWS_")
}

/// The variable of the environment that sets a setting.
pub(crate) fn variable(name: &str) -> String {
    all().into_iter().find(|key| key.name == name).and_then(|key| key.variables.into_iter().next()).unwrap_or_default()
}

/// The setting whose name is most like a name that no setting has, if one is.
pub(crate) fn nearest(name: &str) -> Option<String> {
    most_like(name, all().into_iter().map(|key| key.name))
}
