//! Whom a run may reach.

use crate::bounded::host;

/// Whom a run may reach, by names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Egress {
    /// Those the operator allows: also on private networks and on the machine itself.
    pub trusted: Vec<Host>,
    /// Those the skill asks for; none stands for everybody. Only on public networks.
    pub named: Option<Vec<Host>>,
    /// Ports of the machine's loopback that the run reaches at the same ports of its own.
    pub forwarded: Vec<u16>,
    /// Connections it may have at the same time.
    pub connections: usize,
}

/// A host by its name, with a port or for all of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    /// In lower case; `*.` before it stands for every name that ends so.
    name: String,
    port: Option<u16>,
}

/// The port of the run's own loopback on which the proxy listens.
pub(crate) const PROXY_PORT: u16 = 3128;
/// Most ports that are passed on.
pub(crate) const FORWARDED_MAX: usize = skill_runner_shim::wire::PORTS_MAX - 1;

/// Connections of one run, whatever the limit of open files.
const CONNECTIONS_LEAST: usize = 4;
const CONNECTIONS_MOST: usize = 256;

/// How many connections a run may have, so that all runs together take no more than a quarter of the descriptors: each
/// connection has two ends.
pub(crate) fn connections_of_a_run(open_files: u64, running_jobs: usize) -> usize {
    let fitting = open_files / 8 / u64::try_from(running_jobs.max(1)).unwrap_or(u64::MAX);
    usize::try_from(fitting).unwrap_or(usize::MAX).clamp(CONNECTIONS_LEAST, CONNECTIONS_MOST)
}

/// The variables by which programs find the proxy.
pub(crate) fn proxy_variables() -> Vec<(String, String)> {
    let proxy = format!("http://127.0.0.1:{PROXY_PORT}");
    let mut variables = Vec::new();
    for name in ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"] {
        variables.extend([(name.to_owned(), proxy.clone()), (name.to_ascii_lowercase(), proxy.clone())]);
    }
    // The run's own loopback is reached without it.
    for name in ["NO_PROXY", "no_proxy"] {
        variables.push((name.to_owned(), "localhost,127.0.0.1,::1".to_owned()));
    }
    // Node looks at these variables only when it is told to.
    variables.push(("NODE_USE_ENV_PROXY".to_owned(), "1".to_owned()));
    variables
}

/// How a host came to be allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Allowed {
    /// Whatever its address is.
    Anywhere,
    /// If its address is public.
    InPublic,
}

impl Host {
    /// Reads `name`, `name:port`, `*.name`, `[::1]:port`; none for anything else.
    pub fn read(text: &str) -> Option<Host> {
        host::read(text).map(|(name, port)| Host { name, port })
    }

    /// The hosts of all addresses of the form `http://host:port/…` in a text.
    pub fn in_text(text: &str) -> Vec<Host> {
        let mut found: Vec<Host> = Vec::new();
        for (scheme, usual) in [("http://", 80), ("https://", 443)] {
            for (at, _) in text.match_indices(scheme) {
                let rest = &text[at + scheme.len()..];
                let end =
                    rest.find(|c: char| !(c.is_ascii_alphanumeric() || "-._:[]@%".contains(c))).unwrap_or(rest.len());
                let authority = rest[..end].rsplit('@').next().unwrap_or_default();
                if let Some(Host { name, port }) = Host::read(authority) {
                    let host = Host { name, port: Some(port.unwrap_or(usual)) };
                    if !found.contains(&host) {
                        found.push(host);
                    }
                }
            }
        }
        found
    }

    /// The port, if this is the machine's own loopback.
    pub fn loopback_port(&self) -> Option<u16> {
        let is_loopback = self.name == "localhost"
            || self.name.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback());
        self.port.filter(|_| is_loopback)
    }

    fn is(&self, name: &str, port: u16) -> bool {
        let named = match self.name.strip_prefix("*.") {
            Some(end) => name.strip_suffix(end).is_some_and(|before| before.ends_with('.')),
            None => self.name == name,
        };
        named && self.port.is_none_or(|own| own == port)
    }
}

impl Egress {
    /// The ports on which the run's own loopback must be listened to, the proxy's first.
    pub(crate) fn ports(&self) -> Vec<u16> {
        let mut ports = vec![PROXY_PORT];
        for port in &self.forwarded {
            // A model may be named twice, in a variable and in a file.
            if !ports.contains(port) && ports.len() <= FORWARDED_MAX {
                ports.push(*port);
            }
        }
        ports
    }

    /// Whether the run may reach this host, and where.
    pub(crate) fn allows(&self, name: &str, port: u16) -> Option<Allowed> {
        let name = host::plain(name);
        if self.trusted.iter().any(|host| host.is(&name, port)) {
            return Some(Allowed::Anywhere);
        }
        let named = self.named.as_ref().is_none_or(|hosts| hosts.iter().any(|host| host.is(&name, port)));
        named.then_some(Allowed::InPublic)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(text: &str) -> Host {
        Host::read(text).unwrap()
    }

    #[test]
    fn a_name_is_allowed_as_it_is_listed_and_not_otherwise() {
        let egress = Egress {
            trusted: vec![host("db.internal:5432")],
            named: Some(vec![host("api.example.com"), host("*.pkg.dev")]),
            forwarded: Vec::new(),
            connections: 1,
        };
        let allows = |name, port| egress.allows(name, port);
        assert_eq!(allows("API.example.com.", 443), Some(Allowed::InPublic));
        assert_eq!(allows("a.b.pkg.dev", 443), Some(Allowed::InPublic));
        assert_eq!(allows("db.internal", 5432), Some(Allowed::Anywhere));
        for (name, port) in [("db.internal", 22), ("pkg.dev", 443), ("xpkg.dev", 443), ("example.com", 443), ("", 1)] {
            assert_eq!(allows(name, port), None, "{name}");
        }
        let open = Egress { trusted: Vec::new(), named: None, forwarded: vec![9, PROXY_PORT, 9, 10], connections: 1 };
        assert_eq!(open.allows("anything", 1), Some(Allowed::InPublic));
        assert_eq!(open.ports(), [PROXY_PORT, 9, 10]);
    }

    #[test]
    fn hosts_are_found_in_configurations() {
        let text = r#"base_url = "https://user:x@Models.example:8443/v1" # http://127.0.0.1:9/x, http://[::1]:10"#;
        let found = Host::in_text(text);
        let wanted = [host("127.0.0.1:9"), host("[::1]:10"), host("models.example:8443")];
        assert_eq!(found, wanted);
        assert_eq!(found.iter().map(Host::loopback_port).collect::<Vec<_>>(), [Some(9), Some(10), None]);
        assert_eq!(Host::in_text("https://a.example/ http://a.example"), [host("a.example:80"), host("a.example:443")]);
    }

    #[test]
    fn the_connections_of_all_runs_leave_descriptors_for_everything_else() {
        let of = connections_of_a_run;
        assert_eq!([of(512, 4), of(1024, 4), of(20_000, 8), of(u64::MAX, 1), of(0, 4096)], [16, 32, 256, 256, 4]);
    }
}
