//! Typed settings: defaults, then file, then environment, then flags, each value with its source.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

mod about;
mod blobs_place;
mod keys;
mod layers;
mod load;
mod reader;
mod s3;
mod store_place;
mod url;

pub(crate) use about::{about, listed};
pub use blobs_place::BlobsPlace;
pub(crate) use keys::variable;
pub(crate) use layers::Problem;
pub use layers::Source;
pub use reader::Described;
pub(crate) use reader::Secret;
pub use s3::{Addressing, Bucket, S3Keys, S3Place};
pub(crate) use store_place::StoreKind;

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;

use crate::domain::engine::Engine;
use crate::domain::resources::ResourceLimits;
use crate::domain::retention::Retention;

/// Everything a service or a command can be told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    pub http: Http,
    pub paths: Paths,
    /// Where the log is kept.
    pub(crate) store: Store,
    /// What a service needs to be one of several.
    pub several: Several,
    /// The check of stored files in the background.
    pub(crate) scrub: Scrub,
    /// How runs are admitted and treated.
    pub runs: Runs,
    /// The Python packages of skills.
    pub(crate) python: Python,
    /// How long engines may take.
    pub times: Times,
    /// How much of everything.
    pub limits: Limits,
    /// What a run may use of the machine, at most and if its skill asks for nothing else.
    pub resources: ResourceLimits,
    /// The agent CLIs; each has an entry.
    pub engines: BTreeMap<Engine, EngineSettings>,
    /// The service's own log.
    pub log: Log,
    /// Which ended runs are kept.
    pub(crate) retention: Retention,
    /// Where traces and metrics are sent.
    pub(crate) otlp: Option<Otlp>,
    pub e2e_client: E2eClient,
    /// Routes of the former user interface.
    pub legacy_ui_api: LegacyUiApi,
    described: Vec<Described>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Http {
    pub(crate) host: IpAddr,
    /// Port to bind; 0 is any free one.
    pub port: u16,
    /// The bearer token, where one is asked for.
    pub token: Option<Secret>,
    /// Values of `Host` that are answered.
    pub allowed_hosts: Vec<String>,
    /// Origins whose pages may use the API.
    pub(crate) allowed_origins: Vec<String>,
    /// How long a browser stays logged in.
    pub(crate) session_hours: u64,
    /// Wrong tokens or passwords in a row before a client has to wait; 0 is no limit.
    pub(crate) max_failed_logins: u32,
    /// Who may use the user interface, where that is restricted.
    pub ui_login: Option<UiLogin>,
    /// Silence on an event stream before a heartbeat.
    pub heartbeat_seconds: u64,
    /// How long a stop waits for running engines.
    pub(crate) drain_grace_seconds: u64,
    pub(crate) connections: Connections,
}

/// How many connections there may be, and how long each may take for its part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Connections {
    pub(crate) most: usize,
    /// Of one address; the machine's own addresses have no limit of their own.
    pub(crate) most_per_address: usize,
    /// From the last answer, or the connection's begin, to the end of the next request's head.
    pub(crate) header_timeout_seconds: u64,
    /// The time in which the next part of a request's body must come.
    pub(crate) body_timeout_seconds: u64,
    /// How long a client may take nothing of an answer that is being sent.
    pub(crate) send_timeout_seconds: u64,
}

/// Credentials for the user interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UiLogin {
    pub username: String,
    pub password: Secret,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Paths {
    /// All that is written.
    pub data_dir: PathBuf,
    pub skills_dir: PathBuf,
    /// Agents' folders, whose skills can be run as they are.
    pub agents_dir: PathBuf,
    /// The file that these settings were read from, if there is one.
    pub(crate) config_file: Option<PathBuf>,
    /// The operator's configuration of engines.
    pub(crate) configs_dir: PathBuf,
    /// The home folder engines see.
    pub agent_home: PathBuf,
    /// Where backups are made.
    pub(crate) backup_dir: PathBuf,
    /// Where managed engines are installed.
    pub(crate) npm_prefix: PathBuf,
}

/// Where the log is kept, and how long a finished run's events stay in the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Store {
    pub(crate) kind: StoreKind,
    /// Seconds after which a finished run's events leave the store for its folder.
    pub(crate) seal_grace_seconds: u64,
}

/// A service that is one of several on the same store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Several {
    /// Where they share files.
    pub blobs: Option<BlobsPlace>,
    /// What this one is called; the name of its host if left out.
    pub node_name: Option<String>,
    /// How long one that is not heard of keeps its runs.
    pub lease_seconds: u64,
    /// Whether this one starts engines.
    pub work: bool,
    /// How long a shared file that nothing needs stays.
    pub shared_files_grace_seconds: u64,
    /// Most bytes of run files on this disk that are shared as well.
    pub cache_max_bytes: u64,
}

/// How stored files are checked in the background.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scrub {
    /// What is read; 0 switches it off.
    pub(crate) bytes_per_second: u64,
    /// From the service's start, and from the end of one check of everything, to the begin of the next.
    pub(crate) pause_seconds: u64,
}

/// How runs are admitted and treated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Runs {
    /// Engines at work at the same time.
    pub max_running_jobs: usize,
    /// Runs that may wait for one.
    pub(crate) max_queued_jobs: usize,
    /// Runs that may wait for their upload.
    pub(crate) max_awaiting_upload: usize,
    /// Engines of one kind at work at the same time; 0 is no limit of its own.
    pub(crate) max_running_per_engine: usize,
    /// The same for runs of one skill.
    pub(crate) max_running_per_skill: usize,
    /// The label whose values share the queue fairly.
    pub(crate) fair_label: Option<String>,
    /// Whether named tokens do, where no label does.
    pub(crate) fair_tokens: bool,
    /// What a restart does with runs that waited.
    pub restart_queued: RestartQueued,
    /// Whether the runner may repair output itself.
    pub repair: bool,
    /// Whether engines are confined.
    pub sandbox: Sandbox,
    /// Whether they have control groups.
    pub(crate) control_groups: Groups,
    /// What confined runs can read besides.
    pub(crate) sandbox_read: Vec<PathBuf>,
    /// Where confined runs can write besides.
    pub(crate) sandbox_write: Vec<PathBuf>,
    /// Hosts that every confined run may reach.
    pub(crate) egress_allow: Vec<String>,
}

/// What a restart does with runs that waited for their turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RestartQueued {
    Fail,
    Requeue,
}

/// Whether engines are confined.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Sandbox {
    /// Where the machine can.
    Auto,
    /// Always; where the machine cannot, nothing runs.
    On,
    /// Never.
    Off,
}

/// Whether runs have control groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Groups {
    /// Where the kernel can limit memory and processes by them.
    Auto,
    /// Wherever they can be made.
    On,
    Off,
}

/// The Python packages that skills declare.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Python {
    /// Whether they are installed.
    pub(crate) install: bool,
    /// How long that may take.
    pub(crate) timeout_seconds: u64,
    /// Days without use after which a clean-up removes them.
    pub(crate) keep_days: u64,
}

/// How long engines may take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Times {
    /// Each attempt's running time.
    pub hard_timeout_seconds: u64,
    /// Silence of an engine; 0 is no limit.
    pub(crate) stall_timeout_seconds: u64,
    /// How long an engine may wait for a model's service that takes no more requests.
    pub(crate) rate_limit_wait_seconds: u64,
    /// From an engine's result to its exit.
    pub(crate) exit_grace_seconds: u64,
    /// From TERM to KILL.
    pub kill_grace_seconds: u64,
}

/// How much of everything.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Size of an uploaded zip.
    pub max_upload_bytes: u64,
    /// What may come out of it.
    pub(crate) max_unpacked_bytes: u64,
    /// Files and folders in it.
    pub(crate) max_entries: u64,
    /// Size of the zip with a skill of one run.
    pub(crate) temp_skill_package_max_bytes: u64,
    /// What is kept of each stream of an engine.
    pub(crate) max_log_bytes: u64,
    /// Free space below which nothing new is taken.
    pub(crate) min_free_bytes: u64,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EngineSettings {
    /// Its program; left out, the managed prefix and then PATH are searched.
    pub command: Option<String>,
    /// Names of variables it may inherit.
    pub env_pass: Vec<String>,
}

/// The service's own log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Log {
    pub level: LogLevel,
    pub file: PathBuf,
    /// Length at which a new file is begun.
    pub max_bytes: u64,
    pub backup_count: u32,
    pub format: LogFormat,
    /// Where each request is written to, if anywhere.
    pub access: Option<PathBuf>,
}

/// How log lines are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    Text,
    Json,
}

/// Where traces and metrics are sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Otlp {
    /// Without the paths of the signals.
    pub(crate) endpoint: String,
    /// Names and values of headers.
    pub(crate) headers: Vec<(String, Secret)>,
    pub(crate) service_name: String,
    /// Pause between two sets of metrics.
    pub(crate) interval_seconds: u64,
}

/// How much is logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogLevel {
    Trace,
    Debug,
    Info,
    Warn,
    Error,
}

impl fmt::Display for LogLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Trace => "TRACE",
            Self::Debug => "DEBUG",
            Self::Info => "INFO",
            Self::Warn => "WARN",
            Self::Error => "ERROR",
        })
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct E2eClient {
    pub port: u16,
    /// The service it talks to.
    pub(crate) backend_base_url: String,
    /// Recorded runs it can play.
    pub(crate) recordings_dir: PathBuf,
}

/// Routes of the former user interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LegacyUiApi {
    pub mode: LegacyMode,
    /// The day they end, as `YYYY-MM-DD`.
    pub(crate) sunset: String,
}

/// What old routes answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LegacyMode {
    Allow,
    /// As before, with deprecation headers.
    Warn,
    /// 410.
    Gone,
}
