//! Which hosts the processes of a turn reached, as the runner's proxy saw it: a fact where an engine's words would be a guess.

use super::failure::Failure;
use crate::domain::codes::ErrorCode;

/// Most hosts that are kept. As many more have room if they were refused: who reaches many others first does not hide what was refused.
const HOSTS_MAX: usize = 64;

/// Why a host was not reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Closed {
    /// The run may not reach it.
    Refused(&'static str),
    /// Nobody answered there, or its name is not known.
    Unreachable(String),
}

/// A host that was tried.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Tried {
    host: String,
    port: u16,
    /// Whether it is one that the engine needs or the operator named.
    needed: bool,
    /// Whether it was ever reached.
    reached: bool,
    /// Whether the run was ever refused it.
    refused: bool,
    /// Why it was not reached when it was last tried.
    closed: Option<Closed>,
}

/// The hosts that were tried, in the order of the first time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WayOut(Vec<Tried>);

impl WayOut {
    /// A host was tried; whether it is the first time that it was refused.
    pub fn tried(&mut self, host: &str, port: u16, needed: bool, closed: Option<Closed>) -> bool {
        let (reached, refused) = (closed.is_none(), matches!(closed, Some(Closed::Refused(_))));
        let room = self.0.len() < if refused { 2 * HOSTS_MAX } else { HOSTS_MAX };
        match self.0.iter_mut().find(|tried| tried.host.eq_ignore_ascii_case(host) && tried.port == port) {
            Some(known) => {
                let first = refused && !known.refused;
                known.reached |= reached;
                known.refused |= refused;
                known.closed = closed;
                first
            }
            None if room => {
                self.0.push(Tried { host: host.to_owned(), port, needed, reached, refused, closed });
                refused
            }
            None => false,
        }
    }

    /// The failure that the engine's words stand for, if it could not reach its model's service. Other hosts may have been closed to it,
    /// too: a command's, after it has used tools; those of an update or of telemetry, if it has tried the one it needs, or reached any.
    pub(super) fn explains(&self, engine: &str, failure: &Failure, used_tools: bool) -> Option<Failure> {
        let (refused, unreachable) = (failure.may_be_status(403), failure.may_be_status(502));
        let known = self.0.iter().any(|tried| tried.needed || tried.reached);
        let fits = |tried: &&Tried| {
            let status = match &tried.closed {
                None => false,
                Some(Closed::Refused(_)) => refused,
                Some(Closed::Unreachable(_)) => unreachable,
            };
            status && (tried.reached || !used_tools) && (tried.needed || !known)
        };
        let Tried { host, port, closed, .. } = self.0.iter().rfind(fits)?;
        let (reason, connection) = match closed.as_ref()? {
            Closed::Refused(reason) => (format!("{reason}; the operator can name it in egress_allow"), false),
            Closed::Unreachable(reason) => (reason.clone(), true),
        };
        let message = format!("{engine} did not reach {host}:{port}: {reason}");
        let unreached = Some(format!("{host}:{port}"));
        Some(Failure { connection, unreached, ..Failure::new(ErrorCode::EngineFailed, &message) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unreachable() -> Option<Closed> {
        Some(Closed::Unreachable("connection refused".to_owned()))
    }

    /// What is made of a failure with this status, after these tries.
    fn explained(tries: &[(&str, bool, Option<Closed>)], status: Option<u16>, used_tools: bool) -> Option<String> {
        let mut way_out = WayOut::default();
        for (host, needed, closed) in tries {
            way_out.tried(host, 443, *needed, closed.clone());
        }
        let failure = Failure::classify(status, "the model said no");
        way_out.explains("codex", &failure, used_tools).map(|failure| failure.message)
    }

    #[test]
    fn the_host_of_the_model_that_was_not_reached_when_it_was_last_tried_is_the_cause() {
        let told = Some("codex did not reach model:443: connection refused".to_owned());
        for status in [None, Some(502)] {
            assert_eq!(explained(&[("model", true, unreachable())], status, false), told);
            assert_eq!(explained(&[("model", false, unreachable())], status, false), told, "it reached nobody");
        }
        let lost = [("model", true, None), ("model", true, unreachable())];
        assert_eq!(explained(&lost, Some(502), true), told);
        let refused = Some(Closed::Refused("it may not"));
        assert_eq!(
            explained(&[("model", false, refused)], Some(403), false).unwrap(),
            "codex did not reach model:443: it may not; the operator can name it in egress_allow"
        );
    }

    #[test]
    fn what_the_model_itself_answered_has_no_other_cause() {
        assert_eq!(explained(&[], Some(502), false), None);
        assert_eq!(explained(&[("model", true, None)], Some(502), false), None);
        assert_eq!(explained(&[("model", true, unreachable()), ("model", true, None)], Some(502), false), None);
        assert_eq!(explained(&[("model", true, unreachable())], Some(429), false), None);
        let refused = Some(Closed::Refused("it may not"));
        let both = [("updates", false, refused.clone()), ("model", true, unreachable())];
        assert_eq!(explained(&both, None, false).unwrap(), "codex did not reach model:443: connection refused");
        let updates = [("model", true, None), ("updates", false, refused)];
        assert_eq!(explained(&updates, Some(403), false), None);
        let command = [("model", true, None), ("of-a-command", true, unreachable())];
        assert_eq!(explained(&command, Some(502), true), None);
    }

    #[test]
    fn a_refused_host_is_told_once_whatever_else_became_of_it_and_others_do_not_hide_it() {
        let refused = || Some(Closed::Refused("it may not"));
        let mut way_out = WayOut::default();
        let outcomes = [None, unreachable(), refused(), None, refused(), unreachable(), refused()];
        let told = outcomes.map(|closed| way_out.tried("a", 1, false, closed));
        assert_eq!(told, [false, false, true, false, false, false, false]);
        assert!(!way_out.tried("A", 1, false, refused()), "the same host");
        for port in 0..1000 {
            assert!(!way_out.tried("reached", port, false, None));
        }
        assert_eq!(way_out.0.len(), HOSTS_MAX);
        assert_eq!((0..1000).filter(|port| way_out.tried("b", *port, false, refused())).count(), HOSTS_MAX);
        assert_eq!(way_out.0.len(), 2 * HOSTS_MAX);
    }
}
