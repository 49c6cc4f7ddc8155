//! Checks the folders: whether they can be written, have enough space, and hold valid data.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::blobs;
use crate::cli::connect::client::Client;
use crate::cli::connect::data_folder;
use crate::cli::runtime::runtime;
use crate::cli::service::doctor::finding::Finding;
use crate::cli::terminal::look::harmless;
use crate::domain::causes::chain;
use crate::files::free_bytes;
use crate::registry::{Entry, Registry};
use crate::settings::Settings;
use crate::store;

pub(crate) fn check(settings: &Settings, service: Option<&Client>) -> Vec<Finding> {
    let mut findings = vec![writable("data directory", "--data-dir", &settings.paths.data_dir)];
    findings.push(disk_space(settings));
    findings.push(open(settings, service));
    findings.extend(shared_files(settings));
    findings.extend(service.and_then(services));
    findings.push(writable("agent home", "agent_home", &settings.paths.agent_home));
    findings.extend(skills(&settings.paths.skills_dir));
    findings
}

/// The folder, or its nearest parent that exists. Nothing is created here.
fn nearest(folder: &Path) -> &Path {
    folder.ancestors().find(|folder| folder.is_dir()).unwrap_or(Path::new("."))
}

fn writable(check: &str, setting: &str, folder: &Path) -> Finding {
    let there = nearest(folder);
    match tempfile::Builder::new().prefix(".doctor-").tempfile_in(there) {
        Ok(_) if there == folder => Finding::ok(check, format!("{} can be written", folder.display())),
        Ok(_) => Finding::ok(check, format!("{} does not exist yet and will be created", folder.display())),
        Err(error) => Finding::broken(
            check,
            format!("{} cannot be written: {error}", there.display()),
            format!("allow this user to write there (chown, chmod, remount), or choose another folder with {setting}"),
        ),
    }
}

fn disk_space(settings: &Settings) -> Finding {
    let check = "disk space";
    let (folder, floor) = (&settings.paths.data_dir, settings.limits.min_free_bytes);
    let mib = |bytes: u64| format!("{} MiB", bytes >> 20);
    match free_bytes(nearest(folder)) {
        Ok(free) if free < floor => Finding::broken(
            check,
            format!("{} are free, less than min_free_bytes ({}): new runs are refused", mib(free), mib(floor)),
            "remove old runs (POST /v1/jobs/cleanup), or free space on the disk",
        ),
        Ok(free) if free < floor.saturating_mul(4) => Finding::warning(
            check,
            format!("{} are free; below {} new runs are refused", mib(free), mib(floor)),
            "remove old runs (POST /v1/jobs/cleanup) soon",
        ),
        Ok(free) => Finding::ok(check, format!("{} are free", mib(free))),
        Err(error) => Finding::broken(check, error.to_string(), "check that the disk is mounted and healthy"),
    }
}

/// The store, opened unless a service has it: then that service must be ready.
fn open(settings: &Settings, service: Option<&Client>) -> Finding {
    let check = "event store";
    if let Some(client) = service {
        return match client.system() {
            Ok(_) => Finding::ok(check, format!("in use by the service at {}", client.base())),
            Err(_) => Finding::broken(
                check,
                format!("the service at {} does not answer correctly", client.base()),
                format!("read {}, then restart the service", settings.log.file.display()),
            ),
        };
    }
    match data_folder::look_at_store(settings) {
        Ok(found) => Finding::ok(check, found),
        Err(store::Error::Locked { .. }) => Finding::broken(
            check,
            "another process has locked it, and no service answers",
            "end that process (a skill-runner command, or a service that hangs), or choose another folder with --data-dir",
        ),
        Err(store::Error::Unusable { store, reason }) => Finding::broken(
            check,
            format!("{store}: {reason}"),
            "correct the setting store (SKILL_RUNNER_STORE), or the server",
        ),
        Err(error) => Finding::broken(
            check,
            format!("it does not open: {}", chain(&error)),
            "check the disk; keep a copy of the folder before you restore a backup. Finished runs are also in data/runs",
        ),
    }
}

/// The files that several services share, where that is set.
fn shared_files(settings: &Settings) -> Option<Finding> {
    let (check, place) = ("shared files", settings.several.blobs.as_ref()?);
    let runtime = match runtime() {
        Ok(runtime) => runtime,
        Err(error) => return Some(Finding::broken(check, format!("{error:?}"), "try again later")),
    };
    Some(match blobs::open(place).and_then(|blobs| runtime.block_on(blobs.check())) {
        Ok(found) => Finding::ok(check, format!("{found} can be written and read")),
        Err(error) => {
            Finding::broken(check, chain(&error), "correct the setting blobs (SKILL_RUNNER_BLOBS), or what it names")
        }
    })
}

/// The services that share the store of a running one, if several can.
fn services(client: &Client) -> Option<Finding> {
    let check = "services";
    let Ok(answer) = client.nodes() else {
        let fix = "read the log of the service; the database may be away";
        return Some(Finding::warning(check, "which services share the store cannot be told now", fix));
    };
    let alive: Vec<&Value> = answer["nodes"].as_array()?.iter().filter(|node| node["alive"] == true).collect();
    if answer["nodes"].as_array()?.is_empty() {
        return None;
    }
    let text = |node: &Value, key: &str| harmless(node[key].as_str().unwrap_or_default());
    let names: Vec<String> = alive.iter().map(|node| text(node, "name")).collect();
    let versions: BTreeSet<String> = alive.iter().map(|node| text(node, "version")).collect();
    let found = format!("{} share the store and are alive: {}", names.len(), names.join(", "));
    Some(if alive.iter().all(|node| node["works"] != true || node["draining"] == true) {
        Finding::warning(check, format!("{found}; none of them starts runs"), "start one with `skill-runner worker`")
    } else if versions.len() > 1 {
        let versions: Vec<String> = versions.into_iter().collect();
        let fix = "bring all of them to the same version";
        Finding::warning(check, format!("{found}; their versions differ: {}", versions.join(", ")), fix)
    } else {
        Finding::ok(check, found)
    })
}

fn skills(folder: &Path) -> Vec<Finding> {
    let check = "skills";
    let fix = "write a skill with `skill-runner skill new NAME`, or choose another folder with --skills-dir";
    if let Err(error) = fs::read_dir(folder) {
        if error.kind() == std::io::ErrorKind::NotFound {
            let message = format!("{} does not exist; only the demo skills can be run", folder.display());
            return vec![Finding::warning(check, message, fix)];
        }
        return vec![Finding::broken(check, format!("{} cannot be read: {error}", folder.display()), fix)];
    }
    let (mut valid, mut findings) = (0, Vec::new());
    let entries = match Registry::new(folder).list() {
        Ok(entries) => entries,
        Err(shortage) => return vec![Finding::broken(check, shortage.told().to_owned(), "try again later")],
    };
    for entry in entries {
        match entry {
            Entry::Valid(_) => valid += 1,
            Entry::Invalid { folder: name, findings: wrong } => {
                let first = wrong.first().map(|finding| finding.message.clone()).unwrap_or_default();
                let fix = format!("skill-runner skill lint {}", folder.join(&name).display());
                findings.push(Finding::warning(&format!("skill {name}"), first, fix));
            }
        }
    }
    let counted = format!("{valid} in {}", folder.display());
    findings.insert(
        0,
        match valid {
            0 => Finding::warning(check, counted, "put a skill there, or choose another folder with --skills-dir"),
            _ => Finding::ok(check, counted),
        },
    );
    findings
}
