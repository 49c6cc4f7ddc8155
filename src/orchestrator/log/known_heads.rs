//! Rows of runs as they were parsed last: several parts of one request ask for the same run, and clients ask for it again.

use std::sync::{Mutex, PoisonError};

use bytes::Bytes;

use crate::domain::ids::RunId;
use crate::fcmp::LogHead;
use crate::orchestrator::error::Error;
use crate::orchestrator::log::journal::parse_head;

/// How many runs are known at most.
const RUNS: usize = 64;
/// Longer rows are parsed each time, so that the memory is bounded.
const ROW_MAX: usize = 8 * 1024;

/// The run of a row, if it was parsed before. Each run has one place, by its id.
pub(crate) struct KnownHeads(Vec<Mutex<Option<(Bytes, LogHead)>>>);

impl Default for KnownHeads {
    fn default() -> Self {
        Self((0..RUNS).map(|_| Mutex::default()).collect())
    }
}

impl KnownHeads {
    /// What a row says. It is compared byte for byte with the one that was parsed, so the answer is never that of another.
    pub(crate) fn parse(&self, run: RunId, row: Bytes) -> Result<LogHead, Error> {
        // The last bytes of an id are random.
        let place = usize::from(run.as_bytes()[15]) % RUNS;
        let Some(place) = self.0.get(place).filter(|_| row.len() <= ROW_MAX) else { return parse_head(run, &row) };
        let mut known = place.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, head)) = known.as_ref().filter(|(parsed, head)| head.state.run_id == run && *parsed == row) {
            return Ok(head.clone());
        }
        let head = parse_head(run, &row)?;
        *known = Some((row, head.clone()));
        Ok(head)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use uuid::Uuid;

    use super::*;
    use crate::domain::command::Command;
    use crate::domain::decide;
    use crate::domain::time::Timestamp;
    use crate::fcmp::Encoder;

    fn created(run: RunId, at: i64) -> LogHead {
        let started = json!({
            "request_id": Uuid::from_u128(2), "skill": {"id": "s", "version": "1.0.0", "fingerprint": ""},
            "engine": "script", "model": null, "execution_mode": "auto", "input": {}, "parameter": {},
            "awaiting_upload": false, "idempotency_sha256": null,
            "runtime_options": {
                "execution_mode": "auto", "no_cache": false, "debug": false, "debug_keep_temp": false,
                "verbose": false, "interactive_auto_reply": false, "interactive_reply_timeout_sec": 1,
                "hard_timeout_seconds": 60, "stall_timeout_seconds": 0,
            },
        });
        let create = Command::Create(Box::new(serde_json::from_value(started).unwrap()));
        let now = Timestamp::from_micros(at);
        let pages = Encoder::new(run).encode(decide(None, create, None, now).unwrap(), now).unwrap();
        pages.into_iter().next().unwrap().head
    }

    #[test]
    fn a_row_is_told_as_it_stands_whatever_was_parsed_before() {
        let known = KnownHeads::default();
        // Two runs in the same place, and two rows of the same run.
        for (id, at) in [(1, 1), (1 + RUNS as u128, 1), (1, 1), (1, 2), (1, 1)] {
            let run = RunId(Uuid::from_u128(id));
            let head = created(run, at);
            let row = Bytes::from(head.to_row().unwrap());
            assert_eq!(known.parse(run, row.clone()).unwrap(), head);
            assert_eq!(known.parse(run, row).unwrap(), head);
        }
        let run = RunId(Uuid::from_u128(1));
        assert!(known.parse(run, Bytes::from_static(b"{}")).is_err());
        let long = [created(run, 1).to_row().unwrap(), vec![b' '; ROW_MAX]].concat();
        assert_eq!(known.parse(run, long.into()).unwrap(), created(run, 1));
    }

    /// Whoever deletes a run, or makes a copy of it, finds its files by what the row says.
    #[test]
    fn a_row_of_another_run_or_with_names_that_lead_elsewhere_is_damage() {
        let known = KnownHeads::default();
        let (run, other) = (RunId(Uuid::from_u128(1)), RunId(Uuid::from_u128(1 + RUNS as u128)));
        let head = created(run, 1);
        let row = Bytes::from(head.to_row().unwrap());
        assert_eq!(known.parse(run, row.clone()).unwrap(), head);
        let refused = |run, row: Bytes| match known.parse(run, row) {
            Err(Error::Corrupt { message, .. }) => message,
            other => panic!("{other:?}"),
        };
        assert!(refused(other, row).contains("is that of run"));
        for wrong in ["..", ".", "../runs", "/etc", "a/b", "a\0b"] {
            for name in ["engine", "skill", "fingerprint"] {
                let mut forged = head.clone();
                match name {
                    "engine" => forged.state.engine = wrong.into(),
                    "skill" => forged.state.skill.id = wrong.into(),
                    _ => forged.state.skill.fingerprint = wrong.into(),
                }
                let told = refused(run, forged.to_row().unwrap().into());
                assert!(told.contains(name) && told.contains("leads elsewhere"), "{told}");
            }
        }
    }
}
