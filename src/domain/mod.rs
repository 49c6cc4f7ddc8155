//! The pure heart: ids, events, the statechart, and the three words decide, apply, effects.

pub mod ids;
pub mod time;
