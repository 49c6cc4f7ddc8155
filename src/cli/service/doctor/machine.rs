//! Checks the machine: programs, the clock, the port, and processes that an earlier service left.

use std::fs;
use std::io::ErrorKind;
use std::net::TcpListener;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::cli::connect::client::Client;
use crate::cli::connect::data_folder::NO_SANDBOX;
use crate::cli::connect::service_address::pid_of_service;
use crate::cli::service::doctor::finding::Finding;
use crate::installed_engines::tool_version as version_of;
use crate::settings::{Groups, Sandbox, Settings};
use crate::supervisor::{self, Confinement, ControlGroups, RUN_MARKER};

/// The major version of node that all agent CLIs support.
const NODE_WANTED: u32 = 22;
/// The start of 2026: a clock that shows an earlier time is wrong.
const BUILT_AFTER: Duration = Duration::from_secs(1_767_225_600);
/// How far the disk's clock may be from the machine's.
const SKEW: Duration = Duration::from_secs(120);

pub(crate) fn check(settings: &Settings, service: Option<&Client>) -> Vec<Finding> {
    let pid = service.and_then(|_| pid_of_service(settings));
    let mut findings = vec![node(), npm(), python(), sandbox(settings), control_groups(settings, pid)];
    findings.push(clock(&settings.paths.data_dir));
    match service {
        Some(client) => findings.push(Finding::ok("service", format!("running at {}", client.base()))),
        None => findings.extend([port(settings), left_over(&settings.paths.data_dir)]),
    }
    findings
}

fn node() -> Finding {
    let fix = format!("install node {NODE_WANTED} or newer and put it on the PATH of the service");
    let Some(version) = version_of("node") else {
        return Finding::warning("node", "not found: npm and some agent CLIs need it", fix);
    };
    let major = version.trim_start_matches('v').split('.').next().and_then(|number| number.parse::<u32>().ok());
    match major {
        Some(major) if major >= NODE_WANTED => Finding::ok("node", version),
        Some(_) | None => {
            Finding::warning("node", format!("{version}; some agent CLIs need {NODE_WANTED} or newer"), fix)
        }
    }
}

fn npm() -> Finding {
    match version_of("npm") {
        Some(version) => Finding::ok("npm", version),
        None => Finding::warning("npm", "not found: engines cannot be installed", "install node, which brings npm"),
    }
}

fn python() -> Finding {
    match version_of("python3") {
        Some(version) => Finding::ok("python3", version),
        None => Finding::warning("python3", "not found: skills with Python scripts fail", "install python3"),
    }
}

fn sandbox(settings: &Settings) -> Finding {
    let check = "sandbox";
    match (supervisor::probe_beside(&settings.paths.data_dir), settings.runs.sandbox) {
        (Confinement::Off, _) => Finding::ok(check, "off"),
        (Confinement::Works { .. }, Sandbox::Off) => {
            let message = "it works here, and is switched off: skills run with all rights of the service's user";
            Finding::warning(check, message, "set sandbox: auto")
        }
        (Confinement::Works { user_namespace: false }, _) => Finding::ok(check, "runs are confined"),
        (Confinement::Works { user_namespace: true }, _) => {
            Finding::ok(check, "runs are confined, in a user namespace")
        }
        (Confinement::Missing { reason }, Sandbox::On) => {
            Finding::broken(check, format!("sandbox is on, so the service does not start: {reason}"), NO_SANDBOX)
        }
        (Confinement::Missing { reason }, Sandbox::Auto) => {
            let message = format!("runs are not confined, and skills have all rights of the service's user: {reason}");
            Finding::warning(check, message, NO_SANDBOX)
        }
        (Confinement::Missing { reason }, Sandbox::Off) => {
            Finding::ok(check, format!("switched off; it would not work here: {reason}"))
        }
    }
}

/// How the service gets control groups.
const NO_GROUPS: &str = "give the service a control group for itself alone that it may write to, with the controllers memory and pids: \
    in a unit of systemd Delegate=yes and ProtectControlGroups=no; in a container a writable /sys/fs/cgroup of its own (cgroup version 2)";

/// What bounds the memory and the processes of runs: the kernel, or the service that looks at them.
fn control_groups(settings: &Settings, service: Option<i32>) -> Finding {
    let check = "control groups";
    let watched = "memory and processes of runs are watched, and other limits are kept by rlimits";
    let asked = settings.runs.control_groups;
    let found = match asked {
        Groups::Off => ControlGroups::Off,
        Groups::Auto => ControlGroups::look(false, service),
        Groups::On => ControlGroups::look(true, service),
    };
    // Whoever starts the service decides in which group it is.
    let whose = if service.is_some() { "in use" } else { "for a service that is started from here" };
    let bounds = "the kernel bounds memory and processes of each run";
    match (found, asked) {
        (ControlGroups::Below { folder, controllers }, _) if controllers.memory && controllers.processes => {
            Finding::ok(check, format!("version 2, {whose}: {bounds}, below {}", folder.display()))
        }
        (ControlGroups::Below { folder, .. }, _) => {
            let message =
                format!("version 2, {whose}, below {}: only processor time is counted; {watched}", folder.display());
            Finding::hint(check, message, NO_GROUPS)
        }
        (ControlGroups::BelowEach(_), _) => Finding::ok(check, format!("version 1, {whose}: {bounds}")),
        (ControlGroups::Off, _) => Finding::hint(check, format!("switched off: {watched}"), "set control_groups: auto"),
        (ControlGroups::Missing { reason }, Groups::On) => {
            Finding::warning(check, format!("none, though control_groups is on: {watched}. {reason}"), NO_GROUPS)
        }
        (ControlGroups::Missing { reason }, Groups::Auto | Groups::Off) => {
            let whose = if service.is_some() { String::new() } else { format!(" {whose}") };
            Finding::hint(check, format!("none{whose}: {watched}. {reason}"), NO_GROUPS)
        }
    }
}

/// The clock stamps every event; a wrong one puts runs out of order.
fn clock(data_dir: &Path) -> Finding {
    let fix = "set the clock and keep it set (systemd-timesyncd, chrony)";
    let now = SystemTime::now();
    if now.duration_since(UNIX_EPOCH).unwrap_or_default() < BUILT_AFTER {
        return Finding::broken("clock", "it shows a time before this program was released", fix);
    }
    let there = data_dir.ancestors().find(|folder| folder.is_dir()).unwrap_or(Path::new("."));
    let stamped = tempfile::Builder::new().prefix(".doctor-").tempfile_in(there);
    let stamped = stamped.and_then(|file| file.as_file().metadata()?.modified());
    let skew = stamped.ok().map(|stamp| stamp.duration_since(now).unwrap_or_else(|behind| behind.duration()));
    match skew {
        Some(skew) if skew > SKEW => {
            let message = format!("new files get a time that differs from the clock by {} s", skew.as_secs());
            Finding::warning("clock", message, fix)
        }
        Some(_) | None => Finding::ok("clock", "its time is plausible"),
    }
}

fn port(settings: &Settings) -> Finding {
    let (host, port) = (settings.http.host, settings.http.port);
    match TcpListener::bind((host, port)) {
        Ok(_) if port == 0 => Finding::ok("port", "any free one"),
        Ok(_) => Finding::ok("port", format!("{port} on {host} is free")),
        Err(error) if error.kind() == ErrorKind::AddrInUse => Finding::broken(
            "port",
            format!("{port} on {host} is taken by another program"),
            format!("find it with `ss -ltnp sport = :{port}`, or choose another with --port"),
        ),
        Err(error) => Finding::broken("port", format!("{host}:{port}: {error}"), "choose another host or port"),
    }
}

/// Processes of runs of this data folder that exist although no service is running.
fn left_over(data_dir: &Path) -> Finding {
    let pids: Vec<String> = fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok())
        .filter(|pid| is_of(*pid, data_dir))
        .map(|pid| pid.to_string())
        .collect();
    if pids.is_empty() {
        return Finding::ok("left-over processes", "none");
    }
    Finding::warning(
        "left-over processes",
        format!("processes of runs exist although no service is running: {}", pids.join(", ")),
        "the next start of the service ends them; they are also normal while a `skill-runner run` is running",
    )
}

/// A run marks its processes, and they work or keep their temporary files below the data folder.
fn is_of(pid: u32, data_dir: &Path) -> bool {
    let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    let value = |name: &str| {
        let mut variables = environment.split(|byte| *byte == 0);
        variables.find_map(|variable| variable.strip_prefix(name.as_bytes())?.strip_prefix(b"="))
    };
    if value(RUN_MARKER).is_none() {
        return false;
    }
    let tmp = value("TMPDIR").map(|path| String::from_utf8_lossy(path).into_owned());
    let cwd = fs::read_link(format!("/proc/{pid}/cwd")).ok();
    let roots = [Some(data_dir.to_owned()), fs::canonicalize(data_dir).ok()];
    let below = |path: &Path| roots.iter().flatten().any(|root| path.starts_with(root));
    tmp.is_some_and(|tmp| below(Path::new(&tmp))) || cwd.is_some_and(|cwd| below(&cwd))
}
