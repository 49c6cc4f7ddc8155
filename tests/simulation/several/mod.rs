//! Several nodes on one store: what must hold for one service must hold for all of them together.

mod check;
mod files;
mod link;
mod node;
mod play;
mod records;
mod stage;
mod store;
mod workers;

pub use play::play;
pub use workers::Workers;

/// Seeds of a usual test run.
pub const SEEDS: u64 = 1_000;

/// What has to happen in one world of so many at least.
pub const MET: &[(u64, &str)] = &[
    (3, "FAULT Crash n"),
    (3, "CRASH before "),
    (5, "FAULT LosesDisk n"),
    (3, "FAULT Pauses n"),
    (3, "FAULT IsCutOff n"),
    (5, "FAULT IsDeaf n"),
    (5, "FAULT FilesAway n"),
    (5, "FAULT Slow n"),
    (5, "FAULT ClockJumps n"),
    (10, "FAULT IsToldToEnd n"),
    (20, " is gone for good"),
    (2, "a wake is lost"),
    (4, "a question finds the store away"),
    (4, "a question is lost"),
    (10, "the shared files are away"),
    (10, "the answer to a take is lost"),
    (3, "committed, and unknown: append "),
    (3, "not committed, and unknown: append "),
    (20, "what a dead node had sent arrives"),
    (5, "the lease of this service has ended"),
    (10, "the lease was not renewed in time"),
    (50, "the shim kills engine "),
    (10, " is taken over from n"),
    (10, " run.recovered "),
    (20, "refused (another service works on this run)"),
    (10, "asks the owner of "),
    (10, "gives r"),
    (10, " resumed on another node"),
    (20, " was begun on another node before"),
    (20, "has followed "),
    (50, " run.cache_hit "),
];
