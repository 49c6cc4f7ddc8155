//! A host as an operator or a skill names it: `name`, `name:port`, `*.name`, `[::1]:port`.

/// The name in lower case, with `*.` before it where it stands for every name that ends so, and the port if there is one. None for
/// anything else, such as an address with its scheme.
pub(crate) fn read(text: &str) -> Option<(String, Option<u16>)> {
    let text = text.trim();
    let (name, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (address, behind) = rest.split_once(']')?;
            (address, behind.strip_prefix(':'))
        }
        None => match text.rsplit_once(':') {
            // An address of IPv6 without brackets has no port.
            Some((name, _)) if name.contains(':') => (text, None),
            Some((name, port)) => (name, Some(port)),
            None => (text, None),
        },
    };
    let port = port.map(str::parse).transpose().ok()?;
    let rest = name.strip_prefix("*.").unwrap_or(name);
    let of_name = |c: char| c.is_ascii_alphanumeric() || "-._:".contains(c);
    (!rest.is_empty() && rest.chars().all(of_name)).then(|| (plain(name), port))
}

/// As names are compared: in lower case, without the dot at the end.
pub(crate) fn plain(name: &str) -> String {
    name.trim_end_matches('.').to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::read;

    #[test]
    fn a_host_is_a_name_with_at_most_a_port_and_nothing_else() {
        let found = |name: &str, port| Some((name.to_owned(), port));
        assert_eq!(read(" API.example.com. "), found("api.example.com", None));
        assert_eq!(read("*.pkg.dev:443"), found("*.pkg.dev", Some(443)));
        assert_eq!(read("[::1]:10"), found("::1", Some(10)));
        assert_eq!(read("fd00::1"), found("fd00::1", None));
        for text in
            ["", "*.", "a b", "a:b", "a:99999", "https://a.example", "a.example/path", "me@a.example", "*", "[::1"]
        {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
