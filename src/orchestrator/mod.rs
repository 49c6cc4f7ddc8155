//! Runs in motion. The folders show the way of a run: `intake` takes it in, `admission` queues it, `turn` carries out
//! one turn of its engine, `runs` drives, recovers and ends it, `inspect` answers questions about it.

mod access;
mod admission;
mod environment;
mod error;
mod handle;
mod inspect;
mod intake;
mod lifecycle;
mod log;
mod packages;
mod results;
mod run_files;
mod runs;
mod shared;
mod turn;

pub(crate) use access::{
    AccessError, KnownKey, KnownRecords, close_session, create_shared_token, known_keys, known_sessions, known_tokens,
    list_shared_tokens, move_in_tokens, open_session, revoke_shared_token,
};
pub(crate) use environment::isolation::{IsolationHere, IsolationOfSkill, confinement};
pub use environment::{Blocking, Clock, Environment, FileSteps, Member, WallClock};
pub use error::Error;
pub use handle::{Orchestrator, Sizes};
pub(crate) use inspect::backup::{back_up, check_name as check_backup_name};
pub(crate) use inspect::hit_folder::make_hit_folder;
pub(crate) use inspect::migrate::copy_store;
pub(crate) use inspect::proven_run::{ProvenContent, ProvenRun};
pub use inspect::{CacheOutcome, CacheStory, DifferingPart, Export, OpenedBundle};
pub(crate) use intake::Planned;
pub(crate) use intake::upload::ZIP_PART;
pub use intake::{CreateRequest, Created, Delivery, OptionsRequest, Uploaded};
pub(crate) use log::Past;
pub use log::{Events, RunLog};
pub(crate) use packages::{Change, Install, InstallStatus, NotInstalled, change_here, install_here};
pub use runs::{Canceled, Cleaned, ListFilter, Listing, PendingQuestion, Replied};
pub(crate) use shared::backups::Copied;
pub(crate) use shared::context::share_rule;
pub(crate) use shared::skills::SharedSkill;
