//! Reads every setting with its default and range, and checks that they fit together.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};

use std::path::PathBuf;

use super::blobs_place;
use super::layers::{self, Problem};
use super::reader::{Described, Reader};
use super::url::names_place;
use super::{
    Connections, E2eClient, EngineSettings, Groups, Http, LegacyMode, LegacyUiApi, Limits, Log, LogFormat, LogLevel,
    Otlp, Paths, Python, RestartQueued, Runs, Sandbox, Scrub, Settings, Several, Store, StoreKind, Times, UiLogin,
};
use crate::bounded::host;
use crate::domain::engine::Engine;
use crate::domain::resources::ResourceLimits;
use crate::domain::retention::{LabelRule, Retention};
use crate::settings::Secret;

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const TIB: u64 = 1 << 40;
const HOUR: u64 = 3600;
const WEEK: u64 = 7 * 24 * HOUR;
/// A run waits most of its time: an agent for its model, a script for the disk. With trivial scripts on two
/// cores, sixteen slots ended half as many runs again in the same time as two.
const SLOTS_PER_CORE: usize = 4;
const E2E_CLIENT_PORT: u16 = 8011;
const NODE_NAME_MAX: usize = 100;

impl Settings {
    /// Reads the configuration: the file's path and text, where there is one; the environment; flags by the names of
    /// their settings; the machine's number of cores. All problems are reported, not only the first.
    pub fn load(
        file: Option<(&str, &str)>,
        env: &BTreeMap<String, String>,
        flags: &[(String, String)],
        cores: usize,
    ) -> Result<Self, Vec<Problem>> {
        let mut problems = Vec::new();
        let layers = layers::lay(file, env, flags, &mut problems);
        let from = &mut Reader::new(layers, problems);
        let paths = Paths { config_file: file.map(|(path, _)| path.into()), ..paths(from) };
        let settings = Self {
            http: http(from),
            store: store(from),
            several: several(from),
            scrub: scrub(from),
            runs: runs(from, cores),
            python: python(from),
            times: times(from),
            limits: limits(from),
            resources: resources(from),
            engines: Engine::AGENTS.iter().map(|name| (*name, engine(from, *name))).collect(),
            log: log(from, &paths),
            retention: retention(from),
            otlp: otlp(from),
            e2e_client: e2e_client(from),
            legacy_ui_api: legacy_ui_api(from),
            paths,
            described: from.listing(),
        };
        if from.problems.is_empty() { Ok(settings) } else { Err(std::mem::take(&mut from.problems)) }
    }

    /// Every setting with its value and source, in a fixed order; secrets are masked.
    pub fn describe(&self) -> &[Described] {
        &self.described
    }
}

fn paths(from: &mut Reader) -> Paths {
    let data_dir = from.path("data_dir", "./data");
    let skills_dir = from.path("skills_dir", "./skills");
    Paths {
        // In a repository that holds both, these folders are siblings.
        agents_dir: from.path("agents_dir", skills_dir.with_file_name("agents")),
        config_file: None,
        configs_dir: from.path("configs_dir", skills_dir.with_file_name("configs")),
        skills_dir,
        agent_home: from.path("agent_home", data_dir.join("agent-home")),
        backup_dir: from.path("backup_dir", data_dir.with_file_name("backups")),
        npm_prefix: from.path("npm_prefix", data_dir.join("npm")),
        data_dir,
    }
}

fn http(from: &mut Reader) -> Http {
    let host = from.parsed("host", IpAddr::V4(Ipv4Addr::LOCALHOST), |text| match text {
        "localhost" => Ok(IpAddr::V4(Ipv4Addr::LOCALHOST)),
        _ => {
            let bare = text.trim_start_matches('[').trim_end_matches(']');
            bare.parse().map_err(|_| format!("must be an IP address or localhost, not {text:?}"))
        }
    });
    let token = from.secret(
        "token",
        |character| character.is_ascii_graphic(),
        "must be visible ASCII characters without spaces, since a header carries it",
    );
    Http {
        host,
        port: from.whole("port", 8000, 0..=u16::MAX),
        token,
        allowed_hosts: from.list("allowed_hosts", usual_hosts(host), |name| {
            !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._:[]*".contains(&byte))
        }),
        allowed_origins: from.list("allowed_origins", Vec::new(), is_origin),
        session_hours: from.whole("session_hours", 7 * 24, 1..=365 * 24),
        max_failed_logins: from.whole("max_failed_logins", 10, 0..=1_000_000),
        ui_login: ui_login(from),
        heartbeat_seconds: from.whole("heartbeat_seconds", 15, 1..=HOUR),
        drain_grace_seconds: from.whole("drain_grace_seconds", 30, 0..=HOUR),
        connections: connections(from),
    }
}

/// Whether a text is an origin as browsers write it: `http` or `https`, a name or address, perhaps a port, and nothing behind it.
fn is_origin(text: &str) -> bool {
    let Some((scheme, authority)) = text.split_once("://") else { return false };
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:[]".contains(&byte);
    ["http", "https"].contains(&scheme) && !authority.is_empty() && authority.bytes().all(is_part)
}

fn connections(from: &mut Reader) -> Connections {
    Connections {
        most: from.whole("max_connections", 1024, 1..=1_000_000),
        most_per_address: from.whole("max_connections_per_address", 256, 1..=1_000_000),
        header_timeout_seconds: from.whole("header_timeout_seconds", 30, 1..=HOUR),
        body_timeout_seconds: from.whole("body_timeout_seconds", 30, 1..=HOUR),
        send_timeout_seconds: from.whole("send_timeout_seconds", 60, 1..=HOUR),
    }
}

fn usual_hosts(bound: IpAddr) -> Vec<String> {
    let bound = match bound {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => format!("[{address}]"),
    };
    let mut hosts = vec!["localhost".to_owned(), "127.0.0.1".to_owned(), "[::1]".to_owned()];
    if !hosts.contains(&bound) {
        hosts.push(bound);
    }
    hosts
}

fn ui_login(from: &mut Reader) -> Option<UiLogin> {
    let enabled = from.switch("ui_basic_auth_enabled", false);
    let username = from.text("ui_basic_auth_username");
    let password = from.secret(
        "ui_basic_auth_password",
        |character| !character.is_control(),
        "must not be empty nor hold control characters",
    );
    if username.as_ref().is_some_and(|name| name.contains(':')) {
        from.object("ui_basic_auth_username", "must not contain `:`, which ends the name in the header".to_owned());
    }
    match (enabled, username, password) {
        (false, _, _) => None,
        (true, Some(username), Some(password)) => Some(UiLogin { username, password }),
        (true, _, _) => {
            let message = "needs ui_basic_auth_username and ui_basic_auth_password".to_owned();
            from.object("ui_basic_auth_enabled", message);
            None
        }
    }
}

fn store(from: &mut Reader) -> Store {
    Store {
        kind: from.parsed("store", StoreKind::Sled, StoreKind::parse),
        seal_grace_seconds: from.whole("seal_grace_seconds", 60, 0..=WEEK),
    }
}

fn several(from: &mut Reader) -> Several {
    let is_part = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
    Several {
        blobs: blobs_place::read(from),
        node_name: from.optional("node_name", |text| {
            let is_name = !text.is_empty() && text.len() <= NODE_NAME_MAX && text.chars().all(is_part);
            is_name.then(|| Some(text.to_owned())).ok_or_else(|| {
                format!("must be 1 to {NODE_NAME_MAX} letters, digits, dots, dashes or underscores, not {text:?}")
            })
        }),
        lease_seconds: from.whole("lease_seconds", 15, 5..=300),
        work: from.switch("work", true),
        shared_files_grace_seconds: from.whole("shared_files_grace_seconds", 24 * HOUR, 0..=WEEK * 52),
        cache_max_bytes: from.bytes("cache_max_bytes", 20 * GIB, 0..=TIB * 1024),
    }
}

fn scrub(from: &mut Reader) -> Scrub {
    Scrub {
        bytes_per_second: from.whole("scrub", 4 * MIB, 0..=TIB),
        pause_seconds: from.whole("scrub_pause_seconds", HOUR, 0..=WEEK),
    }
}

fn runs(from: &mut Reader, cores: usize) -> Runs {
    let restart = [("fail", RestartQueued::Fail), ("requeue", RestartQueued::Requeue)];
    let absolute = |text: &str| text.starts_with('/') && !text.contains('\0');
    let paths = |key: &str, from: &mut Reader| {
        from.list(key, Vec::new(), absolute).into_iter().map(PathBuf::from).collect::<Vec<_>>()
    };
    let groups = [("auto", Groups::Auto), ("on", Groups::On), ("off", Groups::Off)];
    let sandbox = [("auto", Sandbox::Auto), ("on", Sandbox::On), ("off", Sandbox::Off)];
    Runs {
        max_running_jobs: from.whole("max_running_jobs", SLOTS_PER_CORE * cores.max(1), 1..=4096),
        max_queued_jobs: from.whole("max_queued_jobs", 1000, 1..=1_000_000),
        max_awaiting_upload: from.whole("max_awaiting_upload", 10_000, 1..=1_000_000),
        max_running_per_engine: from.whole("max_running_per_engine", 0, 0..=4096),
        max_running_per_skill: from.whole("max_running_per_skill", 0, 0..=4096),
        fair_label: from.text("fair_label"),
        fair_tokens: from.switch("fair_tokens", true),
        restart_queued: from.choice("restart_queued", RestartQueued::Fail, &restart),
        repair: from.switch("repair", false),
        sandbox: from.choice("sandbox", Sandbox::Auto, &sandbox),
        control_groups: from.choice("control_groups", Groups::Auto, &groups),
        sandbox_read: paths("sandbox_read", from),
        sandbox_write: paths("sandbox_write", from),
        egress_allow: from.list("egress_allow", Vec::new(), |text| host::read(text).is_some()),
    }
}

fn python(from: &mut Reader) -> Python {
    Python {
        install: from.switch("python_packages", true),
        timeout_seconds: from.whole("python_install_timeout_seconds", 900, 1..=WEEK),
        keep_days: from.whole("python_environment_days", 30, 0..=3650),
    }
}

fn times(from: &mut Reader) -> Times {
    Times {
        hard_timeout_seconds: from.whole("hard_timeout_seconds", 1200, 1..=WEEK),
        stall_timeout_seconds: from.whole("stall_timeout_seconds", 600, 0..=WEEK),
        rate_limit_wait_seconds: from.whole("rate_limit_wait_seconds", 120, 0..=WEEK),
        exit_grace_seconds: from.whole("exit_grace_seconds", 10, 0..=HOUR),
        kill_grace_seconds: from.whole("kill_grace_seconds", 5, 0..=HOUR),
    }
}

fn limits(from: &mut Reader) -> Limits {
    Limits {
        max_upload_bytes: from.bytes("max_upload_bytes", 64 * MIB, 1..=TIB),
        max_unpacked_bytes: from.bytes("max_unpacked_bytes", 512 * MIB, 1..=TIB),
        max_entries: from.whole("max_entries", 10_000, 1..=1_000_000),
        temp_skill_package_max_bytes: from.bytes("temp_skill_package_max_bytes", 20_000_000, 1..=TIB),
        max_log_bytes: from.bytes("max_log_bytes", 256 * MIB, 1..=TIB),
        min_free_bytes: from.bytes("min_free_bytes", 128 * MIB, 0..=TIB),
    }
}

/// What no honest skill meets, and few machines have to spare.
fn resources(from: &mut Reader) -> ResourceLimits {
    ResourceLimits {
        memory_bytes: from.bytes("limits.memory_bytes", 6 * GIB, MIB..=TIB),
        processes: from.whole("limits.processes", 4096, 1..=4_000_000),
        cpu_seconds: from.whole("limits.cpu_seconds", 24 * HOUR, 1..=WEEK * 1000),
        file_bytes: from.bytes("limits.file_bytes", 8 * GIB, MIB..=TIB),
        disk_bytes: from.bytes("limits.disk_bytes", 16 * GIB, MIB..=TIB),
        open_files: from.whole("limits.open_files", 65_536, 16..=1_000_000),
    }
}

fn engine(from: &mut Reader, name: Engine) -> EngineSettings {
    let variable =
        |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    EngineSettings {
        command: from.text(&format!("engines.{name}.command")),
        env_pass: from.list(&format!("engines.{name}.env_pass"), Vec::new(), variable),
    }
}

fn log(from: &mut Reader, paths: &Paths) -> Log {
    let level = |text: &str| match text.to_uppercase().as_str() {
        "TRACE" => Ok(LogLevel::Trace),
        "DEBUG" => Ok(LogLevel::Debug),
        "INFO" => Ok(LogLevel::Info),
        "WARN" | "WARNING" => Ok(LogLevel::Warn),
        "ERROR" | "CRITICAL" => Ok(LogLevel::Error),
        _ => Err(format!("must be TRACE, DEBUG, INFO, WARN or ERROR, not {text:?}")),
    };
    let file = from.path("log_file", paths.data_dir.join("logs").join("skill-runner.log"));
    let access = from.switch("access_log", true).then(|| file.with_file_name("access.log"));
    Log {
        level: from.parsed("log_level", LogLevel::Info, level),
        file,
        access,
        format: from.choice("log_format", LogFormat::Text, &[("text", LogFormat::Text), ("json", LogFormat::Json)]),
        max_bytes: from.bytes("log_max_bytes", 5_000_000, 1024..=TIB),
        backup_count: from.whole("log_backup_count", 5, 0..=1000),
    }
}

fn retention(from: &mut Reader) -> Retention {
    let keep_days = from.whole("keep_days", 0, 0..=36_500);
    let keep_last = from.whole("keep_last", 0, 0..=100_000_000);
    let rules = from.list("keep_labels", Vec::new(), |text| LabelRule::parse(text).is_some());
    let by_label = rules.iter().filter_map(|text| LabelRule::parse(text)).collect();
    Retention { keep_days, keep_last, by_label }
}

fn otlp(from: &mut Reader) -> Option<Otlp> {
    let endpoint = from.optional("otlp_endpoint", |text| match text.trim_end_matches('/') {
        "" => Ok(None),
        url if url.contains('@') => Err("must not hold a password: put it into otlp_headers".to_owned()),
        url if ["http://", "https://"].iter().any(|scheme| url.strip_prefix(scheme).is_some_and(names_place)) => {
            Ok(Some(url.to_owned()))
        }
        _ => Err(format!("must be a URL such as http://127.0.0.1:4318, not {text:?}")),
    });
    let headers = from.secret(
        "otlp_headers",
        |character| character == ' ' || character.is_ascii_graphic(),
        "must be name=value pairs, separated by commas",
    );
    let pairs = headers.as_ref().map(Secret::pairs);
    if pairs.as_ref().is_some_and(Option::is_none) {
        from.object("otlp_headers", "must be name=value pairs, separated by commas".to_owned());
    }
    let service_name = from.parsed("otlp_service_name", "skill-runner".to_owned(), |text| {
        if text.is_empty() { Err("must not be empty".to_owned()) } else { Ok(text.to_owned()) }
    });
    let interval_seconds = from.whole("otlp_interval_seconds", 60, 1..=HOUR);
    let headers = pairs.flatten().unwrap_or_default();
    endpoint.map(|endpoint| Otlp { endpoint, headers, service_name, interval_seconds })
}

fn e2e_client(from: &mut Reader) -> E2eClient {
    E2eClient {
        // The one setting whose wrong value is not an error: the usual port is used instead.
        port: from.parsed("e2e_client_port", E2E_CLIENT_PORT, |text| {
            Ok(text.parse().ok().filter(|port| *port != 0).unwrap_or(E2E_CLIENT_PORT))
        }),
        backend_base_url: from.parsed("e2e_client_backend_base_url", "http://127.0.0.1:8000".to_owned(), |text| {
            if text.starts_with("http://") || text.starts_with("https://") {
                Ok(text.trim_end_matches('/').to_owned())
            } else {
                Err(format!("must begin with http:// or https://, not {text:?}"))
            }
        }),
        recordings_dir: from.path("e2e_client_recordings_dir", "replay/recordings"),
    }
}

fn legacy_ui_api(from: &mut Reader) -> LegacyUiApi {
    let modes = [("allow", LegacyMode::Allow), ("warn", LegacyMode::Warn), ("gone", LegacyMode::Gone)];
    LegacyUiApi {
        mode: from.choice("ui_legacy_api_mode", LegacyMode::Warn, &modes),
        sunset: from.parsed("ui_legacy_api_sunset", "2026-06-30".to_owned(), |text| {
            let day: Result<jiff::civil::Date, _> = text.parse();
            day.map(|day| day.to_string()).map_err(|_| format!("must be a day such as 2026-06-30, not {text:?}"))
        }),
    }
}
