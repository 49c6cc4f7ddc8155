//! Where the database is: a URL, read and shown without its password.

use std::fmt;
use std::path::PathBuf;

use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};

use super::tls::{Tls, Trust};

/// The schema that holds the tables, unless the URL names another.
const USUAL_SCHEMA: &str = "skill_runner";

/// A database, and how to reach it.
#[derive(Clone)]
pub(super) struct Place {
    pub(super) config: Config,
    pub(super) tls: Tls,
    /// A plain name: it needs no quotes in SQL.
    pub(super) schema: String,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let host = match self.config.get_hosts().first() {
            Some(Host::Tcp(name)) => name.clone(),
            Some(Host::Unix(path)) => path.display().to_string(),
            None => "localhost".to_owned(),
        };
        let port = self.config.get_ports().first().copied().unwrap_or(5432);
        let database = self.config.get_dbname().or(self.config.get_user()).unwrap_or_default();
        write!(f, "{database}.{} on {host}:{port}", self.schema)
    }
}

impl Place {
    /// Reads a URL as libpq does, with `sslmode=verify-full`, `sslrootcert=` and `schema=` besides.
    pub(super) fn parse(url: &str) -> Result<Place, String> {
        let (rest, query) = url.split_once('?').unwrap_or((url, ""));
        let (mut kept, mut schema, mut roots, mut mode) = (Vec::new(), USUAL_SCHEMA.to_owned(), None, None);
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').ok_or("a parameter has no value")?;
            let decoded =
                percent_encoding::percent_decode_str(value).decode_utf8().map_err(|error| error.to_string())?;
            match name {
                "schema" => schema = decoded.into_owned(),
                "sslrootcert" => roots = Some(PathBuf::from(decoded.as_ref())),
                "sslmode" => mode = Some(decoded.into_owned()),
                _ => kept.push(pair),
            }
        }
        let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
        if !schema.bytes().all(plain)
            || !schema.starts_with(|first: char| first.is_ascii_lowercase())
            || schema.len() > 40
        {
            return Err("schema must be a name of small letters, digits and _".to_owned());
        }
        let mut config: Config = format!("{rest}?{}", kept.join("&")).parse().map_err(|error| told(&error))?;
        let (mode, trust) = match mode.as_deref() {
            None | Some("prefer") => (SslMode::Prefer, Trust::Anyone),
            Some("disable") => (SslMode::Disable, Trust::Anyone),
            Some("require") => (SslMode::Require, Trust::Anyone),
            Some("verify-full") => (SslMode::Require, Trust::Roots(roots.clone())),
            Some(_) => return Err("sslmode must be disable, prefer, require or verify-full".to_owned()),
        };
        if roots.is_some() && trust == Trust::Anyone {
            return Err("sslrootcert needs sslmode=verify-full".to_owned());
        }
        if config.get_hosts().is_empty() {
            config.host("localhost");
        }
        if config.get_user().is_none() {
            return Err("the URL names no user, as in postgres://USER:PASSWORD@HOST/DATABASE".to_owned());
        }
        config.ssl_mode(mode);
        Ok(Place { config, tls: Tls::new(&trust)?, schema })
    }
}

/// The cause of an error without what it repeats.
fn told(error: &tokio_postgres::Error) -> String {
    std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong(url: &str) -> String {
        Place::parse(url).map(|place| place.to_string()).unwrap_or_else(|reason| reason)
    }

    #[test]
    fn a_url_is_read_and_shown_without_its_password() {
        assert_eq!(wrong("postgres://me:secret@db.example:6000/runs"), "runs.skill_runner on db.example:6000");
        assert_eq!(wrong("postgresql://me:secret@db/runs?schema=two&sslmode=require"), "runs.two on db:5432");
        assert_eq!(wrong("postgres://me@%2Frun%2Fpostgresql"), "me.skill_runner on /run/postgresql:5432");
    }

    #[test]
    fn what_is_wrong_with_a_url_is_named() {
        for (url, reason) in [
            ("postgres://h/d", "the URL names no user, as in postgres://USER:PASSWORD@HOST/DATABASE"),
            ("postgres://u@h/d?schema=A-b", "schema must be a name of small letters, digits and _"),
            ("postgres://u@h/d?sslmode=verify-ca", "sslmode must be disable, prefer, require or verify-full"),
            ("postgres://u@h/d?sslrootcert=/x", "sslrootcert needs sslmode=verify-full"),
            (
                "postgres://u@h/d?sslmode=verify-full&sslrootcert=/none",
                "/none cannot be read: No such file or directory (os error 2)",
            ),
            ("postgres://u@h:x/d", "invalid value for option `port`"),
        ] {
            assert_eq!(wrong(url), reason, "{url}");
        }
    }
}
