//! Folds a log, event by event.

use super::envelope::Envelope;
use super::head::{Chain, LogHead};
use crate::domain::event::Event;
use crate::domain::state::RunState;

impl LogHead {
    /// The end of the log after one more event, given with its stored bytes; none where a log would begin with another
    /// event than the run's creation.
    pub fn after(before: Option<LogHead>, envelope: &Envelope, stored: &[u8]) -> Option<LogHead> {
        let (state, chain) = match (before, &envelope.event) {
            (None, Some(Event::Started(started))) => {
                (RunState::open(envelope.run_id, started, envelope.ts), Chain::start(envelope.run_id))
            }
            (None, _) => return None,
            (Some(LogHead { mut state, chain }), Some(event)) => {
                state.apply(event, envelope.ts);
                (state, chain)
            }
            (Some(LogHead { mut state, chain }), None) => {
                state.apply_unknown(envelope.ts);
                (state, chain)
            }
        };
        Some(LogHead { state, chain: chain.link(stored) })
    }
}
