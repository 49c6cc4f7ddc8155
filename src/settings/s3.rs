//! How the bucket of an object store is reached: its server, its name, and the keys.

use std::fmt;
use std::path::PathBuf;

use super::reader::{Reader, Secret};
use super::url::names_host;

pub(super) const SCHEME: &str = "s3://";
const PREFIX_MAX: usize = 512;
/// What a server that is not Amazon's takes for its region, unless it was told another.
const USUAL_REGION: &str = "us-east-1";

/// A bucket, and where in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bucket {
    pub name: String,
    /// Without a slash at its ends; empty for the bucket as a whole.
    pub prefix: String,
}

/// A bucket, and how it is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct S3Place {
    pub bucket: Bucket,
    /// The server's URL, without a slash at its end.
    pub endpoint: String,
    pub region: String,
    pub addressing: Addressing,
    pub keys: S3Keys,
}

/// Where the name of the bucket stands in a URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Addressing {
    /// In the path.
    Path,
    /// Before the name of the server.
    Virtual,
}

/// Where the keys are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum S3Keys {
    Given {
        id: Secret,
        secret: Secret,
        /// Of keys that hold for a while.
        session: Option<Secret>,
    },
    /// In a file as the tools of Amazon write it, which may be replaced at any time.
    File(PathBuf),
}

/// The settings besides the name of the bucket.
pub(super) struct Access {
    endpoint: Option<String>,
    region: Option<String>,
    addressing: Option<Addressing>,
    id: Option<Secret>,
    secret: Option<Secret>,
    session: Option<Secret>,
    file: Option<String>,
}

impl Bucket {
    /// What stands behind the scheme.
    pub(super) fn parse(rest: &str) -> Result<Self, String> {
        if rest.contains(['?', '@', '#']) {
            let message = "must be s3://BUCKET/PREFIX and nothing else: the server and the keys are settings of their \
                           own, such as s3_endpoint and s3_access_key_id";
            return Err(message.to_owned());
        }
        let (name, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        let is_part = |text: &str, more: &str| text.chars().all(|c| c.is_ascii_alphanumeric() || more.contains(c));
        let begins = name.starts_with(|c: char| c.is_ascii_alphanumeric());
        if !(3..=63).contains(&name.len()) || !begins || !is_part(name, ".-_") {
            return Err("must name a bucket of 3 to 63 letters, digits, dots and dashes: s3://BUCKET/PREFIX".to_owned());
        }
        let prefix = prefix.strip_suffix('/').unwrap_or(prefix);
        let is_step = |step: &str| !step.is_empty() && step != "." && step != ".." && is_part(step, ".-_~");
        if prefix.len() > PREFIX_MAX || !(prefix.is_empty() || prefix.split('/').all(is_step)) {
            return Err(format!(
                "must have a prefix of letters, digits, dots, dashes and underscores, with / between, of at most \
                 {PREFIX_MAX} characters"
            ));
        }
        Ok(Self { name: name.to_owned(), prefix: prefix.to_owned() })
    }
}

impl fmt::Display for Bucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{SCHEME}{}", self.name)?;
        if self.prefix.is_empty() { Ok(()) } else { write!(f, "/{}", self.prefix) }
    }
}

impl S3Place {
    /// The URL of the bucket: scheme, host and path, without a slash at its end.
    pub fn url(&self) -> (&str, String, String) {
        let (scheme, rest) = self.endpoint.split_once("://").unwrap_or(("https", &self.endpoint));
        let (host, path) =
            rest.split_once('/').map_or((rest, String::new()), |(host, path)| (host, format!("/{path}")));
        let name = &self.bucket.name;
        match self.addressing {
            Addressing::Path => (scheme, host.to_owned(), format!("{path}/{name}")),
            Addressing::Virtual => (scheme, format!("{name}.{host}"), path),
        }
    }
}

pub(super) fn read(from: &mut Reader) -> Access {
    let graphic = |character: char| character.is_ascii_graphic();
    let demand = "must be visible ASCII characters without spaces";
    Access {
        endpoint: from.optional("s3_endpoint", |text| endpoint(text).map(Some)),
        region: from.optional("s3_region", |text| {
            let is_name = !text.is_empty() && text.len() <= 64;
            let is_name = is_name && text.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c));
            is_name
                .then(|| Some(text.to_owned()))
                .ok_or_else(|| format!("must be a name such as eu-west-1, not {text:?}"))
        }),
        addressing: from.choice(
            "s3_addressing",
            None,
            &[("auto", None), ("path", Some(Addressing::Path)), ("virtual", Some(Addressing::Virtual))],
        ),
        id: from.secret("s3_access_key_id", graphic, demand),
        secret: from.secret("s3_secret_access_key", graphic, demand),
        session: from.secret("s3_session_token", graphic, demand),
        file: from.text("s3_credentials_file"),
    }
}

/// A URL of a server, as it is used: without the port that its scheme has anyway, and without a slash at its end.
fn endpoint(text: &str) -> Result<String, String> {
    // The value is not part of the message: it may hold a password.
    let wrong = || "must be a URL such as https://s3.example or http://127.0.0.1:9000, without keys".to_owned();
    let (scheme, rest) = text.trim_end_matches('/').split_once("://").ok_or_else(wrong)?;
    let usual_port = match scheme {
        "http" => ":80",
        "https" => ":443",
        _ => return Err(wrong()),
    };
    let (host, path) = rest.split_once('/').map_or((rest, String::new()), |(host, path)| (host, format!("/{path}")));
    let is_path = |c: char| c.is_ascii_alphanumeric() || ".-_~/".contains(c);
    if !names_host(host) || !path.chars().all(is_path) {
        return Err(wrong());
    }
    let host = host.strip_suffix(usual_port).unwrap_or(host);
    Ok(format!("{scheme}://{}{path}", host.to_ascii_lowercase()))
}

/// The place, if all that is needed is there.
pub(super) fn complete(from: &mut Reader, bucket: Bucket, access: Access) -> Option<S3Place> {
    let keys = match (access.id, access.secret, access.file) {
        // The variables with keys may be meant for other programs; the file is meant for this one.
        (_, _, Some(file)) => Some(S3Keys::File(PathBuf::from(file))),
        (Some(id), Some(secret), None) => Some(S3Keys::Given { id, secret, session: access.session }),
        (None, None, None) => {
            from.object(
                "s3_access_key_id",
                "blobs names a bucket, so keys are needed: set s3_access_key_id and s3_secret_access_key (or \
                 AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY), or s3_credentials_file"
                    .to_owned(),
            );
            None
        }
        (Some(_), None, None) => {
            from.object("s3_secret_access_key", "must be set together with s3_access_key_id".to_owned());
            None
        }
        (None, Some(_), None) => {
            from.object("s3_access_key_id", "must be set together with s3_secret_access_key".to_owned());
            None
        }
    };
    let usual = if access.endpoint.is_some() { Addressing::Path } else { usual_at_amazon(&bucket) };
    let (endpoint, region) = match (access.endpoint, access.region) {
        (Some(endpoint), region) => (endpoint, region.unwrap_or_else(|| USUAL_REGION.to_owned())),
        (None, Some(region)) => (format!("https://s3.{region}.amazonaws.com"), region),
        (None, None) => {
            let message = "blobs names a bucket: set the region it is in (or AWS_REGION), or s3_endpoint for a server \
                           of your own";
            from.object("s3_region", message.to_owned());
            return None;
        }
    };
    Some(S3Place { bucket, endpoint, region, addressing: access.addressing.unwrap_or(usual), keys: keys? })
}

/// A certificate for all names of a domain covers no name with a further dot.
fn usual_at_amazon(bucket: &Bucket) -> Addressing {
    if bucket.name.contains('.') { Addressing::Path } else { Addressing::Virtual }
}
