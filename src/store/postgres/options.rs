//! What the operator or a test chooses about the store.

use std::time::Duration;

use crate::domain::fair_queue::ShareRule;

/// Which database to use, and how.
#[derive(Clone)]
pub struct Postgres {
    /// As libpq knows it; `schema=`, `sslmode=verify-full` and `sslrootcert=` are understood besides.
    pub url: String,
    /// Whether this process alone may write. Else it is one of several services, which all say so: they tell each other of appends,
    /// and own the runs on which they work.
    pub alone: bool,
    /// Whether the store is to be filled with what another one holds: then it must be empty, but for what an earlier try with the
    /// same data folder left, which is removed.
    pub to_fill: bool,
    /// By what those are told apart who share the queue; the same for all services. Runs that wait keep what they had.
    pub share: ShareRule,
    /// How long other services leave a run to the one that brought it into the queue, which has its files.
    pub own_first: Duration,
    /// How long appends wait for a lost server before the store gives up.
    pub write_patience: Duration,
    /// How long reads do before they fail; later ones are tried again.
    pub read_patience: Duration,
    /// How long an answer may take before the server is asked on another connection. The system finds out by itself when nobody is
    /// at the other end; this is for somebody who is, and says nothing.
    pub answer_patience: Duration,
    /// How long to wait at the start for another process that has the store.
    pub lock_patience: Duration,
}

impl Postgres {
    /// A store that this process alone uses.
    pub fn new(url: impl Into<String>) -> Postgres {
        Postgres {
            url: url.into(),
            alone: true,
            to_fill: false,
            share: ShareRule::default(),
            own_first: Duration::from_millis(25),
            write_patience: Duration::from_secs(300),
            read_patience: Duration::from_secs(60),
            answer_patience: Duration::from_secs(60),
            lock_patience: Duration::from_secs(3),
        }
    }
}
