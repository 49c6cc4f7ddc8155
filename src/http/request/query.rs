//! Query strings, read strictly: every parameter is known, given once, and has a valid value.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use percent_encoding::percent_decode_str;

use crate::domain::time::Timestamp;
use crate::http::answer::problem::Problem;

/// The one parameter that may be given more than once.
const REPEATABLE: &str = "label";

/// The parameters of a query string that have not been read yet.
#[derive(Debug)]
pub(crate) struct Query(Vec<(String, String)>);

impl<S: Sync> FromRequestParts<S> for Query {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        Self::parse(parts.uri.query().unwrap_or_default())
    }
}

impl Query {
    pub(crate) fn parse(text: &str) -> Result<Self, Problem> {
        let mut pairs: Vec<(String, String)> = Vec::new();
        for pair in text.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let name = decoded(name)?;
            let value = decoded(value).map_err(|_| Problem::invalid(&name, "is not percent-encoded UTF-8"))?;
            if name != REPEATABLE && pairs.iter().any(|(other, _)| *other == name) {
                return Err(Problem::invalid(&name, "is given twice"));
            }
            pairs.push((name, value));
        }
        Ok(Self(pairs))
    }

    /// Every value of a parameter that may be repeated.
    pub(crate) fn all(&mut self, name: &str) -> Vec<String> {
        std::iter::from_fn(|| self.text(name)).collect()
    }

    pub(crate) fn text(&mut self, name: &str) -> Option<String> {
        let at = self.0.iter().position(|(other, _)| other == name)?;
        Some(self.0.swap_remove(at).1)
    }

    pub(crate) fn whole(&mut self, name: &str) -> Result<Option<u64>, Problem> {
        let whole = |text: String| {
            whole_number(&text)
                .ok_or_else(|| Problem::invalid(name, format!("must be a whole number of 0 or more, not {text:?}")))
        };
        self.text(name).map(whole).transpose()
    }

    /// A whole number from 1 to `max`.
    pub(crate) fn limit(&mut self, name: &str, default: u64, max: u64) -> Result<u64, Problem> {
        match self.whole(name)? {
            None => Ok(default),
            Some(limit) if (1..=max).contains(&limit) => Ok(limit),
            Some(limit) => Err(Problem::invalid(name, format!("must be from 1 to {max}, not {limit}"))),
        }
    }

    pub(crate) fn time(&mut self, name: &str) -> Result<Option<Timestamp>, Problem> {
        let time = |text: String| {
            text.parse().map_err(|error: crate::domain::time::NotATime| Problem::invalid(name, error.to_string()))
        };
        self.text(name).map(time).transpose()
    }

    /// Refuses parameters that no handler has read.
    pub(crate) fn finish(self) -> Result<(), Problem> {
        match self.0.first() {
            None => Ok(()),
            Some((name, _)) => Err(unknown(name, &[])),
        }
    }
}

/// Refuses parameters that a route does not read.
pub(crate) fn only_known(text: &str, known: &[&str]) -> Result<(), Problem> {
    for pair in text.split('&').filter(|pair| !pair.is_empty()) {
        let name = decoded(pair.split_once('=').map_or(pair, |(name, _)| name))?;
        if !known.contains(&name.as_str()) {
            return Err(unknown(&name, known));
        }
    }
    Ok(())
}

fn unknown(name: &str, known: &[&str]) -> Problem {
    let shown: String = name.chars().take(64).collect();
    let has = if known.is_empty() { String::new() } else { format!(", which reads {}", known.join(", ")) };
    Problem::invalid(&shown, format!("is not a parameter of this route{has}"))
}

/// Digits and nothing else: no sign, no space, no fraction.
pub(crate) fn whole_number(text: &str) -> Option<u64> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    text.parse().ok()
}

fn decoded(text: &str) -> Result<String, Problem> {
    // In a query string a + is a space; access.rs has refused a % without its two digits.
    let text = text.replace('+', " ");
    let decoded = percent_decode_str(&text).decode_utf8().map_err(|_| not_utf8())?;
    Ok(decoded.into_owned())
}

fn not_utf8() -> Problem {
    let message = "the query string is not percent-encoded UTF-8".to_owned();
    Problem::InvalidRequest { message, details: Vec::new() }
}
