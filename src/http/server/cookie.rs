//! The cookie of a browser that has logged in.

use axum::http::{HeaderMap, HeaderValue, header};

use crate::http::server::header::one;

/// Most bytes of a cookie header that are looked at.
const MOST_BYTES: usize = 8 * 1024;

/// The name of the cookie. Browsers keep one set of cookies for all ports of a host, so the port is part of it.
fn name(headers: &HeaderMap) -> String {
    let host = one(headers, &header::HOST).unwrap_or_default();
    let port =
        host.rsplit_once(':').map(|(_, port)| port).filter(|port| port.bytes().all(|byte| byte.is_ascii_digit()));
    port.map_or_else(|| "skill_runner_session".to_owned(), |port| format!("skill_runner_session_{port}"))
}

/// What a browser sends of its session. Of two cookies with the name, neither counts.
pub(crate) fn given(headers: &HeaderMap) -> Option<&str> {
    let name = name(headers);
    let lines = headers.get_all(header::COOKIE).iter().filter_map(|line| line.to_str().ok());
    let pairs = lines.filter(|line| line.len() <= MOST_BYTES).flat_map(|line| line.split(';'));
    let mut values = pairs.filter_map(|pair| pair.trim().split_once('=')).filter(|(other, _)| *other == name);
    let (_, value) = values.next()?;
    values.next().is_none().then_some(value)
}

/// The cookie for this session: no script reads it, no other site sends it.
pub(crate) fn set(headers: &HeaderMap, session: &str, seconds: u64, secure: bool) -> Option<HeaderValue> {
    let secure = if secure { "; Secure" } else { "" };
    let text = format!("{}={session}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}", name(headers));
    HeaderValue::from_str(&text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(given: &[(&'static str, &str)]) -> HeaderMap {
        let header = |(name, value): &(&'static str, &str)| {
            (axum::http::HeaderName::from_static(name), HeaderValue::from_str(value).unwrap())
        };
        given.iter().map(header).collect()
    }

    #[test]
    fn the_cookie_of_this_port_is_read_and_no_other() {
        let host = ("host", "localhost:8000");
        for (cookie, expected) in [
            ("skill_runner_session_8000=a", Some("a")),
            ("x=1; skill_runner_session_8000=a; y=2", Some("a")),
            ("skill_runner_session_8001=a", None),
            ("skill_runner_session=a", None),
            ("skill_runner_session_8000=a; skill_runner_session_8000=b", None),
            ("skill_runner_session_8000", None),
            ("", None),
        ] {
            assert_eq!(given(&headers(&[host, ("cookie", cookie)])), expected, "{cookie}");
        }
        assert_eq!(given(&headers(&[("host", "a.example"), ("cookie", "skill_runner_session=a")])), Some("a"));
        assert_eq!(given(&headers(&[("host", "[::1]"), ("cookie", "skill_runner_session=a")])), Some("a"));
        let set = set(&headers(&[host]), "ss_x", 60, true).unwrap();
        assert_eq!(set, "skill_runner_session_8000=ss_x; Path=/; Max-Age=60; HttpOnly; SameSite=Strict; Secure");
    }
}
