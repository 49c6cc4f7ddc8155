//! What a client was let in by, as far as it can be taken back: a named token, a session of a browser.

use serde::{Deserialize, Serialize};

/// Nothing if the client cannot lose its access while the service runs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Credential {
    /// The hash of the named token.
    pub(crate) token: Option<String>,
    /// The hash of the session's text.
    pub(crate) session: Option<String>,
}

impl Credential {
    /// Whether both are of one client: of one token, with whatever session, or of one session without a named token.
    pub(crate) fn is_of_same(&self, other: &Credential) -> bool {
        self.token == other.token && (self.token.is_some() || self.session == other.session)
    }

    /// Whether there is anything that can be taken back.
    pub(crate) fn can_be_lost(&self) -> bool {
        self.token.is_some() || self.session.is_some()
    }
}
