//! Where the log is kept: in the data folder, or in a database that a URL names.

use std::fmt;

use super::reader::MASK;

/// Back ends of the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum StoreKind {
    /// Embedded, in the data folder.
    Sled,
    /// A PostgreSQL database.
    Postgres(StoreUrl),
}

impl StoreKind {
    pub(crate) fn parse(text: &str) -> Result<StoreKind, String> {
        if text.eq_ignore_ascii_case("sled") {
            return Ok(StoreKind::Sled);
        }
        let is_url = ["postgres://", "postgresql://"].iter().any(|scheme| text.starts_with(scheme));
        if is_url && !text.contains(char::is_whitespace) {
            return Ok(StoreKind::Postgres(StoreUrl(text.to_owned())));
        }
        // The value is not part of the message: it may hold a password.
        Err("must be sled or a URL such as postgres://USER:PASSWORD@HOST/DATABASE".to_owned())
    }
}

impl fmt::Display for StoreKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StoreKind::Sled => f.write_str("sled"),
            StoreKind::Postgres(url) => fmt::Display::fmt(url, f),
        }
    }
}

/// A URL that is never shown with its password.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct StoreUrl(String);

impl StoreUrl {
    /// The URL itself, for the one connection it is kept for.
    pub(crate) fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (scheme, rest) = self.0.split_once("://").unwrap_or(("", &self.0));
        // A password may hold `/` and `?` that should have been written as %2F and %3F: what is before the last @ is not shown.
        let (login, place) = rest.rsplit_once('@').map_or((None, rest), |(login, place)| (Some(login), place));
        write!(f, "{scheme}://")?;
        if let Some(login) = login {
            match login.split_once(':') {
                Some((user, _)) => write!(f, "{user}:{MASK}@")?,
                None => write!(f, "{login}@")?,
            }
        }
        let (place, query) = place.split_once('?').unwrap_or((place, ""));
        f.write_str(place)?;
        for (n, pair) in query.split('&').filter(|pair| !pair.is_empty()).enumerate() {
            let name = pair.split_once('=').map_or(pair, |(name, _)| name);
            let start = if n == 0 { '?' } else { '&' };
            match name {
                "password" | "sslpassword" => write!(f, "{start}{name}={MASK}")?,
                _ => write!(f, "{start}{pair}")?,
            }
        }
        Ok(())
    }
}

impl fmt::Debug for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_shown_nowhere() {
        for (url, shown) in [
            ("postgres://u:pw@h:1/d?sslmode=require", "postgres://u:********@h:1/d?sslmode=require"),
            ("postgresql://u@h/d", "postgresql://u@h/d"),
            ("postgres://h/d?user=u&password=pw&schema=s", "postgres://h/d?user=u&password=********&schema=s"),
            ("postgres://u:p/w?x@y@h/d", "postgres://u:********@h/d"),
        ] {
            let kind = StoreKind::parse(url).unwrap();
            assert_eq!(kind.to_string(), shown);
            assert!(!format!("{kind:?}").contains("pw"), "{kind:?}");
        }
        for wrong in ["oracle", "mysql://u:pw@h", "postgres://u:p w@h", ""] {
            assert!(StoreKind::parse(wrong).unwrap_err().starts_with("must be sled or a URL"), "{wrong}");
        }
    }
}
