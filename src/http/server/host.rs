//! The host names under which the service answers.

use std::net::Ipv6Addr;

/// Whether an entry of the allow list names this host; the port is free unless the entry has one.
pub(crate) fn is_allowed(allowed: &[String], host: &str) -> bool {
    let Some(host) = Host::parse(host) else { return false };
    allowed.iter().any(|allowed| host.is_named_by(allowed))
}

/// A host as a header or a request line may name it: a name or an address, and perhaps a port. Nothing else: no name of
/// a user before it, and no word in the place of the port, because what stands before the service may read them otherwise.
struct Host<'a> {
    whole: &'a str,
    name: &'a str,
}

impl<'a> Host<'a> {
    fn parse(whole: &'a str) -> Option<Self> {
        let (name, port) = match whole.strip_prefix('[') {
            Some(rest) => {
                let (address, behind) = rest.split_once(']')?;
                address.parse::<Ipv6Addr>().ok()?;
                let name = whole.get(..address.len() + 2)?;
                (name, if behind.is_empty() { None } else { Some(behind.strip_prefix(':')?) })
            }
            None => match whole.split_once(':') {
                Some((name, port)) => (name, Some(port)),
                None => (whole, None),
            },
        };
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
        let named = name.starts_with('[') || (!name.is_empty() && name.bytes().all(is_name));
        (named && port.is_none_or(is_port)).then_some(Self { whole, name })
    }

    fn is_named_by(&self, allowed: &str) -> bool {
        let matches = |name: &str| match allowed.strip_prefix('*') {
            Some("") => true,
            Some(suffix) => {
                name.len() > suffix.len() && name.to_ascii_lowercase().ends_with(&suffix.to_ascii_lowercase())
            }
            None => name.eq_ignore_ascii_case(allowed),
        };
        matches(self.whole) || matches(self.name)
    }
}

fn is_port(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit()) && text.parse::<u16>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_allowed_by_name_with_any_port_and_by_nothing_else() {
        for (allowed, host, expected) in [
            ("localhost", "localhost", true),
            ("localhost", "LOCALHOST:8000", true),
            ("localhost", "localhost.evil.example", false),
            ("localhost", "localhost:evil", false),
            ("localhost", "localhost:80:80", false),
            ("localhost", "localhost:65536", false),
            ("localhost", "localhost:+80", false),
            ("localhost", "localhost:", false),
            ("localhost", "me@localhost", false),
            ("localhost", "me:secret@localhost:80", false),
            ("localhost", "localhost/x", false),
            ("localhost", "", false),
            ("localhost", ":8000", false),
            ("[::1]", "[::1]", true),
            ("[::1]", "[::1]:8000", true),
            ("[::1]", "[::1]:evil", false),
            ("[::1]", "[::1]evil", false),
            ("[::1]", "[::2]:8000", false),
            ("a.example:81", "a.example:81", true),
            ("a.example:81", "a.example:82", false),
            ("*.example", "a.example:1", true),
            ("*.example", "evil@a.example", false),
            ("*.example", ".example", false),
            ("*", "anything", true),
            ("*", "any thing", false),
            ("*", "evil@anything", false),
            ("*", "anything:evil", false),
            ("*", "[anything]", false),
        ] {
            assert_eq!(is_allowed(&[allowed.to_owned()], host), expected, "{allowed} {host}");
        }
    }
}
