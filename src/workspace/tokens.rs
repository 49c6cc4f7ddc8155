//! The named tokens of a data folder: who may do how much. The file holds their hashes, never the tokens themselves.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rustix::rand::{GetRandomFlags, getrandom};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use tracing::warn;

use super::layout::Layout;
use crate::bounded::json;
use crate::domain::time::Timestamp;
use crate::files::{self, Error, Mark};

/// Longest file of tokens that is read; some ten thousand of them.
const FILE_MAX: u64 = 4 * 1024 * 1024;
/// What every token begins with, so that one that turns up somewhere can be told from other text.
const PREFIX: &str = "sr_";
const NAME_MAX: usize = 64;

/// What a token allows; each includes those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Scope {
    Read,
    Run,
    Admin,
}

impl Scope {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Run => "run",
            Self::Admin => "admin",
        }
    }
}

/// A token, as it is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct NamedToken {
    pub(crate) name: String,
    pub(crate) scope: Scope,
    /// Of the token's text. It has 256 random bits, so that a fast hash is enough.
    sha256: String,
    pub(crate) created_at: Timestamp,
    #[serde(default)]
    pub(crate) expires_at: Option<Timestamp>,
}

impl NamedToken {
    /// A text for a new token; nobody can guess it.
    pub(crate) fn new_text() -> io::Result<String> {
        new_secret(PREFIX)
    }

    /// The token with this text.
    pub(crate) fn new(
        name: &str,
        scope: Scope,
        text: &str,
        now: Timestamp,
        expires_at: Option<Timestamp>,
    ) -> Result<Self, TokenError> {
        let letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        let fits = name.len() <= NAME_MAX
            && name.bytes().next().is_some_and(letter)
            && name.bytes().all(|byte| letter(byte) || b"._-".contains(&byte));
        if !fits {
            return Err(TokenError::Name { name: name.chars().take(NAME_MAX).collect() });
        }
        Ok(Self { name: name.to_owned(), scope, sha256: hash(text), created_at: now, expires_at })
    }

    /// Whether a text may be that of a named token.
    pub(crate) fn may_be(text: &str) -> bool {
        text.starts_with(PREFIX)
    }

    /// The hash of its text, by which a session knows its token.
    pub(crate) fn hash(&self) -> &str {
        &self.sha256
    }

    pub(crate) fn is_expired(&self, now: Timestamp) -> bool {
        self.expires_at.is_some_and(|end| end <= now)
    }
}

/// Why a change of the tokens was refused.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TokenError {
    #[error(
        "{name:?} is no name for a token: use up to 64 of the characters a-z, 0-9, '.', '_' and '-', and begin with a letter or digit"
    )]
    Name { name: String },
    #[error("there is already a token named {name:?}; revoke it first, or choose another name")]
    Exists { name: String },
    #[error("there is no token named {name:?}")]
    Missing { name: String },
    #[error("the data directory belongs to another user (uid {owner}); run this command as that user")]
    NotOwner { owner: u32 },
    #[error("read and write the tokens")]
    File(#[from] Error),
}

/// The tokens of a data folder, oldest first.
pub(crate) fn read_tokens(layout: &Layout) -> Result<Vec<NamedToken>, Error> {
    let path = layout.tokens();
    let wrong = |why: &str| {
        let message = format!("it is not a list of tokens ({why}): restore it, or remove it and make the tokens anew");
        Error::on("read", &path)(io::Error::new(ErrorKind::InvalidData, message))
    };
    match files::read_regular(&path, FILE_MAX) {
        Ok(Some(bytes)) => json::from_slice(&bytes).map_err(|error| wrong(&error.to_string())),
        Ok(None) => Err(wrong("it is too long")),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// Makes a token. Its text is returned, and cannot be had again.
pub(crate) fn create_token(
    layout: &Layout,
    name: &str,
    scope: Scope,
    now: Timestamp,
    expires_at: Option<Timestamp>,
) -> Result<String, TokenError> {
    let text = NamedToken::new_text().map_err(Error::on("make", &layout.tokens()))?;
    let token = NamedToken::new(name, scope, &text, now, expires_at)?;
    change(layout, |tokens| add_token(tokens, token))?;
    Ok(text)
}

/// Adds a token whose name is new.
pub(crate) fn add_token(tokens: &mut Vec<NamedToken>, token: NamedToken) -> Result<(), TokenError> {
    if tokens.iter().any(|known| known.name == token.name) {
        return Err(TokenError::Exists { name: token.name });
    }
    tokens.push(token);
    Ok(())
}

/// Removes the token with this name.
pub(crate) fn remove_token(tokens: &mut Vec<NamedToken>, name: &str) -> Result<(), TokenError> {
    let before = tokens.len();
    tokens.retain(|token| token.name != *name);
    if tokens.len() == before {
        return Err(TokenError::Missing { name: name.chars().take(NAME_MAX).collect() });
    }
    Ok(())
}

/// From now on the token opens nothing.
pub(crate) fn revoke_token(layout: &Layout, name: &str) -> Result<(), TokenError> {
    change(layout, |tokens| remove_token(tokens, name))
}

fn change(
    layout: &Layout,
    work: impl FnOnce(&mut Vec<NamedToken>) -> Result<(), TokenError>,
) -> Result<(), TokenError> {
    let path = layout.tokens();
    let folder = layout.data();
    files::create_private_folder(folder)?;
    let owner = fs::metadata(folder).map_err(Error::on("look at", folder))?.uid();
    // A file of another user could not be read by the service.
    if owner != rustix::process::geteuid().as_raw() {
        return Err(TokenError::NotOwner { owner });
    }
    let lock = files::open_lock(&layout.tokens_lock())?;
    lock.lock().map_err(Error::on("lock", &path))?;
    let mut tokens = read_tokens(layout)?;
    work(&mut tokens)?;
    let text = serde_json::to_vec_pretty(&tokens).map_err(|error| Error::on("write", &path)(io::Error::from(error)))?;
    Ok(files::write_private_durably(&path, &text)?)
}

fn hash(text: &str) -> String {
    hex::encode(Sha256::digest(text))
}

/// A text that nobody can guess: this beginning and 256 random bits.
pub(crate) fn new_secret(prefix: &str) -> io::Result<String> {
    let mut random = [0; 32];
    let mut filled = 0;
    while filled < random.len() {
        filled += getrandom(&mut random[filled..], GetRandomFlags::empty())?;
    }
    Ok(format!("{prefix}{}", URL_SAFE_NO_PAD.encode(random)))
}

/// The tokens as a service knows them. A change of the file counts from the next request on.
#[derive(Debug)]
pub(crate) struct Tokens {
    layout: Layout,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    /// The file that was read; none if there was none.
    file: Option<Mark>,
    tokens: Arc<Vec<NamedToken>>,
}

/// What a text that was shown as a token turned out to be.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Shown {
    Token(NamedToken),
    /// No token, or one that is over. Named tokens are in use here, so it is refused.
    Unknown,
    /// No named token was ever made here.
    NoneInUse,
}

impl Shown {
    /// What the text with this hash is among these tokens at this moment.
    pub(crate) fn among(tokens: &[NamedToken], hash: &str, now: Timestamp) -> Self {
        let found = tokens.iter().find(|token| token.sha256 == hash && !token.is_expired(now));
        found.map_or(Self::Unknown, |token| Self::Token(token.clone()))
    }
}

impl Tokens {
    /// The hash by which a token's text is known.
    pub(crate) fn hash_of(text: &str) -> String {
        hash(text)
    }

    pub(crate) fn new(layout: Layout) -> Self {
        Self { layout, known: Mutex::default() }
    }

    /// What this text is at this moment. A file that cannot be read opens nothing, and says so in the log.
    pub(crate) fn find(&self, text: &str, now: Timestamp) -> Shown {
        // The hashes are compared: how long that takes tells nothing about a token.
        match self.with_hash(&hash(text), now) {
            Shown::Token(_) if !NamedToken::may_be(text) => Shown::Unknown,
            shown => shown,
        }
    }

    /// The token whose text has this hash, if it opens the service at this moment.
    pub(crate) fn with_hash(&self, hash: &str, now: Timestamp) -> Shown {
        let tokens = match self.current() {
            Ok(Some(tokens)) => tokens,
            Ok(None) => return Shown::NoneInUse,
            Err(error) => {
                warn!(error = %crate::domain::causes::chain(&error), "the tokens cannot be read; none opens anything until they can");
                return Shown::Unknown;
            }
        };
        Shown::among(&tokens, hash, now)
    }

    /// Whether there is a token that opens the service at this moment.
    pub(crate) fn any_opens(&self, now: Timestamp) -> bool {
        self.current().is_ok_and(|tokens| tokens.is_some_and(|all| all.iter().any(|token| !token.is_expired(now))))
    }

    /// The file of tokens as it is; none if there is no such file.
    pub(crate) fn mark(&self) -> Option<Mark> {
        fs::symlink_metadata(self.layout.tokens()).ok().map(|found| Mark::new(&found))
    }

    /// None if there is no file.
    fn current(&self) -> Result<Option<Arc<Vec<NamedToken>>>, Error> {
        let path: PathBuf = self.layout.tokens();
        let mark = match fs::symlink_metadata(&path) {
            Ok(found) => Mark::new(&found),
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(Error::on("look at", &path)(error)),
        };
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.file != Some(mark) {
            known.tokens = Arc::new(read_tokens(&self.layout)?);
            known.file = Some(mark);
        }
        Ok(Some(known.tokens.clone()))
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_micros(second * 1_000_000)
    }

    #[test]
    fn a_token_opens_until_it_is_revoked_or_over_and_its_text_is_nowhere() {
        let folder = tempfile::tempdir().unwrap();
        let layout = Layout::new(folder.path());
        let tokens = Tokens::new(layout.clone());
        assert_eq!(tokens.find("sr_x", at(1)), Shown::NoneInUse);
        let reader = create_token(&layout, "ci-reader", Scope::Read, at(1), None).unwrap();
        let admin = create_token(&layout, "ops", Scope::Admin, at(1), Some(at(9))).unwrap();
        let kept = read_tokens(&layout).unwrap();
        assert_eq!(tokens.find(&reader, at(5)), Shown::Token(kept[0].clone()));
        assert_eq!(tokens.find(&admin, at(8)), Shown::Token(kept[1].clone()));
        assert_eq!(tokens.find(&admin, at(9)), Shown::Unknown);
        for wrong in
            ["", "sr_", &reader[1..], &format!("{reader}x"), &kept[0].sha256, &format!("sr_{}", kept[0].sha256)]
        {
            assert_eq!(tokens.find(wrong, at(5)), Shown::Unknown, "{wrong}");
        }
        let file = fs::read_to_string(layout.tokens()).unwrap();
        assert!(!file.contains(&reader) && !file.contains(&reader[PREFIX.len()..]));
        assert_eq!(fs::metadata(layout.tokens()).unwrap().permissions().mode() & 0o777, 0o600);

        revoke_token(&layout, "ci-reader").unwrap();
        assert_eq!(tokens.find(&reader, at(5)), Shown::Unknown);
        revoke_token(&layout, "ops").unwrap();
        assert_eq!(tokens.find(&reader, at(5)), Shown::Unknown, "tokens are in use, though there is none now");
        assert!(matches!(revoke_token(&layout, "ops"), Err(TokenError::Missing { .. })));
    }

    #[test]
    fn names_are_plain_and_given_once() {
        let folder = tempfile::tempdir().unwrap();
        let layout = Layout::new(folder.path());
        for name in ["", "-a", "A", "a b", "a\n", "ä", "../x", &"a".repeat(65)] {
            let refused = create_token(&layout, name, Scope::Run, at(1), None);
            assert!(matches!(refused, Err(TokenError::Name { .. })), "{name:?}");
        }
        assert!(!layout.tokens().exists(), "a refused name changes nothing");
        create_token(&layout, "a.b_c-9", Scope::Run, at(1), None).unwrap();
        assert!(matches!(create_token(&layout, "a.b_c-9", Scope::Read, at(2), None), Err(TokenError::Exists { .. })));
        assert_eq!(read_tokens(&layout).unwrap()[0].scope, Scope::Run);
    }

    #[test]
    fn a_damaged_file_opens_nothing_and_is_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let layout = Layout::new(folder.path());
        let text = create_token(&layout, "a", Scope::Admin, at(1), None).unwrap();
        fs::write(layout.tokens(), "[{]").unwrap();
        assert_eq!(Tokens::new(layout.clone()).find(&text, at(2)), Shown::Unknown);
        assert!(create_token(&layout, "b", Scope::Admin, at(1), None).is_err());
        assert_eq!(fs::read_to_string(layout.tokens()).unwrap(), "[{]");
    }
}
