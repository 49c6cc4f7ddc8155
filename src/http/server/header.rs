//! Headers that decide something: each is read only if it is given once and is text.

use axum::http::{HeaderMap, HeaderName};

/// The header's value, if it is there once and is text.
pub(crate) fn one<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?.to_str().ok()?;
    values.next().is_none().then_some(value)
}
