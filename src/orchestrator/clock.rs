//! Where the shell reads the time and makes new ids; the core is told.

use std::time::{SystemTime, UNIX_EPOCH};

use uuid::Uuid;

use crate::domain::time::Timestamp;

/// The present moment.
pub fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_micros(i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
}

/// A new id that sorts after all earlier ones.
pub fn new_id() -> Uuid {
    Uuid::now_v7()
}
