//! The run that somebody means: by its id, by the first characters of its id, or as the last one.

use uuid::Uuid;

use crate::cli::failure::Failure;
use crate::domain::ids::RunId;

/// The word for the newest run.
const LAST: &str = "last";
/// Fewest digits that may stand for an id. Ids begin with the time, so fewer would fit all runs of a day.
const PREFIX_MIN: usize = 6;
/// Digits of a whole id.
const DIGITS: usize = 32;

/// The run that `id` names. `exact` looks up a whole request id or run id; `newest` lists runs older than one, newest first.
pub(crate) fn resolve(
    id: &str,
    exact: impl FnOnce() -> Result<RunId, Failure>,
    newest: impl FnOnce(Option<RunId>, usize) -> Result<Vec<RunId>, Failure>,
) -> Result<RunId, Failure> {
    if id == LAST {
        let none = || Failure::NotFound("there are no runs yet".to_owned());
        return newest(None, 1)?.first().copied().ok_or_else(none);
    }
    let Some(prefix) = prefix(id) else { return exact() };
    let found = newest(last_with(&prefix), 2)?;
    let fits = |run: &&RunId| run.0.as_simple().to_string().starts_with(&prefix);
    match found.iter().filter(fits).collect::<Vec<_>>()[..] {
        [] => Err(Failure::unknown_run(id)),
        [run] => Ok(*run),
        [one, other, ..] => Err(Failure::Usage(format!(
            "several runs begin with {id:?}, such as {one} and {other}; give more characters, or `last`"
        ))),
    }
}

/// Whether this can name a run without being its whole id.
pub(crate) fn is_short(id: &str) -> bool {
    id == LAST || prefix(id).is_some()
}

/// The digits of the first part of an id; none for anything else.
fn prefix(id: &str) -> Option<String> {
    let digits: String = id.chars().filter(|character| *character != '-').collect();
    let fits = (PREFIX_MIN..DIGITS).contains(&digits.len());
    let hex = digits.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte));
    (fits && hex).then_some(digits)
}

/// An id after all those that begin with these digits; none if they may be the newest of all.
fn last_with(prefix: &str) -> Option<RunId> {
    let highest = u128::from_str_radix(&format!("{prefix:f<DIGITS$}"), 16).ok()?;
    highest.checked_add(1).map(|id| RunId(Uuid::from_u128(id)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(text: &str) -> RunId {
        text.parse().unwrap()
    }

    fn found(text: &str) -> Result<RunId, String> {
        let mut all = [
            id("0192f3c1-8a54-7cc2-b0a1-d2f8a6c1e9b7"),
            id("0192f3c1-8a54-7cc2-b0a1-d2f8a6c1e9b8"),
            id("0192f3c1-9000-7cc2-b0a1-d2f8a6c1e9b7"),
            id("ffffffff-ffff-7fff-bfff-ffffffffffff"),
        ];
        all.sort_unstable_by(|one, other| other.cmp(one));
        let newest = |before: Option<RunId>, limit: usize| {
            Ok(all.iter().copied().filter(|run| before.is_none_or(|before| *run < before)).take(limit).collect())
        };
        resolve(text, || Err(Failure::Broken("exact".into())), newest).map_err(|failure| format!("{failure:?}"))
    }

    #[test]
    fn a_run_is_found_by_the_first_digits_of_its_id_if_no_other_begins_so() {
        assert_eq!(found("0192f3c1-9"), Ok(id("0192f3c1-9000-7cc2-b0a1-d2f8a6c1e9b7")));
        assert_eq!(found("0192f3c18a547cc2b0a1d2f8a6c1e9b8"), Err("Broken(\"exact\")".into()), "a whole id");
        assert_eq!(found("0192f3c1-8a54-7cc2-b0a1-d2f8a6c1e9b").map_err(|it| it.contains("several")), Err(true));
        assert_eq!(found("0192f3c1-7").map_err(|it| it.contains("REQUEST_NOT_FOUND")), Err(true));
        assert_eq!(found("ffffff"), Ok(id("ffffffff-ffff-7fff-bfff-ffffffffffff")));
        assert_eq!(found("last"), Ok(id("ffffffff-ffff-7fff-bfff-ffffffffffff")));
        for other in ["0192f", "nothing", "0192F3C1"] {
            assert_eq!(found(other), Err("Broken(\"exact\")".into()), "{other}");
        }
    }
}
