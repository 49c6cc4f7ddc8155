//! What each setting is for, in one line.

use serde_json::{Value, json};

use crate::domain::engine::Engine;
use crate::settings::keys::variable;
use crate::settings::reader::Described;

/// Settings as programs read them: key, value, source, variable, and what each is for.
pub(crate) fn listed(described: &[Described]) -> Vec<Value> {
    let row = |found: &Described| {
        json!({"key": found.key, "value": found.value, "source": found.source.to_string(),
            "variable": variable(&found.key), "about": about(&found.key)})
    };
    described.iter().map(row).collect()
}

/// What a setting is for.
pub(crate) fn about(key: &str) -> &'static str {
    let engine = key.strip_prefix("engines.").and_then(|rest| rest.split_once('.'));
    if let Some((_, setting)) = engine.filter(|(name, _)| name.parse::<Engine>().is_ok()) {
        return match setting {
            "command" => "the program to start, instead of the one that is found",
            "env_pass" => "variables of the environment that the engine may see, by name",
            _ => "",
        };
    }
    ABOUT.iter().find(|(name, _)| *name == key).map_or("", |(_, about)| about)
}

const ABOUT: &[(&str, &str)] = &[
    ("host", "address to listen on; others than loopback need a token, here or a named one"),
    ("port", "port to listen on; 0 takes any free one"),
    ("token", "secret that clients send as Authorization: Bearer"),
    ("allowed_hosts", "host names that requests may use"),
    ("allowed_origins", "origins such as https://app.example whose pages may use the API, with a token of their own"),
    ("session_hours", "hours after which a browser has to log in again"),
    ("max_failed_logins", "wrong tokens or passwords in a row before a client has to wait; 0 for any number"),
    (
        "ui_basic_auth_enabled",
        "ask for name and password for the user interface, and where a route can change the machine",
    ),
    ("ui_basic_auth_username", "the name"),
    ("ui_basic_auth_password", "the password"),
    ("heartbeat_seconds", "silence on an event stream before a heartbeat is sent"),
    ("drain_grace_seconds", "how long running engines may take to finish when the service ends"),
    ("max_connections", "open connections"),
    ("max_connections_per_address", "open connections of one address"),
    ("header_timeout_seconds", "how long the head of a request may take"),
    ("body_timeout_seconds", "how long a body may make no progress"),
    ("send_timeout_seconds", "how long a client may not read its answer"),
    ("data_dir", "folder for runs, the event store and logs"),
    ("skills_dir", "folder of the installed skills"),
    ("agents_dir", "folder of agents, whose skills are used as well"),
    ("configs_dir", "folder of the operator's configuration of engines"),
    ("agent_home", "home folder of the engines, with their logins"),
    ("backup_dir", "folder that backups are made in"),
    ("npm_prefix", "folder that engines are installed in"),
    ("store", "where the log of runs is kept: sled (in data_dir), or postgres://USER:PASSWORD@HOST/DATABASE"),
    ("seal_grace_seconds", "how long the events of a finished run stay in the store"),
    ("blobs", "where several services share files: a folder that each reaches, or s3://BUCKET/PREFIX"),
    ("s3_endpoint", "server of the bucket that blobs names, such as https://s3.example; Amazon's if left out"),
    ("s3_region", "region of the bucket; us-east-1 if left out and s3_endpoint is set"),
    (
        "s3_addressing",
        "where the bucket stands in URLs: path, virtual (before the host), or auto (path with s3_endpoint)",
    ),
    ("s3_access_key_id", "key for the bucket: its id"),
    ("s3_secret_access_key", "key for the bucket: its secret"),
    ("s3_session_token", "key for the bucket: its token, if it holds for a while only"),
    ("s3_credentials_file", "file with the key for the bucket under [default]; read for each request"),
    ("node_name", "name of this service among several on one store; the name of its host if left out"),
    ("lease_seconds", "how long a service of several that is not heard of keeps its runs"),
    ("work", "whether this service starts engines; off for one that only answers requests"),
    ("shared_files_grace_seconds", "how long a shared file that nothing needs stays"),
    (
        "cache_max_bytes",
        "bytes of run files on this disk that are shared as well; those that were not used for longest go first",
    ),
    ("scrub", "bytes a second that the background check of stored files reads; 0 switches it off"),
    ("scrub_pause_seconds", "pause before each check of all stored files"),
    ("max_running_jobs", "runs at the same time"),
    ("max_queued_jobs", "runs that may wait"),
    ("max_awaiting_upload", "runs that may wait for their upload"),
    ("max_running_per_engine", "runs of one engine at the same time; 0 for no limit of its own"),
    ("max_running_per_skill", "runs of one skill at the same time; 0 for no limit of its own"),
    ("fair_label", "label whose values share the queue fairly"),
    ("fair_tokens", "whether named tokens share the queue fairly, where no label does"),
    ("restart_queued", "what becomes of waiting runs when the service starts: fail or requeue"),
    ("repair", "whether an engine is asked again when its output is invalid"),
    ("sandbox", "whether runs are confined: auto (where the machine can), on (else nothing starts) or off"),
    (
        "control_groups",
        "whether the kernel bounds runs by control groups: auto (where it can limit memory and processes), on (wherever groups can be made) or off",
    ),
    ("sandbox_read", "files and folders that runs in a sandbox can read besides, where they are hidden otherwise"),
    ("sandbox_write", "folders that runs in a sandbox can write to besides their own"),
    (
        "egress_allow",
        "hosts that every run may reach, as name, *.name or name:port; also private ones and ports of this machine",
    ),
    ("python_packages", "whether the Python packages that skills declare are installed"),
    ("python_install_timeout_seconds", "how long the installation of a skill's Python packages may take"),
    ("python_environment_days", "days after which a clean-up removes installed Python packages that no run has used"),
    ("hard_timeout_seconds", "how long one attempt of a run may take"),
    ("stall_timeout_seconds", "how long an engine may write nothing; 0 for any time"),
    ("rate_limit_wait_seconds", "how long a model's service may ask to wait before the run ends"),
    ("exit_grace_seconds", "how long an engine may take to exit after its result"),
    ("kill_grace_seconds", "time between the polite and the forced end of an engine"),
    ("max_upload_bytes", "largest upload"),
    ("max_unpacked_bytes", "largest content of an upload"),
    ("max_entries", "most files in an upload"),
    ("temp_skill_package_max_bytes", "largest package of a temporary skill"),
    ("max_log_bytes", "most output of an engine that is kept, per stream"),
    ("min_free_bytes", "free space on the disk below which no work is taken"),
    ("limits.memory_bytes", "memory that a run may use"),
    ("limits.processes", "processes and threads that a run may have at once"),
    ("limits.cpu_seconds", "processor time that a run may use"),
    ("limits.file_bytes", "largest file that a run may write"),
    ("limits.disk_bytes", "disk space that the folders of a run may take; 16 KiB of it for each file"),
    ("limits.open_files", "files that a process of a run may have open"),
    ("log_level", "TRACE, DEBUG, INFO, WARN or ERROR"),
    ("log_file", "file for the service's own log"),
    ("log_max_bytes", "size at which the log file is set aside"),
    ("log_backup_count", "log files that are kept"),
    ("log_format", "how log lines are written: text or json"),
    ("access_log", "whether every request is written to access.log beside log_file"),
    ("keep_days", "days after which the service deletes runs that have ended; 0 keeps them"),
    ("keep_last", "newest ended runs that are never deleted; without keep_days, all others are; 0 for none"),
    ("keep_labels", "days for runs with a label, as name:value=DAYS or name:value=forever, instead of keep_days"),
    ("otlp_endpoint", "OpenTelemetry collector that traces and metrics are sent to, such as http://127.0.0.1:4318"),
    ("otlp_headers", "headers for the collector, as name=value,name=value"),
    ("otlp_service_name", "name of this service in traces and metrics"),
    ("otlp_interval_seconds", "pause between two sets of metrics that are sent to the collector"),
    ("e2e_client_port", "port of the example client"),
    ("e2e_client_backend_base_url", "service that the example client uses"),
    ("e2e_client_recordings_dir", "folder for what the example client records"),
    (
        "ui_legacy_api_mode",
        "what the old routes of the UI do: allow, warn (they answer, and tell their end) or gone (410)",
    ),
    ("ui_legacy_api_sunset", "when the old routes of the UI end"),
];

#[cfg(test)]
mod tests {
    use super::super::keys;
    use super::*;

    #[test]
    fn every_setting_says_what_it_is_for_and_nothing_else_does() {
        let keys = keys::all();
        let silent: Vec<&str> = keys.iter().map(|key| key.name.as_str()).filter(|key| about(key).is_empty()).collect();
        assert_eq!(silent, Vec::<&str>::new());
        let unknown: Vec<&str> =
            ABOUT.iter().map(|(name, _)| *name).filter(|name| keys.iter().all(|key| key.name != *name)).collect();
        assert_eq!(unknown, Vec::<&str>::new());
    }
}
