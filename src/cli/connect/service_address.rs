//! The address and pid that a running service writes to its data folder, so that other commands find it.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::path::PathBuf;

use rustix::process::{Pid, test_kill_process};
use serde::{Deserialize, Serialize};

use crate::bounded;
use crate::cli::connect::client::Client;
use crate::cli::connect::run_id;
use crate::cli::failure::Failure;
use crate::domain::ids::RunId;
use crate::files;
use crate::orchestrator::ListFilter;
use crate::settings::Settings;
use crate::store::is_taken;
use crate::workspace::Layout;

/// The content of the address file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct ServiceAddress {
    url: String,
    pid: i32,
}

/// The written address; removed when dropped.
#[derive(Debug)]
pub(crate) struct Announcement {
    path: PathBuf,
}

/// Writes the address of this process to its data folder.
pub(crate) fn announce(layout: &Layout, bound: SocketAddr) -> Result<Announcement, Failure> {
    let path = layout.service_address();
    let address = ServiceAddress { url: url(reachable(bound)), pid: rustix::process::getpid().as_raw_nonzero().get() };
    let text = serde_json::to_vec(&address).map_err(Failure::broken("write the service's address"))?;
    files::write_durably(&path, &text).map_err(Failure::broken("write the service's address"))?;
    Ok(Announcement { path })
}

impl Drop for Announcement {
    fn drop(&mut self) {
        // What is left is recognised as stale by its pid.
        let _ = fs::remove_file(&self.path);
    }
}

/// The address as a URL.
pub(crate) fn url(address: SocketAddr) -> String {
    format!("http://{address}")
}

/// A service on 0.0.0.0 or [::] is reached on the loopback address.
fn reachable(bound: SocketAddr) -> SocketAddr {
    let ip = match bound.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
        ip => ip,
    };
    SocketAddr::new(ip, bound.port())
}

/// Whether an address as services write it is one at which this machine itself can listen.
fn is_of_this_machine(url: &str) -> bool {
    let address = url.strip_prefix("http://").and_then(|address| address.parse::<SocketAddr>().ok());
    address.is_some_and(|address| UdpSocket::bind((address.ip(), 0)).is_ok())
}

fn announced(settings: &Settings) -> Option<ServiceAddress> {
    let path = Layout::new(&settings.paths.data_dir).service_address();
    bounded::json::from_slice(&files::read_followed(&path).ok()?).ok()
}

/// The process of the service that runs on the data folder, once it is known that one does.
pub(crate) fn pid_of_service(settings: &Settings) -> Option<i32> {
    announced(settings).map(|address| address.pid)
}

/// A client of the service that runs on the data folder, if one does.
pub(crate) fn running_service(settings: &Settings) -> Option<Client> {
    let address = announced(settings)?;
    // A killed service leaves this file behind, and a copy of the folder has it, too: the folder itself must be in use, and the
    // address one of this machine, because the token goes there.
    if !is_taken(&settings.paths.data_dir) || !is_of_this_machine(&address.url) {
        return None;
    }
    // The pid may be another process by now: so it must answer, too.
    test_kill_process(Pid::from_raw(address.pid)?).ok()?;
    let client = Client::new(&address.url, settings.http.token.as_ref()).ok()?;
    client.answers().then_some(client)
}

/// A client of the named service, else of the one that runs on the data folder; there must be one.
pub(crate) fn service(settings: &Settings, server: Option<&str>) -> Result<Client, Failure> {
    if let Some(url) = server {
        return Client::new(url, settings.http.token.as_ref());
    }
    running_service(settings).ok_or_else(|| {
        Failure::Unreachable(format!(
            "no service runs on {}\n  start one with `skill-runner serve`, or choose one with --server",
            settings.paths.data_dir.display()
        ))
    })
}

/// The run of a service that somebody means by an id, the begin of one, or `last`.
pub(crate) fn run_of(client: &Client, id: &str) -> Result<RunId, Failure> {
    let unknown = || Failure::unknown_run(id);
    let exact = || {
        let given: RunId = id.parse().map_err(|_| unknown())?;
        Ok(client.job(given)?.answer.run_id)
    };
    run_id::resolve(id, exact, |before, limit| {
        let listed = client.jobs(&ListFilter { before, limit, ..ListFilter::default() })?.answer;
        Ok(listed.jobs.into_iter().map(|job| job.run_id).collect())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_on_every_address_is_reached_on_loopback() {
        let reached = |bound: &str| url(reachable(bound.parse().unwrap()));
        assert_eq!(reached("0.0.0.0:80"), "http://127.0.0.1:80");
        assert_eq!(reached("[::]:80"), "http://[::1]:80");
        assert_eq!(reached("10.0.0.1:80"), "http://10.0.0.1:80");
    }

    #[test]
    fn only_an_address_of_this_machine_gets_the_token() {
        for (url, is_own) in [
            ("http://127.0.0.1:80", true),
            ("http://192.0.2.7:80", false),
            ("http://localhost:80", false),
            ("http://127.0.0.1:80@192.0.2.7", false),
            ("https://127.0.0.1:80", false),
            ("", false),
        ] {
            assert_eq!(is_of_this_machine(url), is_own, "{url}");
        }
    }

    #[test]
    fn the_address_is_there_while_announced_and_gone_afterwards() {
        let folder = tempfile::tempdir().unwrap();
        let layout = Layout::new(folder.path());
        let announcement = announce(&layout, "127.0.0.1:4".parse().unwrap()).unwrap();
        let found: ServiceAddress = serde_json::from_slice(&fs::read(layout.service_address()).unwrap()).unwrap();
        let pid = i32::try_from(std::process::id()).unwrap();
        assert_eq!(found, ServiceAddress { url: "http://127.0.0.1:4".to_owned(), pid });
        drop(announcement);
        assert!(!layout.service_address().exists());
    }
}
