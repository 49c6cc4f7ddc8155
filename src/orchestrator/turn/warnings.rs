//! Warnings about what an engine did, and what the runner had to do about it.

use crate::domain::codes::WarningCode;
use crate::domain::event::Event;
use crate::domain::fact::{Fact, Stream};
use crate::domain::outcome::Warning;
use crate::supervisor::Ended;

/// Warnings about what the supervisor had to do.
pub(super) fn warnings(ended: &Ended) -> Vec<Warning> {
    let mut warnings = Vec::new();
    for (name, totals) in [("stdout", &ended.stdout), ("stderr", &ended.stderr)] {
        if totals.dropped > 0 {
            let message = format!("{} bytes of {name} came after the limit and were dropped", totals.dropped);
            let mut warning = Warning::new(WarningCode::LogLimitExceeded, message);
            warning.details.insert("stream".into(), name.into());
            warning.details.insert("dropped_bytes".into(), totals.dropped.into());
            warnings.push(warning);
        }
    }
    if ended.stragglers_killed > 0 {
        let message = format!("{} processes outlived the engine and were ended", ended.stragglers_killed);
        let mut warning = Warning::new(WarningCode::ProcessesLeftBehind, message);
        warning.details.insert("processes".into(), ended.stragglers_killed.into());
        warnings.push(warning);
    }
    warnings
}

pub(super) fn rewritten(stream: Stream) -> Warning {
    let name = stream.as_str();
    let message = format!("the engine changed what it had written to its {name}; some of it may be missing or twice");
    let mut warning = Warning::new(WarningCode::EngineOutputRewritten, message);
    warning.details.insert("stream".into(), name.into());
    warning
}

/// What an audit knows by why raw output and events differ.
pub(super) fn log_changed(stream: Stream) -> Warning {
    let name = stream.as_str();
    let message =
        format!("a process of the run changed the log of its {name}; what it wrote there is in the events alone");
    let mut warning = Warning::new(WarningCode::LogChanged, message);
    warning.details.insert("stream".into(), name.into());
    warning
}

pub(super) fn egress_refused(host: &str, port: u16, reason: &str) -> Warning {
    // An address of IPv6 has colons of its own.
    let place = if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
    let mut warning = Warning::new(WarningCode::EgressRefused, format!("{place} was not reached: {reason}"));
    warning.details.insert("host".into(), host.into());
    warning.details.insert("port".into(), port.into());
    warning
}

/// A warning as a fact.
pub(crate) fn warned(warning: Warning) -> Fact {
    Fact::own(Event::Warned(Box::new(warning)))
}
