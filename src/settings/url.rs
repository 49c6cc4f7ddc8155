//! Hosts and paths in the URLs of settings.

/// Whether the rest of a URL after `//` begins with a host, and a port if it has one.
pub(super) fn names_host(rest: &str) -> bool {
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let (is_host, after) = match authority.strip_prefix('[').map(|address| address.split_once(']')) {
        Some(Some((address, after))) => (address.parse::<std::net::Ipv6Addr>().is_ok(), after),
        Some(None) => (false, ""),
        None => {
            let (host, after) = authority.split_at(authority.find(':').unwrap_or(authority.len()));
            let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
            (!host.is_empty() && host.bytes().all(plain), after)
        }
    };
    let is_port = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit()) && port.parse::<u16>().is_ok();
    is_host && (after.is_empty() || after.strip_prefix(':').is_some_and(is_port))
}

/// Whether a URL goes on with a host and a path, to which another path can be added.
pub(super) fn names_place(rest: &str) -> bool {
    names_host(rest) && rest.bytes().all(|byte| byte.is_ascii_graphic() && !b"?#<>`".contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_a_name_or_an_address_and_its_port_a_number() {
        for good in ["a", "a-b_c.example", "127.0.0.1:4318", "[::1]", "[::1]:65535/path", "a:80/?x#y"] {
            assert!(names_host(good), "{good}");
        }
        for wrong in ["", ":80", "a:", "a:+80", "a:65536", "a:x", "a:1:2", "[::1", "[::1]80", "[a]", "two words", "a@b"]
        {
            assert!(!names_host(wrong), "{wrong}");
        }
    }

    #[test]
    fn a_path_can_be_added_to_a_place() {
        assert!(names_place("[::1]:4318/a/b%20c"));
        for wrong in ["a/b c", "a?b", "a/#b", "a/<b>", "a/`b", "a/\u{e4}", "/b"] {
            assert!(!names_place(wrong), "{wrong}");
        }
    }
}
