//! The sessions of browsers that have logged in. The file holds hashes, never what a browser sends, and survives a restart.

use std::collections::HashMap;
use std::io::{self, ErrorKind};
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use tracing::warn;

use super::layout::Layout;
use super::tokens::new_secret;
use crate::bounded::json;
use crate::domain::causes::chain;
use crate::domain::time::Timestamp;
use crate::files::{self, Error};

const FILE_MAX: u64 = 4 * 1024 * 1024;
const PREFIX: &str = "ss_";
/// Most sessions; the oldest goes when there are more.
pub(crate) const MOST: usize = 1000;
/// Most sessions of one named token: whoever has it must not be able to end those of all others by logging in again and again.
const MOST_OF_TOKEN: usize = MOST / 4;

/// What a session was opened with. It is worth what that is worth at each moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "with", rename_all = "lowercase")]
pub(crate) enum Bound {
    /// A named token, by its hash.
    Token {
        #[serde(rename = "token_sha256")]
        sha256: String,
    },
    /// The token of the settings. The proof is made of it and of the session's text, so that the file alone helps nobody to
    /// guess the token.
    Setting { proof: String },
    /// Name and password of the settings, likewise.
    Login { proof: String },
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Session {
    /// Of the text that the browser sends. It has 256 random bits, so that a fast hash is enough.
    sha256: String,
    #[serde(flatten)]
    bound: Bound,
    pub(crate) created_at: Timestamp,
    pub(crate) expires_at: Timestamp,
}

impl Session {
    /// A new session, and the text that the browser is to send.
    pub(crate) fn new(
        bound: impl FnOnce(&str) -> Bound,
        now: Timestamp,
        expires_at: Timestamp,
    ) -> io::Result<(Self, String)> {
        let text = new_secret(PREFIX)?;
        Ok((Self { sha256: hash(&text), bound: bound(&text), created_at: now, expires_at }, text))
    }

    /// The hash of its text.
    pub(crate) fn hash(&self) -> &str {
        &self.sha256
    }

    pub(crate) fn is_open(&self, now: Timestamp) -> bool {
        now < self.expires_at
    }

    pub(crate) fn bound(&self) -> &Bound {
        &self.bound
    }

    /// The hashes of the open sessions that make room for this one: the oldest of its own token, then the oldest of all.
    pub(crate) fn superfluous<'a>(&self, open: impl Iterator<Item = &'a Self>) -> Vec<String> {
        let mut open: Vec<&Self> = open.collect();
        open.sort_by_key(|session| session.created_at);
        let is_own = |session: &Self| matches!(session.bound, Bound::Token { .. }) && session.bound == self.bound;
        let own = open.iter().filter(|session| is_own(session)).count();
        let mut too_many_own = (own + 1).saturating_sub(MOST_OF_TOKEN);
        let mut too_many = (open.len() + 1).saturating_sub(too_many_own + MOST);
        open.retain(|session| {
            let left = if is_own(session) && too_many_own > 0 { &mut too_many_own } else { &mut too_many };
            let goes = *left > 0;
            *left -= usize::from(goes);
            goes
        });
        open.iter().map(|session| session.sha256.clone()).collect()
    }
}

/// The sessions of a data folder, which one service has at a time.
#[derive(Debug)]
pub(crate) struct Sessions {
    layout: Layout,
    open: Mutex<HashMap<String, Session>>,
}

impl Sessions {
    /// Those that the last service left. A file that cannot be read is as good as none: people log in again.
    pub(crate) fn load(layout: Layout) -> Self {
        let path = layout.sessions();
        let wrong = |why: String| Error::on("read", &path)(io::Error::new(ErrorKind::InvalidData, why));
        let read = match files::read_regular(&path, FILE_MAX) {
            Ok(Some(bytes)) => json::from_slice::<Vec<Session>>(&bytes).map_err(|error| wrong(error.to_string())),
            Ok(None) => Err(wrong("it is too long".to_owned())),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(error),
        };
        let sessions = read.unwrap_or_else(|error| {
            warn!(error = %chain(&error), "the sessions cannot be read; everybody has to log in again");
            Vec::new()
        });
        let open = sessions.into_iter().map(|session| (session.sha256.clone(), session)).collect();
        Self { layout, open: Mutex::new(open) }
    }

    /// Opens a session; the text is what the browser is to send. Durable before it is returned.
    pub(crate) fn open(
        &self,
        bound: impl FnOnce(&str) -> Bound,
        now: Timestamp,
        expires_at: Timestamp,
    ) -> Result<String, Error> {
        let (session, text) =
            Session::new(bound, now, expires_at).map_err(Error::on("make", &self.layout.sessions()))?;
        self.change(now, |open| {
            for hash in session.superfluous(open.values()) {
                open.remove(&hash);
            }
            open.insert(session.sha256.clone(), session);
        })?;
        Ok(text)
    }

    /// What the session with this text was opened with, if it is open at this moment.
    pub(crate) fn find(&self, text: &str, now: Timestamp) -> Option<Bound> {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.get(&hash(text)).filter(|session| session.is_open(now)).map(|session| session.bound.clone())
    }

    /// When the session whose text has this hash ends, if it is open at this moment.
    pub(crate) fn end_of(&self, hash: &str, now: Timestamp) -> Option<Timestamp> {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.get(hash).map(|session| session.expires_at).filter(|end| now < *end)
    }

    /// The hash of a session's text, by which an open stream knows its session.
    pub(crate) fn hash_of(text: &str) -> String {
        hash(text)
    }

    /// Ends the session with this text; whether there was one.
    pub(crate) fn close(&self, text: &str, now: Timestamp) -> Result<bool, Error> {
        let hash = hash(text);
        if !self.open.lock().unwrap_or_else(PoisonError::into_inner).contains_key(&hash) {
            return Ok(false);
        }
        self.change(now, |open| drop(open.remove(&hash))).map(|()| true)
    }

    /// Changes the sessions in the file, then in memory; those that are over go.
    fn change(&self, now: Timestamp, work: impl FnOnce(&mut HashMap<String, Session>)) -> Result<(), Error> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let mut changed = open.clone();
        changed.retain(|_, session| session.is_open(now));
        work(&mut changed);
        let mut listed: Vec<&Session> = changed.values().collect();
        listed.sort_by(|one, other| (one.created_at, &one.sha256).cmp(&(other.created_at, &other.sha256)));
        let path = self.layout.sessions();
        let text = serde_json::to_vec_pretty(&listed);
        let text = text.map_err(|error| Error::on("write", &path)(io::Error::from(error)))?;
        files::write_private_durably(&path, &text)?;
        *open = changed;
        Ok(())
    }
}

impl Bound {
    /// What proves that the session with this text was opened with this secret.
    pub(crate) fn proof(text: &str, secret: &str) -> String {
        let mut hash = Sha256::new();
        hash.update(text);
        hash.update([0]);
        hash.update(secret);
        hex::encode(hash.finalize())
    }
}

fn hash(text: &str) -> String {
    hex::encode(Sha256::digest(text))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_micros(second * 1_000_000)
    }

    fn of_token(number: usize) -> Bound {
        Bound::Token { sha256: format!("{number:064}") }
    }

    #[test]
    fn a_session_is_open_until_its_end_also_after_a_restart_and_its_text_is_nowhere() {
        let folder = tempfile::tempdir().unwrap();
        let layout = Layout::new(folder.path());
        let sessions = Sessions::load(layout.clone());
        let bound = |text: &str| Bound::Setting { proof: Bound::proof(text, "t0ken") };
        let text = sessions.open(bound, at(1), at(9)).unwrap();
        let other = sessions.open(|_| of_token(1), at(2), at(9)).unwrap();
        for sessions in [&sessions, &Sessions::load(layout.clone())] {
            assert_eq!(sessions.find(&text, at(8)), Some(bound(&text)));
            assert_eq!(sessions.find(&other, at(8)), Some(of_token(1)));
            assert_eq!(sessions.find(&text, at(9)), None, "over");
            for wrong in ["", "ss_", &text[1..], &hash(&text)] {
                assert_eq!(sessions.find(wrong, at(8)), None, "{wrong}");
            }
        }
        let file = fs::read_to_string(layout.sessions()).unwrap();
        assert!(!file.contains(&text) && !file.contains("t0ken") && !file.contains(&hash("t0ken")), "{file}");
        assert_eq!(fs::metadata(layout.sessions()).unwrap().permissions().mode() & 0o777, 0o600);

        assert!(sessions.close(&text, at(3)).unwrap());
        assert!(!sessions.close(&text, at(3)).unwrap());
        assert_eq!(Sessions::load(layout.clone()).find(&text, at(4)), None, "closed for the next service, too");
        sessions.open(|_| of_token(2), at(20), at(30)).unwrap();
        let file = fs::read_to_string(layout.sessions()).unwrap();
        assert_eq!(file.matches("sha256").count(), 2, "what is over goes with the next change: {file}");
    }

    #[test]
    fn there_are_never_more_sessions_than_may_be_and_the_oldest_goes() {
        let folder = tempfile::tempdir().unwrap();
        let sessions = Sessions::load(Layout::new(folder.path()));
        let first = sessions.open(|_| of_token(0), at(1), at(9_000)).unwrap();
        {
            let mut open = sessions.open.lock().unwrap();
            for number in 1..MOST {
                let (sha256, created_at) = (format!("{number}"), at(2));
                let session =
                    Session { sha256: sha256.clone(), bound: of_token(number), created_at, expires_at: at(9_000) };
                open.insert(sha256, session);
            }
        }
        let last = sessions.open(|_| of_token(1), at(3), at(9_000)).unwrap();
        assert_eq!(sessions.open.lock().unwrap().len(), MOST);
        assert_eq!((sessions.find(&first, at(4)), sessions.find(&last, at(4))), (None, Some(of_token(1))));
    }

    #[test]
    fn whoever_has_a_token_cannot_end_the_sessions_of_others_by_logging_in_again_and_again() {
        let session = |number, second| {
            let (bound, of) = (of_token(number), at(i64::try_from(second).unwrap()));
            Session { sha256: format!("{number}-{second}"), bound, created_at: of, expires_at: at(9_000) }
        };
        let setting = |text: &str| Bound::Setting { proof: Bound::proof(text, "t0ken") };
        let of_setting = Session { sha256: "setting".to_owned(), bound: setting("a"), ..session(0, 0) };
        let mut open: HashMap<String, Session> =
            [session(1, 1), of_setting].into_iter().map(|it| (it.sha256.clone(), it)).collect();
        for second in 2..2 * MOST {
            let next = session(2, second);
            for hash in next.superfluous(open.values()) {
                open.remove(&hash);
            }
            open.insert(next.sha256.clone(), next);
        }
        assert_eq!(open.len(), MOST_OF_TOKEN + 2);
        assert!(open.contains_key("1-1") && open.contains_key("setting"));
        assert!(open.contains_key(&format!("2-{}", 2 * MOST - MOST_OF_TOKEN)), "its oldest has gone");
        for number in 3..2 * MOST {
            let next = session(number, 2 * MOST + number);
            for hash in next.superfluous(open.values()) {
                open.remove(&hash);
            }
            open.insert(next.sha256.clone(), next);
        }
        assert_eq!(open.len(), MOST);
        assert!(!open.contains_key("setting"), "of too many the oldest goes");
    }

    #[test]
    fn a_damaged_file_opens_nothing_and_is_replaced_by_the_next_log_in() {
        let folder = tempfile::tempdir().unwrap();
        let layout = Layout::new(folder.path());
        fs::write(layout.sessions(), "[{]").unwrap();
        let sessions = Sessions::load(layout.clone());
        assert_eq!(sessions.find("ss_x", at(1)), None);
        let text = sessions.open(|_| of_token(1), at(1), at(2)).unwrap();
        assert!(Sessions::load(layout).find(&text, at(1)).is_some());
    }
}
