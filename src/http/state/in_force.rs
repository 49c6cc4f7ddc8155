//! How long what a client was let in by is good for.

use crate::domain::time::Timestamp;
use crate::http::state::access_list::AccessList;
use crate::http::state::credential::Credential;
use crate::workspace::Shown;

/// How long a credential is good for, as far as is known now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum InForce {
    Until(Timestamp),
    UntilRevoked,
    /// It is good for nothing any more.
    No,
}

impl Credential {
    pub(crate) fn in_force(&self, access: &AccessList, now: Timestamp) -> InForce {
        let mut end: Option<Timestamp> = None;
        let mut ends = |at: Timestamp| end = Some(end.map_or(at, |end| end.min(at)));
        if let Some(hash) = &self.token {
            match access.token_with_hash(hash, now) {
                Shown::Token(token) => token.expires_at.into_iter().for_each(&mut ends),
                Shown::Unknown | Shown::NoneInUse => return InForce::No,
            }
        }
        if let Some(hash) = &self.session {
            match access.session_end(hash, now) {
                Some(at) => ends(at),
                None => return InForce::No,
            }
        }
        end.map_or(InForce::UntilRevoked, InForce::Until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::{Bound, Layout, Scope, Sessions, create_token, read_tokens, revoke_token};

    fn at(second: i64) -> Timestamp {
        Timestamp::from_micros(second * 1_000_000)
    }

    #[test]
    fn a_credential_is_good_as_long_as_everything_it_is_made_of() {
        let folder = tempfile::tempdir().unwrap();
        let layout = Layout::new(folder.path());
        let sessions = Sessions::load(layout.clone());
        create_token(&layout, "ann", Scope::Read, at(1), Some(at(50))).unwrap();
        create_token(&layout, "bob", Scope::Read, at(1), None).unwrap();
        let hashes: Vec<String> = read_tokens(&layout).unwrap().iter().map(|token| token.hash().to_owned()).collect();
        let text = sessions.open(|_| Bound::Token { sha256: hashes[1].clone() }, at(1), at(20)).unwrap();
        // It reads the sessions that there are when it is made.
        let access = AccessList::of_folder(&layout);
        let made = |token: Option<&String>, session: Option<&str>| Credential {
            token: token.cloned(),
            session: session.map(Sessions::hash_of),
        };
        let now = |credential: &Credential, second| credential.in_force(&access, at(second));

        let (ann, bob) = (made(Some(&hashes[0]), None), made(Some(&hashes[1]), None));
        let in_browser = made(Some(&hashes[1]), Some(&text));
        assert_eq!((now(&ann, 9), now(&ann, 50)), (InForce::Until(at(50)), InForce::No));
        assert_eq!(now(&bob, 9), InForce::UntilRevoked);
        assert_eq!((now(&in_browser, 9), now(&in_browser, 20)), (InForce::Until(at(20)), InForce::No));
        assert_eq!(now(&made(Some(&hashes[0]), Some(&text)), 9), InForce::Until(at(20)), "what ends first");
        assert_eq!(now(&Credential::default(), 9), InForce::UntilRevoked);
        assert!(bob.can_be_lost() && made(None, Some(&text)).can_be_lost() && !Credential::default().can_be_lost());

        revoke_token(&layout, "bob").unwrap();
        assert_eq!((now(&bob, 9), now(&in_browser, 9)), (InForce::No, InForce::No));
        sessions.close(&text, at(9)).unwrap();
        let access = AccessList::of_folder(&layout);
        assert_eq!(made(None, Some(&text)).in_force(&access, at(9)), InForce::No);
    }
}
