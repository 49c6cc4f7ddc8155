//! Where the shell reads the time and makes new ids; the core is told.

use std::time::{SystemTime, UNIX_EPOCH};

use uuid::Uuid;

use crate::domain::time::Timestamp;

/// Tells the time and makes ids; a simulation has its own.
pub trait Clock: Send + Sync {
    fn now(&self) -> Timestamp;

    /// A new id that sorts after all earlier ones.
    fn new_id(&self) -> Uuid;
}

/// The clock of this machine.
#[derive(Debug, Clone, Copy)]
pub struct WallClock;

impl Clock for WallClock {
    fn now(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp::from_micros(i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
    }

    fn new_id(&self) -> Uuid {
        Uuid::now_v7()
    }
}
