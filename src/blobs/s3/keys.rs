//! The keys for a bucket, from the settings or from a file.

use std::path::Path;

use crate::blobs::error::Error;
use crate::domain::causes::chain;
use crate::files;
use crate::settings::S3Keys;

/// Longest file with keys.
const FILE_MAX: u64 = 64 * 1024;
/// The part of the file that is read.
const PROFILE: &str = "default";

pub(super) struct Keys {
    pub(super) id: String,
    pub(super) secret: String,
    pub(super) session: Option<String>,
}

impl Keys {
    /// The keys as they are now: a file is read each time, so that it can be replaced while the service works.
    pub(super) fn now(from: &S3Keys) -> Result<Self, Error> {
        match from {
            S3Keys::Given { id, secret, session } => Ok(Self {
                id: id.expose().to_owned(),
                secret: secret.expose().to_owned(),
                session: session.as_ref().map(|token| token.expose().to_owned()),
            }),
            S3Keys::File(path) => from_file(path),
        }
    }

    /// A text of somebody else without what must not be shown.
    pub(super) fn hidden_in(&self, text: &str) -> String {
        let secrets = [Some(&self.secret), self.session.as_ref(), Some(&self.id)];
        let secrets = secrets.into_iter().flatten().filter(|secret| !secret.is_empty());
        secrets.fold(text.to_owned(), |text, secret| text.replace(secret.as_str(), "********"))
    }
}

/// A file that is being replaced may be away for a moment.
fn from_file(path: &Path) -> Result<Keys, Error> {
    let unreachable = |reason: String| Error::Unreachable { reason: format!("s3_credentials_file: {reason}") };
    let bytes = files::read_regular(path, FILE_MAX).map_err(|error| unreachable(chain(&error)))?;
    let keys = bytes.and_then(|bytes| String::from_utf8(bytes).ok()).and_then(|text| parse(&text));
    let wanted = "has no aws_access_key_id and aws_secret_access_key under [default]";
    keys.ok_or_else(|| unreachable(format!("{} {wanted}", path.display())))
}

pub(super) fn parse(text: &str) -> Option<Keys> {
    let (mut section, mut found) = ("", [None, None, None]);
    for line in text.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            section = name.trim();
        } else if section == PROFILE
            && let Some((name, value)) = line.split_once('=')
        {
            let names = ["aws_access_key_id", "aws_secret_access_key", "aws_session_token"];
            let place = names.iter().position(|known| *known == name.trim());
            // It becomes part of a header.
            let value = Some(value.trim()).filter(|value| value.bytes().all(|byte| byte.is_ascii_graphic()));
            if let Some(slot) = place.and_then(|place| found.get_mut(place)) {
                *slot = value.filter(|value| !value.is_empty()).map(str::to_owned);
            }
        }
    }
    let [id, secret, session] = found;
    Some(Keys { id: id?, secret: secret?, session })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_read_from_the_default_part_of_a_file() {
        let text = "# keys\n[other]\naws_access_key_id = no\n[default]\naws_access_key_id=ID\n\
                    aws_secret_access_key = SE=CRET\naws_session_token=\n[more]\naws_session_token=no\n";
        let keys = parse(text).unwrap();
        assert_eq!((keys.id.as_str(), keys.secret.as_str(), keys.session), ("ID", "SE=CRET", None));
        for wrong in ["", "aws_access_key_id=x\naws_secret_access_key=y", "[default]\naws_access_key_id=x"] {
            assert!(parse(wrong).is_none(), "{wrong}");
        }
    }
}
