//! What a route needs, and what a request is granted: by its token, its login, or the user who opened the connection.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::domain::time::Timestamp;
use crate::http::answer::problem::Problem;
use crate::http::server::header::one;
use crate::http::server::peer::Peer;
use crate::settings::Http;
use crate::workspace::{Scope, Shown, Tokens};

/// How much a request may do, and how much a route needs. Each includes those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Access {
    /// Nothing is asked for: whether the service lives is no secret.
    Open,
    /// Looks at runs, skills and engines.
    Read,
    /// Runs installed skills, answers and cancels runs.
    Run,
    /// Brings code onto the machine, or changes what all runs depend on.
    Admin,
}

impl Access {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Read => "read",
            Self::Run => "run",
            Self::Admin => "admin",
        }
    }
}

impl From<Scope> for Access {
    fn from(scope: Scope) -> Self {
        match scope {
            Scope::Read => Self::Read,
            Scope::Run => Self::Run,
            Scope::Admin => Self::Admin,
        }
    }
}

/// What a request is granted, and by what. Handlers ask it where the need depends on the content of the request.
#[derive(Debug, Clone)]
pub(crate) struct Granted {
    access: Access,
    refusal: Refusal,
}

/// How to refuse a request that is not granted enough.
#[derive(Debug, Clone)]
enum Refusal {
    TokenNeeded,
    /// The token with this name allows less.
    Scope {
        name: String,
        scope: Scope,
    },
    LoginNeeded,
    Stranger {
        uid: Option<u32>,
        login: bool,
    },
}

impl Granted {
    /// A named token allows what its scope says. With a token in the settings, tokens and nothing else open the service. Without one,
    /// the service's own user and root are let in, and the login of the user interface, if there is one, guards what needs
    /// [`Access::Admin`]. Whoever shows a token that is not known is nobody, even on this machine.
    pub(crate) fn to(settings: &Http, tokens: &Tokens, now: Timestamp, headers: &HeaderMap, peer: Peer) -> Self {
        let given = one(headers, &header::AUTHORIZATION);
        let shown = given.and_then(bearer);
        let nobody = Self { access: Access::Open, refusal: Refusal::TokenNeeded };
        if let (Some(token), Some(shown)) = (&settings.token, shown)
            && equal(shown.as_bytes(), token.expose().as_bytes())
        {
            return Self { access: Access::Admin, ..nobody };
        }
        match shown.map(|shown| tokens.find(shown, now)) {
            Some(Shown::Token(token)) => {
                let (access, refusal) = (token.scope.into(), Refusal::Scope { name: token.name, scope: token.scope });
                return Self { access, refusal };
            }
            Some(Shown::Unknown) => return nobody,
            Some(Shown::NoneInUse) | None if settings.token.is_some() => return nobody,
            Some(Shown::NoneInUse) | None => {}
        }
        let logged_in = settings.ui_login.as_ref().is_some_and(|login| {
            let wanted = format!("{}:{}", login.username, login.password.expose());
            equal(&given.and_then(basic).unwrap_or_default(), wanted.as_bytes())
        });
        let login = settings.ui_login.is_some();
        match peer {
            Peer::Own | Peer::Stranger { .. } if logged_in => {
                Self { access: Access::Admin, refusal: Refusal::LoginNeeded }
            }
            Peer::Own if login => Self { access: Access::Run, refusal: Refusal::LoginNeeded },
            Peer::Own => Self { access: Access::Admin, refusal: Refusal::LoginNeeded },
            Peer::Stranger { uid } => Self { access: Access::Open, refusal: Refusal::Stranger { uid, login } },
        }
    }

    /// The name of the token that the request came with, if one did.
    pub(crate) fn by(&self) -> Option<String> {
        match &self.refusal {
            Refusal::Scope { name, .. } => Some(name.clone()),
            Refusal::TokenNeeded | Refusal::LoginNeeded | Refusal::Stranger { .. } => None,
        }
    }

    pub(crate) fn require(&self, needed: Access) -> Result<(), Problem> {
        if self.access >= needed {
            return Ok(());
        }
        Err(match &self.refusal {
            Refusal::TokenNeeded => Problem::Unauthorized,
            Refusal::Scope { name, scope } => {
                Problem::ScopeTooSmall { name: name.clone(), scope: scope.as_str(), needed: needed.as_str() }
            }
            Refusal::LoginNeeded => Problem::LoginNeeded,
            Refusal::Stranger { uid, login } => Problem::Stranger { uid: *uid, login: *login },
        })
    }
}

impl<S: Sync> FromRequestParts<S> for Granted {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        // Put there for every request by the guard; without it nothing is granted.
        parts.extensions.get().cloned().ok_or(Problem::Unauthorized)
    }
}

fn bearer(value: &str) -> Option<&str> {
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

fn basic(value: &str) -> Option<Vec<u8>> {
    let (scheme, coded) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("basic").then(|| STANDARD.decode(coded.trim()).ok())?
}

/// Compares in constant time, so that the time does not reveal where the difference is.
fn equal(given: &[u8], wanted: &[u8]) -> bool {
    let mut difference = u8::from(given.len() != wanted.len());
    for (i, byte) in wanted.iter().enumerate() {
        difference |= byte ^ given.get(i).copied().unwrap_or_default();
    }
    std::hint::black_box(difference) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_equal_only_when_every_byte_is() {
        assert!(equal(b"secret", b"secret"));
        for given in [&b""[..], b"secre", b"secret1", b"Secret", b"xxxxxx"] {
            assert!(!equal(given, b"secret"));
        }
    }

    #[test]
    fn each_access_includes_those_before_it() {
        assert!(Access::Open < Access::Read && Access::Read < Access::Run && Access::Run < Access::Admin);
    }
}
