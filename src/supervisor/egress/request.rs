//! The head of a request to the proxy: whom it is for, and what is passed on of it.

/// Longest head of a request.
pub(crate) const HEAD_MAX: usize = 32 * 1024;

/// What a client asks of the proxy.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub(crate) host: String,
    pub(crate) port: u16,
    /// The head for the host itself; none for a tunnel.
    pub(crate) head: Option<Vec<u8>>,
}

/// Where a head ends, with its empty line.
pub(crate) fn end_of_head(bytes: &[u8]) -> Option<usize> {
    memchr::memmem::find(bytes, b"\r\n\r\n").map(|at| at + 4)
}

/// Reads a whole head; none when it is not a request for a proxy.
pub(crate) fn read(head: &[u8]) -> Option<Wanted> {
    let head = str::from_utf8(head).ok()?;
    // A line break of another kind would be one for some hosts and none for others.
    if head.split("\r\n").any(|line| line.chars().any(|c| c.is_control() && c != '\t')) {
        return None;
    }
    let (line, headers) = head.split_once("\r\n")?;
    let mut words = line.split(' ');
    let (method, target, version) = (words.next()?, words.next()?, words.next()?);
    if words.next().is_some() || !version.starts_with("HTTP/1.") || method.is_empty() {
        return None;
    }
    if method == "CONNECT" {
        let (host, port) = authority(target, None)?;
        return Some(Wanted { host, port, head: None });
    }
    let scheme = "http://";
    let rest = target
        .get(..scheme.len())
        .filter(|found| found.eq_ignore_ascii_case(scheme))
        .map(|_| &target[scheme.len()..])?;
    let (name, path) = match rest.find(['/', '?']) {
        Some(at) => rest.split_at(at),
        None => (rest, ""),
    };
    let (host, port) = authority(name, Some(80))?;
    let slash = if path.starts_with('/') { "" } else { "/" };
    let mut passed = format!("{method} {slash}{path} {version}\r\nHost: {name}\r\n");
    for header in headers.split("\r\n").filter(|header| !header.is_empty()) {
        let name = header.split(':').next().unwrap_or_default().trim().to_ascii_lowercase();
        // One request for each connection: the next may be for another host.
        if name != "host" && name != "connection" && name != "keep-alive" && !name.starts_with("proxy-") {
            passed.push_str(header);
            passed.push_str("\r\n");
        }
    }
    passed.push_str("Connection: close\r\n\r\n");
    Some(Wanted { host, port, head: Some(passed.into_bytes()) })
}

fn authority(text: &str, usual: Option<u16>) -> Option<(String, u16)> {
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, behind) = rest.split_once(']')?;
            (host, behind.strip_prefix(':'))
        }
        None => match text.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        },
    };
    let port = match port {
        Some(port) => port.parse().ok()?,
        None => usual?,
    };
    let of_name = |c: char| c.is_ascii_alphanumeric() || "-._:".contains(c);
    (!host.is_empty() && host.len() <= 255 && host.chars().all(of_name)).then(|| (host.to_owned(), port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tunnel_and_a_request_by_its_whole_address_are_read() {
        let tunnel = read(b"CONNECT api.example:443 HTTP/1.1\r\nHost: other\r\n\r\n").unwrap();
        assert_eq!(tunnel, Wanted { host: "api.example".into(), port: 443, head: None });
        let asked = b"POST http://api.example:8080/v1?x=1 HTTP/1.1\r\nHost: evil\r\nProxy-Connection: keep-alive\r\nContent-Length: 2\r\n\r\n";
        let wanted = read(asked).unwrap();
        assert_eq!((wanted.host.as_str(), wanted.port), ("api.example", 8080));
        let passed =
            "POST /v1?x=1 HTTP/1.1\r\nHost: api.example:8080\r\nContent-Length: 2\r\nConnection: close\r\n\r\n";
        assert_eq!(String::from_utf8(wanted.head.unwrap()).unwrap(), passed);
        let bare = read(b"GET http://[::1] HTTP/1.1\r\n\r\n").unwrap();
        assert_eq!((bare.host.as_str(), bare.port), ("::1", 80));
    }

    #[test]
    fn anything_else_is_no_request_for_a_proxy() {
        for head in [
            "GET / HTTP/1.1\r\n\r\n",
            "CONNECT a HTTP/1.1\r\n\r\n",
            "CONNECT a@b:1 HTTP/1.1\r\n\r\n",
            "CONNECT :1 HTTP/1.1\r\n\r\n",
            "GET ftp://a/ HTTP/1.1\r\n\r\n",
            "GET http://u@h/ HTTP/1.1\r\n\r\n",
            "x",
            "GET  http://a HTTP/1.1\r\n\r\n",
            "CONNECT a:99999 HTTP/1.1\r\n\r\n",
            "GET http://a/\nHost: b HTTP/1.1\r\n\r\n",
            "GET http://a/ HTTP/1.1\r\nx: y\nHost: b\r\n\r\n",
            "GET http://a/ HTTP/1.1\r\nx: y\rHost: b\r\n\r\n",
        ] {
            assert_eq!(read(head.as_bytes()), None, "{head}");
        }
    }
}
