//! What a route needs, and what a request is granted: by its token, login, session or ticket, or the user who opened the connection.

use std::time::Instant;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::domain::ids::RunId;
use crate::domain::time::Timestamp;
use crate::http::answer::problem::Problem;
use crate::http::server::cookie;
use crate::http::server::header::one;
use crate::http::server::origin::{Origin, is_of_other_page};
use crate::http::server::peer::{Peer, PeerAt};
use crate::http::state::app::App;
use crate::http::state::credential::Credential;
use crate::http::state::failed_logins::Client;
use crate::http::state::in_force::InForce;
use crate::http::state::wanted::Wanted;
use crate::settings::{Http, UiLogin};
use crate::workspace::{Bound, NamedToken, Scope, Sessions, Shown};

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
    way: Way,
    /// The hash of the browser's session that says so, which every page of this host sends along.
    session: Option<String>,
    refusal: Refusal,
}

/// By what a request is granted something.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Way {
    Nothing,
    /// The user who opened the connection.
    Own,
    /// The token of the settings.
    Setting,
    /// A named token.
    Named {
        name: String,
        hash: String,
    },
    /// Name and password of the settings.
    Login {
        name: String,
    },
    /// A ticket for the events of one run.
    Ticket {
        run: RunId,
        credential: Credential,
    },
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
    /// A named token allows what its scope says, and a session what it was opened with. With a token in the settings, these and
    /// nothing else open the service. Without one, the service's own user and root are let in, and the login of the user interface,
    /// if there is one, guards what needs [`Access::Admin`]. Whoever shows a token that is not known is nobody, even on this machine.
    /// A page of another origin has what its token or ticket allows, and nothing that a browser or the machine adds to it.
    pub(crate) fn to(app: &App, headers: &HeaderMap, peer: PeerAt, from: &Origin) -> Result<Self, Problem> {
        let doors = Doors::new(app, peer);
        let given = one(headers, &header::AUTHORIZATION);
        if let Some(shown) = given.and_then(bearer)
            && let Some(granted) = doors.token(shown)?
        {
            return Ok(granted);
        }
        if matches!(from, Origin::Listed(_)) {
            return Ok(Self::nobody());
        }
        let settings = doors.settings;
        if settings.token.is_none()
            && let Some(granted) = given.and_then(basic).map(|shown| doors.login(&shown)).transpose()?.flatten()
        {
            return Ok(granted);
        }
        let session = cookie::given(headers).filter(|_| *from != Origin::Foreign && !is_of_other_page(headers));
        if let Some(granted) = session.and_then(|session| doors.session(session)) {
            return Ok(granted);
        }
        if settings.token.is_some() {
            return Ok(Self::nobody());
        }
        let login = settings.ui_login.is_some();
        Ok(match peer.peer {
            Peer::Own { .. } => {
                let access = if login { Access::Run } else { Access::Admin };
                Self { access, way: Way::Own, session: None, refusal: Refusal::LoginNeeded }
            }
            Peer::Stranger { uid } => Self { refusal: Refusal::Stranger { uid, login }, ..Self::nobody() },
        })
    }

    /// What has to be looked at before it can be said what such a request is granted. The token of the settings needs nothing.
    pub(crate) fn wants(app: &App, headers: &HeaderMap, has_ticket: bool) -> Wanted {
        let has_token = app.orchestrator().settings().http.token.is_some();
        let bearer = one(headers, &header::AUTHORIZATION).and_then(bearer);
        let by_token = bearer.is_some_and(|shown| NamedToken::may_be(shown) || !has_token);
        let by_session = cookie::given(headers).is_some();
        match (has_ticket, by_session, by_token) {
            (true, _, _) => Wanted::Tickets,
            (false, true, _) => Wanted::Sessions,
            (false, false, true) => Wanted::Tokens,
            (false, false, false) => Wanted::Nothing,
        }
    }

    /// What a ticket opens: the events of its run.
    pub(crate) fn by_ticket(app: &App, text: &str) -> Result<Self, Problem> {
        let now = app.orchestrator().now();
        let ticket = app.access().ticket(text, now).ok_or(Problem::TicketInvalid)?;
        if ticket.credential.in_force(app.access(), now) == InForce::No {
            return Err(Problem::TicketInvalid);
        }
        let way = Way::Ticket { run: ticket.run, credential: ticket.credential };
        Ok(Self { access: Access::Read, way, ..Self::nobody() })
    }

    fn nobody() -> Self {
        Self { access: Access::Open, way: Way::Nothing, session: None, refusal: Refusal::TokenNeeded }
    }

    fn all(way: Way) -> Self {
        Self { access: Access::Admin, way, ..Self::nobody() }
    }

    fn named(token: NamedToken) -> Self {
        let hash = token.hash().to_owned();
        let refusal = Refusal::Scope { name: token.name.clone(), scope: token.scope };
        Self { access: token.scope.into(), way: Way::Named { name: token.name, hash }, session: None, refusal }
    }

    pub(crate) fn access(&self) -> Access {
        self.access
    }

    /// The same, for a browser that has just got its cookie.
    pub(crate) fn in_session(self, text: &str) -> Self {
        Self { session: Some(Sessions::hash_of(text)), ..self }
    }

    pub(crate) fn by_cookie(&self) -> bool {
        self.session.is_some()
    }

    /// What the request would lose its access with.
    pub(crate) fn credential(&self) -> Credential {
        match &self.way {
            Way::Ticket { credential, .. } => credential.clone(),
            Way::Nothing | Way::Own | Way::Setting | Way::Named { .. } | Way::Login { .. } => {
                Credential { token: self.token(), session: self.session.clone() }
            }
        }
    }

    /// The name of the token or of the login that the request came with, if it has one.
    pub(crate) fn by(&self) -> Option<String> {
        match &self.way {
            Way::Named { name, .. } | Way::Login { name } => Some(name.clone()),
            Way::Nothing | Way::Own | Way::Setting | Way::Ticket { .. } => None,
        }
    }

    /// The hash of the named token, if one was shown.
    pub(crate) fn token(&self) -> Option<String> {
        match &self.way {
            Way::Named { hash, .. } => Some(hash.clone()),
            Way::Nothing | Way::Own | Way::Setting | Way::Login { .. } | Way::Ticket { .. } => None,
        }
    }

    /// The one run that the request is about, if a ticket says so.
    pub(crate) fn only_run(&self) -> Option<RunId> {
        match self.way {
            Way::Ticket { run, .. } => Some(run),
            Way::Nothing | Way::Own | Way::Setting | Way::Named { .. } | Way::Login { .. } => None,
        }
    }

    /// Whether a person has to log in before the user interface is shown.
    pub(crate) fn has_to_log_in(&self, settings: &Http) -> bool {
        self.access < Access::Read || (settings.ui_login.is_some() && self.way == Way::Own)
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

/// What lets a request in, and what is counted when a client is wrong.
pub(crate) struct Doors<'a> {
    app: &'a App,
    settings: &'a Http,
    now: Timestamp,
    client: Client,
}

impl<'a> Doors<'a> {
    pub(crate) fn new(app: &'a App, peer: PeerAt) -> Self {
        let (settings, now) = (&app.orchestrator().settings().http, app.orchestrator().now());
        Self { app, settings, now, client: peer.client() }
    }

    /// What a token opens; nobody if it is wrong, and none if no token was ever set or made here. Named tokens cannot be
    /// guessed, so they open also while the client has to wait.
    pub(crate) fn token(&self, shown: &str) -> Result<Option<Granted>, Problem> {
        let found = match self.app.access().token(shown, self.now) {
            Shown::Token(token) => return Ok(Some(Granted::named(token))),
            found @ (Shown::Unknown | Shown::NoneInUse) => found,
        };
        match &self.settings.token {
            Some(token) if self.right(is_equal_secret(shown.as_bytes(), token.expose().as_bytes()))? => {
                Ok(Some(Granted::all(Way::Setting)))
            }
            Some(_) => Ok(Some(Granted::nobody())),
            None => Ok((found == Shown::Unknown).then(Granted::nobody)),
        }
    }

    /// What a name and a password open, written with a colon between them; none if they are wrong or there is no login here.
    pub(crate) fn login(&self, shown: &[u8]) -> Result<Option<Granted>, Problem> {
        let Some(login) = &self.settings.ui_login else { return Ok(None) };
        let right = self.right(is_equal_secret(shown, both(login).as_bytes()))?;
        Ok(right.then(|| Granted::all(Way::Login { name: login.username.clone() })))
    }

    /// Counts a wrong answer. Whoever was wrong too often has to wait and does not learn which it was.
    fn right(&self, is_right: bool) -> Result<bool, Problem> {
        let now = Instant::now();
        if let Some(wait) = self.app.failed_logins().wait(self.client, now) {
            return Err(Problem::TooManyFailedLogins { seconds: wait.as_secs() + 1 });
        }
        if !is_right {
            self.app.failed_logins().count(self.client, now);
        }
        Ok(is_right)
    }

    /// What a session opens: as much as what it was opened with is worth now.
    fn session(&self, text: &str) -> Option<Granted> {
        let proves =
            |proof: &str, secret: &str| is_equal_secret(proof.as_bytes(), Bound::proof(text, secret).as_bytes());
        let granted = match self.app.access().session(text, self.now)? {
            Bound::Token { sha256 } => match self.app.access().token_with_hash(&sha256, self.now) {
                Shown::Token(token) => Granted::named(token),
                Shown::Unknown | Shown::NoneInUse => return None,
            },
            Bound::Setting { proof } => {
                let token = self.settings.token.as_ref()?;
                proves(&proof, token.expose()).then(|| Granted::all(Way::Setting))?
            }
            Bound::Login { proof } => {
                let login = self.settings.ui_login.as_ref()?;
                proves(&proof, &both(login)).then(|| Granted::all(Way::Login { name: login.username.clone() }))?
            }
        };
        Some(granted.in_session(text))
    }

    /// Opens a session that is worth what was granted; none if nothing was.
    pub(crate) async fn open_session(&self, granted: &Granted) -> Result<Option<String>, Problem> {
        let end = self.now.plus_seconds(self.settings.session_hours * 3600);
        let bound: Box<dyn FnOnce(&str) -> Bound + Send> =
            match (&granted.way, &self.settings.token, &self.settings.ui_login) {
                (Way::Named { hash, .. }, _, _) => {
                    let sha256 = hash.clone();
                    Box::new(move |_| Bound::Token { sha256 })
                }
                (Way::Setting, Some(token), _) => {
                    let secret = token.clone();
                    Box::new(move |text| Bound::Setting { proof: Bound::proof(text, secret.expose()) })
                }
                (Way::Login { .. }, _, Some(login)) => {
                    let secret = both(login);
                    Box::new(move |text| Bound::Login { proof: Bound::proof(text, &secret) })
                }
                (Way::Nothing | Way::Own | Way::Setting | Way::Login { .. } | Way::Ticket { .. }, _, _) => {
                    return Ok(None);
                }
            };
        self.app.access().open_session(bound, self.now, end).await.map(Some)
    }
}

/// Name and password as a browser or curl sends them.
fn both(login: &UiLogin) -> String {
    format!("{}:{}", login.username, login.password.expose())
}

impl<S: Sync> FromRequestParts<S> for Granted {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        // Put there for every request by the guard; without it nothing is granted.
        parts.extensions.get().cloned().ok_or(Problem::Unauthorized)
    }
}

pub(crate) fn bearer(value: &str) -> Option<&str> {
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

pub(crate) fn basic(value: &str) -> Option<Vec<u8>> {
    let (scheme, coded) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("basic").then(|| STANDARD.decode(coded.trim()).ok())?
}

/// Compares in constant time, so that the time does not reveal where the difference is.
pub(crate) fn is_equal_secret(given: &[u8], wanted: &[u8]) -> bool {
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
        assert!(is_equal_secret(b"secret", b"secret"));
        for given in [&b""[..], b"secre", b"secret1", b"Secret", b"xxxxxx"] {
            assert!(!is_equal_secret(given, b"secret"));
        }
    }

    #[test]
    fn each_access_includes_those_before_it() {
        assert!(Access::Open < Access::Read && Access::Read < Access::Run && Access::Run < Access::Admin);
    }
}
