//! What all parts of the orchestrator share: the queue, locks, mailboxes of running runs, timers, tasks.

pub(crate) mod again;
pub(crate) mod awaiting_files;
pub(crate) mod backups;
pub(crate) mod context;
pub(crate) mod data_use;
pub(crate) mod deadlines;
pub(crate) mod ended_runs;
pub(crate) mod file_work;
pub(crate) mod known_skills;
pub(crate) mod live;
pub(crate) mod lost_runs;
pub(crate) mod membership;
pub(crate) mod queue;
pub(crate) mod request_files;
pub(crate) mod request_room;
pub(crate) mod result_text;
pub(crate) mod run_lock;
pub(crate) mod run_snapshots;
pub(crate) mod scrubbed;
pub(crate) mod shared_results;
pub(crate) mod single_flight;
pub(crate) mod skill_sync;
pub(crate) mod skills;
pub(crate) mod unrecovered;

pub(crate) use context::Shared;
