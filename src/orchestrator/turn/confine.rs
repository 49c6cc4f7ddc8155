//! What confines the processes of a turn: made of what the skill asks, the operator allows and the machine can.

use std::path::{Path, PathBuf};

use serde_json::json;
use tracing::warn;

use crate::domain::causes::chain;
use crate::domain::codes::WarningCode;
use crate::domain::isolation::{Files, InForce, Part, Reach, Tier};
use crate::domain::outcome::Warning;
use crate::domain::run_file::RunFolder;
use crate::engine::tools::{AllowedTool, NotKept};
use crate::engine::{Adapter, SharedHome};
use crate::files;
use crate::orchestrator::shared::Shared;
use crate::settings::BlobsPlace;
use crate::skill::Skill;
use crate::skill::automation::{FILE_SCOPES, FileScope, Keeper, Network as Asked};
use crate::skill::python::Command;
use crate::supervisor::{
    Access, Confinement, Egress, Host, Network, Sandbox, Shown, connections_of_a_run, hidden_of_machine,
    proxy_variables,
};
use crate::workspace::{self, COPIES, RunPaths, shared_skills};

/// A place that is never hidden as a home, whatever the environment says.
const SYSTEM: [&str; 12] =
    ["/", "/bin", "/dev", "/etc", "/lib", "/lib64", "/opt", "/proc", "/sbin", "/sys", "/usr", "/var"];

/// An agent CLI, as far as its sandbox depends on it.
pub(crate) struct CliPlaces<'a> {
    pub adapter: &'a Adapter,
    /// The home it has, which is the run's own.
    pub home: &'a Path,
    pub operators_home: &'a Path,
    pub program: &'a [String],
    /// What the operator tells it: variables, and the text of its configuration.
    pub env: &'a [(String, String)],
    pub operators_config: Option<&'a str>,
}

/// The sandbox of a process, where there is one.
pub(crate) fn sandbox(
    shared: &Shared,
    paths: &RunPaths,
    skill: &Skill,
    path: &str,
    cli: Option<&CliPlaces<'_>>,
) -> Option<Sandbox> {
    let user_namespace = match shared.confinement {
        Confinement::Works { user_namespace } => user_namespace,
        Confinement::Missing { .. } | Confinement::Off => return None,
    };
    let hidden = hidden(shared);
    let scope = skill.manifest.automation.file_scope();
    let mut shown = own_folders(paths, scope, cli.map(|cli| cli.adapter));
    shown.extend(closed_files(shared, &hidden));
    shown.extend(programs(shared, path, cli).into_iter().filter(|one| is_in(&hidden, &one.target)));
    if let Some(cli) = cli {
        shown.extend(homes(cli));
    }
    let packages = [Command::Script, Command::Normalizer, Command::Fallback];
    let packages = packages.into_iter().filter_map(|command| skill.python.command(command));
    let packages = packages.map(|needs| absolute(&shared.environments.folder(&needs.id)));
    shown.extend(packages.map(|folder| Shown::in_place(folder, Access::ReadIfThere)));
    let runs = &shared.settings.runs;
    shown.extend(runs.sandbox_read.iter().map(|path| Shown::in_place(path, Access::ReadIfThere)));
    let access = match scope {
        FileScope::Unsaid => Access::Write,
        FileScope::Run | FileScope::ReadOnly | FileScope::Unknown => Access::ReadIfThere,
    };
    shown.extend(runs.sandbox_write.iter().filter(|path| path.exists()).map(|path| Shown::in_place(path, access)));
    shown.dedup();
    Some(Sandbox { user_namespace, hidden, shown, network: network(shared, skill, cli) })
}

/// The variables that lead a process to its way out.
pub(crate) fn variables(sandbox: Option<&Sandbox>) -> Vec<(String, String)> {
    match sandbox.map(|sandbox| &sandbox.network) {
        Some(Network::Through(_)) => proxy_variables(),
        Some(Network::Machine | Network::None) | None => Vec::new(),
    }
}

/// What is in force for every process of the turn.
pub(crate) fn in_force(sandbox: Option<&Sandbox>, skill: &Skill, is_cli: bool, engine_sandbox: bool) -> InForce {
    let mut parts = vec![Part::ProcessTree];
    // The engine's sandbox holds its own commands, not the scripts of the skill that run behind it.
    if engine_sandbox && !skill.manifest.has_scripts() {
        parts.push(Part::EngineSandbox);
    }
    let Some(sandbox) = sandbox else {
        return InForce { tier: Tier::ProcessTree, parts, files: Files::Machine, network: Reach::Machine };
    };
    parts.extend([Part::ReadOnlyRoot, Part::HiddenHomes, Part::OwnTmp, Part::MinimalDev]);
    parts.extend([Part::PidNamespace, Part::IpcNamespace, Part::UtsNamespace]);
    if sandbox.user_namespace {
        parts.push(Part::UserNamespace);
    }
    parts.push(Part::NetworkNamespace);
    if matches!(sandbox.network, Network::Through(_)) {
        parts.push(Part::EgressProxy);
    }
    parts.extend([Part::NoNewPrivileges, Part::Seccomp]);
    let network = match (skill.manifest.automation.network, is_cli) {
        (Some(Asked::Off), true) => Reach::Model,
        (Some(Asked::Off), false) => Reach::None,
        (Some(Asked::Allowlist), _) => Reach::Allowlist,
        (Some(Asked::On) | None, _) => Reach::Open,
    };
    let files = match skill.manifest.automation.file_scope() {
        FileScope::ReadOnly => Files::ReadOnly,
        FileScope::Unsaid | FileScope::Run | FileScope::Unknown => Files::Run,
    };
    InForce { tier: Tier::Sandbox, parts, files, network }
}

/// The warnings for what the skill asks and nothing enforces.
pub(crate) fn not_enforced(shared: &Shared, skill: &Skill, in_force: &InForce) -> Vec<Warning> {
    not_confined(shared, skill, in_force).into_iter().chain(asked_in_vain(skill)).collect()
}

/// No warning names more of them.
const IN_VAIN_MAX: usize = 10;

fn asked_in_vain(skill: &Skill) -> Option<Warning> {
    let in_vain: Vec<(String, &str)> = skill.asked_in_vain().into_iter().take(IN_VAIN_MAX).collect();
    let why = in_vain.iter().map(|(asked, why)| format!("{asked} is not enforced: {why}")).collect::<Vec<_>>();
    let asked: Vec<&String> = in_vain.iter().map(|(asked, _)| asked).collect();
    let mut warning = Warning::new(WarningCode::IsolationNotEnforced, why.join("; "));
    warning.details.insert("asked".into(), json!(asked));
    Some(warning).filter(|_| !asked.is_empty())
}

fn not_confined(shared: &Shared, skill: &Skill, in_force: &InForce) -> Option<Warning> {
    let (keeper, why) = match &shared.confinement {
        Confinement::Works { .. } => (Keeper::Sandbox, format!("it is {FILE_SCOPES}, and is taken for \"run\" here")),
        Confinement::Off => (outside_ours(in_force), "sandbox is off".to_owned()),
        Confinement::Missing { reason } => (outside_ours(in_force), reason.clone()),
    };
    let asked = skill.manifest.automation.not_kept_by(keeper);
    if asked.is_empty() {
        return None;
    }
    let message = format!("{} is not enforced: {why}", asked.join(" and "));
    let mut warning = Warning::new(WarningCode::IsolationNotEnforced, message);
    warning.details.insert("asked".into(), json!(asked));
    Some(warning)
}

fn outside_ours(in_force: &InForce) -> Keeper {
    if in_force.parts.contains(&Part::EngineSandbox) { Keeper::Engine } else { Keeper::Nobody }
}

/// The warnings for tools that the skill does not allow and the engine may use nevertheless.
pub(crate) fn tools_not_enforced(adapter: &Adapter, tools: Option<&[AllowedTool]>) -> Vec<Warning> {
    let warning = |not_kept: NotKept| {
        let message = format!("{} is not enforced: {} {}", not_kept.asked, adapter.name(), not_kept.why);
        let mut warning = Warning::new(WarningCode::IsolationNotEnforced, message);
        warning.details.insert("asked".into(), json!([not_kept.asked]));
        warning
    };
    adapter.does_not_keep(tools).into_iter().map(warning).collect()
}

/// Folders in whose place processes of a run see an empty one.
pub(crate) fn hidden(shared: &Shared) -> Vec<PathBuf> {
    let paths = &shared.settings.paths;
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let blobs = shared.settings.several.blobs.as_ref().and_then(BlobsPlace::folder).map(Path::to_owned);
    // Runs are also in backups and among the files that services share; the operator's configuration of engines has keys; whoever can
    // open the folder of the skills can hold its lock.
    let own = [&paths.data_dir, &paths.agent_home, &paths.backup_dir, &paths.configs_dir, &paths.skills_dir];
    let own = own.map(|path| Some(path.clone()));
    let own = own.into_iter().chain([blobs, home]).flatten();
    let own = own.filter_map(|path| path.canonicalize().ok());
    let mut hidden = hidden_of_machine();
    hidden.extend(own.filter(|path| !SYSTEM.iter().any(|system| path == Path::new(system))));
    hidden.sort();
    hidden.dedup();
    hidden
}

/// The files with the service's settings and with its keys for a bucket: in their places is a device that cannot be opened.
pub(crate) fn closed_files(shared: &Shared, hidden: &[PathBuf]) -> Vec<Shown> {
    let keys = shared.settings.several.blobs.as_ref().and_then(BlobsPlace::keys_file);
    let files = [shared.settings.paths.config_file.as_deref(), keys].into_iter().flatten();
    let files = files.filter_map(|path| path.canonicalize().ok()).filter(|path| !is_in(hidden, path));
    files.map(|target| Shown { source: "/dev/null".into(), target, access: Access::Read }).collect()
}

/// Whether a path, or what it leads to, is in one of these folders.
pub(crate) fn is_in(hidden: &[PathBuf], path: &Path) -> bool {
    let real = path.canonicalize();
    let real = real.as_deref().unwrap_or(path);
    hidden.iter().any(|folder| path.starts_with(folder) || real.starts_with(folder))
}

/// The run's temporary folder, which is also `/tmp`.
pub(crate) fn own_tmp(paths: &RunPaths) -> Vec<Shown> {
    let tmp = absolute(&paths.tmp);
    let as_tmp = |target: &str| Shown { source: tmp.clone(), target: target.into(), access: Access::Write };
    vec![Shown::in_place(&tmp, Access::Write), as_tmp("/tmp"), as_tmp("/var/tmp")]
}

/// What is the run's own: its folder, and its temporary one.
fn own_folders(paths: &RunPaths, scope: FileScope, adapter: Option<&Adapter>) -> Vec<Shown> {
    let mut shown = own_tmp(paths);
    let root = absolute(&paths.root);
    match scope {
        FileScope::Unsaid | FileScope::Run | FileScope::Unknown => shown.push(Shown::in_place(root, Access::Write)),
        FileScope::ReadOnly => {
            shown.push(Shown::in_place(root, Access::Read));
            let written = [RunFolder::Artifacts, RunFolder::Result];
            shown.extend(written.map(|folder| Shown::in_place(absolute(&paths.folder(folder)), Access::Write)));
            // A CLI may not start where it cannot write beside its configuration; the skill stays as it is.
            let skills = adapter.map(|adapter| absolute(&paths.root.join(adapter.skills_folder)));
            if let Some(own) = skills.as_deref().and_then(Path::parent).filter(|own| own.is_dir()) {
                shown.push(Shown::in_place(own, Access::Write));
            }
            shown.extend(skills.map(|skills| Shown::in_place(skills, Access::ReadIfThere)));
        }
    }
    shown
}

/// Where programs are, wherever that is: the PATH, the folder of the installed CLIs, the CLI itself.
pub(crate) fn programs(shared: &Shared, path: &str, cli: Option<&CliPlaces<'_>>) -> Vec<Shown> {
    let path = std::env::split_paths(path).filter(|folder| folder.is_absolute());
    let mut places: Vec<PathBuf> = path.flat_map(|folder| tool_folders(&folder)).collect();
    if let Some(cli) = cli {
        places.push(absolute(&shared.settings.paths.npm_prefix));
        for word in cli.program.iter().map(Path::new).filter(|word| word.is_absolute()) {
            let real = word.canonicalize().ok();
            places.extend(
                [Some(word), real.as_deref()].into_iter().flatten().filter_map(Path::parent).map(Path::to_owned),
            );
            places.extend(real.as_deref().and_then(packages_of));
        }
    }
    places.retain(|place| place.is_dir());
    places.sort();
    places.dedup();
    places.into_iter().map(|place| Shown::in_place(place, Access::ReadIfThere)).collect()
}

/// Folders of a home that hold nothing but programs, by the names that their makers give them.
const TOOLS: [&str; 22] = [
    ".asdf",
    ".bun",
    ".deno",
    ".fnm",
    ".goenv",
    ".jenv",
    ".linuxbrew",
    ".nodenv",
    ".npm-global",
    ".nvm",
    ".phpenv",
    ".pyenv",
    ".rbenv",
    ".rvm",
    ".rye",
    ".sdkman",
    ".volta",
    "anaconda3",
    "mambaforge",
    "miniconda3",
    "miniforge3",
    "n",
];
/// What programs of these folders need from others beside them.
const NEEDED: [(&str, &[&str]); 2] = [
    (".cargo", &[".rustup"]),
    (
        ".local",
        &[".local/lib", ".local/pipx", ".local/share/fnm", ".local/share/mise", ".local/share/pipx", ".local/share/uv"],
    ),
];

/// A folder of the PATH, with what the programs in it need.
fn tool_folders(folder: &Path) -> Vec<PathBuf> {
    let mut found = vec![folder.to_owned()];
    if let Some(parent) = folder.parent() {
        if ["pyvenv.cfg", "conda-meta"].iter().any(|mark| parent.join(mark).exists()) {
            found.push(parent.to_owned());
        }
        found.extend(["lib/node_modules", "libexec"].map(|beside| parent.join(beside)));
    }
    found.extend(packages_of(folder));
    for home in folder.ancestors().skip(1) {
        let Some(name) = folder.strip_prefix(home).ok().and_then(|below| below.iter().next()) else { continue };
        if TOOLS.iter().any(|tool| name == *tool) {
            found.push(home.join(name));
        }
        let needed = NEEDED.iter().filter(|(tool, _)| name == *tool).flat_map(|(_, needed)| needed.iter());
        found.extend(needed.map(|needed| home.join(needed)));
    }
    found
}

/// The packages among which a program of npm is: it may need others of them.
fn packages_of(program: &Path) -> Option<PathBuf> {
    let folders = program.ancestors().filter(|folder| folder.file_name().is_some_and(|name| name == "node_modules"));
    folders.last().map(Path::to_owned)
}

/// The run's own home of the engine, and what its links lead to.
fn homes(cli: &CliPlaces<'_>) -> Vec<Shown> {
    let operators = absolute(cli.operators_home);
    let mut shown = vec![Shown::in_place(absolute(cli.home), Access::Write)];
    let linked = |path: &str, access| {
        Some(operators.join(path)).filter(|path| path.exists()).map(|path| Shown::in_place(path, access))
    };
    // A login may be refreshed.
    shown.extend(cli.adapter.home.logins.iter().filter_map(|path| linked(path, Access::Write)));
    let SharedHome { settings, caches, .. } = cli.adapter.home;
    let linked_to = cli.adapter.home.links().filter(|path| !caches.contains(path));
    shown.extend(linked_to.filter_map(|path| linked(path, Access::Read)));
    // What one run leaves in a cache could be a program that another one starts: each has its own, with a copy of what is the operator's.
    for cache in caches {
        let (operators, source) = (operators.join(cache), absolute(cli.home).join(COPIES).join(cache));
        match own_copy(settings.contains(cache).then_some(&operators), &source) {
            Ok(()) => shown.push(Shown { source, target: operators, access: Access::Write }),
            Err(error) => {
                warn!(error = %chain(&error), "the run has no copy of an engine's cache; it sees the operator's");
                shown.push(Shown::in_place(operators, Access::ReadIfThere));
            }
        }
    }
    shown
}

fn own_copy(of: Option<&PathBuf>, to: &Path) -> Result<(), files::Error> {
    if let Some(of) = of {
        files::remove_tree(to)?;
        files::create_parent(to)?;
        workspace::copy_skill(of, &shared_skills::files_in(of)?, to)?;
    }
    files::create_private_folder(to)
}

fn network(shared: &Shared, skill: &Skill, cli: Option<&CliPlaces<'_>>) -> Network {
    let automation = &skill.manifest.automation;
    if cli.is_none() && automation.network == Some(Asked::Off) {
        return Network::None;
    }
    let mut trusted: Vec<Host> = shared.settings.runs.egress_allow.iter().filter_map(|host| Host::read(host)).collect();
    if let Some(cli) = cli {
        trusted.extend(cli.adapter.endpoints.iter().filter_map(|host| Host::read(host)));
        let told = cli.env.iter().map(|(_, value)| value.as_str()).chain(cli.operators_config);
        trusted.extend(told.flat_map(Host::in_text));
    }
    let forwarded = trusted.iter().filter_map(Host::loopback_port).collect();
    let named = match automation.network {
        Some(Asked::Off) => Some(Vec::new()),
        Some(Asked::Allowlist) => Some(automation.allowlist.iter().filter_map(|host| Host::read(host)).collect()),
        Some(Asked::On) | None => None,
    };
    let connections = connections_of_a_run(files::open_files(), shared.settings.runs.max_running_jobs);
    Network::Through(Egress { trusted, named, forwarded, connections })
}

pub(crate) fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_in_a_home_come_with_what_they_need_and_with_nothing_else() {
        let of = |folder: &str| {
            tool_folders(Path::new(folder)).into_iter().map(|path| path.display().to_string()).collect::<Vec<_>>()
        };
        assert!(of("/root/.pyenv/shims").contains(&"/root/.pyenv".to_owned()));
        assert!(of("/home/me/.nvm/versions/node/v22/bin").contains(&"/home/me/.nvm".to_owned()));
        let cargo = of("/home/me/.cargo/bin");
        assert!(cargo.contains(&"/home/me/.rustup".to_owned()) && !cargo.contains(&"/home/me/.cargo".to_owned()));
        assert!(of("/home/me/work/node_modules/.bin").contains(&"/home/me/work/node_modules".to_owned()));
        let own = of("/home/me/work/bin");
        assert_eq!(own, ["/home/me/work/bin", "/home/me/work/lib/node_modules", "/home/me/work/libexec"]);
    }

    #[test]
    fn programs_of_an_environment_come_with_all_of_it_whoever_made_it() {
        for mark in ["pyvenv.cfg", "conda-meta"] {
            let folder = tempfile::tempdir().unwrap();
            let programs = folder.path().join("bin");
            assert!(!tool_folders(&programs).iter().any(|found| found == folder.path()));
            std::fs::write(folder.path().join(mark), "").unwrap();
            assert!(tool_folders(&programs).iter().any(|found| found == folder.path()), "{mark}");
        }
    }
}
