//! Several nodes on one store: what must hold for one service must hold for all of them together.

mod calm;
mod check;
mod files;
mod link;
mod node;
mod play;
mod records;
mod skills;
mod stage;
mod store;
mod workers;

pub use play::play;
pub use workers::Workers;

/// Seeds of a usual test run.
pub const SEEDS: u64 = 1_000;

/// What has to happen in one world of so many at least.
pub const MET: &[(u64, &str)] = &[
    (4, "FAULT Crash n"),
    (3, "CRASH before "),
    (8, "FAULT LosesDisk n"),
    (4, "FAULT Pauses n"),
    (4, "FAULT IsCutOff n"),
    (8, "FAULT IsDeaf n"),
    (8, "FAULT FilesAway n"),
    (8, "FAULT Slow n"),
    (8, "FAULT ClockJumps n"),
    (20, "FAULT IsToldToEnd n"),
    (20, " is gone for good"),
    (2, "a wake is lost"),
    (5, "a question finds the store away"),
    (4, "a question is lost"),
    (10, "the shared files are away"),
    (20, "the answer to a take is lost"),
    (5, "is committed, and unknown: append "),
    (5, "not committed, and unknown: append "),
    (100, "what a dead node had sent arrives"),
    (20, "the lease of this service has ended"),
    (20, "the lease was not renewed in time"),
    // What the faults are aimed at: engines and turns about the end of a lease.
    (2, ", where an engine works"),
    (20, "FAULT Last Dies n"),
    (20, "FAULT Last IsPaused n"),
    (20, "FAULT Last IsCutOff n"),
    (8, "stopped while committing: append "),
    (4, " goes on, and its lease is over"),
    (6, "the shim kills engine "),
    (2, " is taken over in a turn"),
    (30, "what an earlier owner had sent arrives now"),
    (2, " is taken over from n"),
    (2, " run.recovered "),
    (5, "refused (another service works on this run)"),
    (50, "asks the owner of "),
    (300, "gives r"),
    (40, " resumed on another node"),
    (500, " was begun on another node before"),
    (10, "has followed "),
    (20, " run.cache_hit "),
    (8, "client: install version "),
    (20, ", where a package is installed"),
    (50, "stopped while changing a record"),
    (50, "a record is changed, and unknown"),
    (50, " was interrupted, and everybody says so"),
    (50, " is done, and its client was never told"),
];
