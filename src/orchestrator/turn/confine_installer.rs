//! What confines the process that installs a skill's Python packages: it sees the skill and the operator's files, never what a
//! run is given, and writes to the new environments alone.

use std::path::{Path, PathBuf};

use crate::domain::codes::WarningCode;
use crate::domain::outcome::Warning;
use crate::files;
use crate::orchestrator::shared::Shared;
use crate::orchestrator::shared::skills::SkillPlace;
use crate::orchestrator::turn::confine::{absolute, closed_files, hidden, is_in, own_tmp, programs};
use crate::skill::Skill;
use crate::skill::automation::FileScope;
use crate::supervisor::{
    Access, Confinement, Egress, Host, Network, Sandbox, Shown, connections_of_a_run, proxy_variables,
};
use crate::workspace::RunPaths;

/// Files of the machine that tell installers where packages come from.
const CONFIGURATIONS: [&str; 2] = ["/etc/pip.conf", "/etc/uv/uv.toml"];
/// Variables that name such a file.
const NAME_CONFIGURATIONS: [&str; 2] = ["PIP_CONFIG_FILE", "UV_CONFIG_FILE"];
/// Variables that name hosts without an address.
const NAME_HOSTS: [&str; 2] = ["PIP_TRUSTED_HOST", "UV_INSECURE_HOST"];

/// What an installer may write to, and where it finds what it needs.
pub(crate) struct InstallerPlaces<'a> {
    pub paths: &'a RunPaths,
    pub skill: &'a Skill,
    pub skill_place: &'a SkillPlace,
    /// The environments that are to be made; their folders are there.
    pub environments: &'a [PathBuf],
    pub path: &'a str,
}

/// The sandbox of the installer, where there is one, and its variables: those of the operator, and the way out.
pub(crate) fn sandbox(
    shared: &Shared,
    places: &InstallerPlaces<'_>,
    operators: Vec<(String, String)>,
) -> (Option<Sandbox>, Vec<(String, String)>) {
    let user_namespace = match shared.confinement {
        Confinement::Works { user_namespace } => user_namespace,
        Confinement::Missing { .. } | Confinement::Off => return (None, operators),
    };
    let hidden = hidden(shared);
    let mut shown = own_tmp(places.paths);
    shown.extend(closed_files(shared, &hidden));
    let skills = match places.skill.manifest.automation.file_scope() {
        // Packages that are part of the skill are built where they are.
        FileScope::Unsaid | FileScope::Run | FileScope::Unknown => Access::Write,
        FileScope::ReadOnly => Access::Read,
    };
    shown.push(Shown::in_place(absolute(&places.skill_place.seen_at), skills));
    shown.extend(places.environments.iter().map(|folder| Shown::in_place(absolute(folder), Access::Write)));
    let read = programs(shared, places.path, None).into_iter().map(|one| one.target);
    let read = read.chain([shared.program.clone()]).chain(files_in(&operators));
    let read = read.chain(shared.settings.runs.sandbox_read.iter().cloned()).filter(|path| is_in(&hidden, path));
    shown.extend(read.map(|path| Shown::in_place(path, Access::ReadIfThere)));
    shown.dedup();
    let (network, variables) = way_out(shared, operators);
    (Some(Sandbox { user_namespace, hidden, shown, network }), variables)
}

/// The warning for an installer that has the machine's network.
pub(crate) fn network_not_enforced(sandbox: Option<&Sandbox>) -> Option<Warning> {
    let message = "the Python packages of the skill are installed with the network of the machine: the service is told to use a proxy on another machine, \
                   which is not reached from a network of its own";
    (sandbox?.network == Network::Machine).then(|| Warning::new(WarningCode::IsolationNotEnforced, message))
}

/// Everybody in public networks is reached, and whom the operator names, wherever he is. The skill has no say in it: an index is the
/// operator's affair, and the installer sees nothing of the run that it could give away.
fn way_out(shared: &Shared, mut operators: Vec<(String, String)>) -> (Network, Vec<(String, String)>) {
    let is_proxy = |name: &str| name.to_ascii_lowercase().ends_with("_proxy") && !name.eq_ignore_ascii_case("no_proxy");
    let proxies = operators.iter().filter(|(name, value)| is_proxy(name) && !value.is_empty());
    // A proxy of the operator is reached at the same port of the installer's own loopback, or not at all.
    let elsewhere = |(_, value): &(String, String)| match Host::in_text(value).as_slice() {
        [] => true,
        hosts => hosts.iter().any(|host| host.loopback_port().is_none()),
    };
    if proxies.clone().any(elsewhere) {
        return (Network::Machine, operators);
    }
    let mut trusted: Vec<Host> = shared.settings.runs.egress_allow.iter().filter_map(|host| Host::read(host)).collect();
    trusted.extend(operators.iter().flat_map(|(_, value)| Host::in_text(value)));
    let named = operators.iter().filter(|(name, _)| NAME_HOSTS.contains(&name.as_str()));
    trusted.extend(named.flat_map(|(_, value)| words(value)).filter_map(Host::read));
    trusted.extend(configurations(&operators).iter().flat_map(|text| Host::in_text(text)));
    let forwarded = trusted.iter().filter_map(Host::loopback_port).collect();
    operators.retain(|(name, _)| !name.eq_ignore_ascii_case("no_proxy"));
    let is_told = |own: &(String, String)| operators.iter().any(|(name, _)| name.eq_ignore_ascii_case(&own.0));
    let own: Vec<(String, String)> = proxy_variables().into_iter().filter(|own| !is_told(own)).collect();
    operators.extend(own);
    let connections = connections_of_a_run(files::open_files(), shared.settings.runs.max_running_jobs);
    (Network::Through(Egress { trusted, named: None, forwarded, connections }), operators)
}

/// The text of the files that name an index.
fn configurations(operators: &[(String, String)]) -> Vec<String> {
    let named = operators.iter().filter(|(name, _)| NAME_CONFIGURATIONS.contains(&name.as_str()));
    let named = named.map(|(_, value)| PathBuf::from(value));
    let all = CONFIGURATIONS.iter().map(PathBuf::from).chain(named);
    let read = all.filter_map(|path| files::read_followed(&path).ok());
    read.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).collect()
}

/// The files and folders that the operator's variables name.
fn files_in(operators: &[(String, String)]) -> Vec<PathBuf> {
    let named = operators.iter().flat_map(|(_, value)| words(value));
    let paths = named.map(|word| Path::new(word.strip_prefix("file://").unwrap_or(word)));
    // Nobody means the whole machine by it.
    paths.filter(|path| path.is_absolute() && path.parent().is_some() && path.exists()).map(Path::to_owned).collect()
}

fn words(value: &str) -> impl Iterator<Item = &str> {
    value.split([' ', ',', '\n']).filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_the_operator_names_are_found_among_his_words() {
        let told = |value: &str| vec![("PIP_FIND_LINKS".to_owned(), value.to_owned())];
        let found = |value: &str| files_in(&told(value));
        assert_eq!(
            found("https://host.invalid/x file:///usr /bin,/no/such/file usr /"),
            [Path::new("/usr"), Path::new("/bin")]
        );
    }
}
