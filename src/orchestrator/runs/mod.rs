//! All runs of the service: started and driven by actors, answered by users, canceled, decided by deadlines, recovered
//! after a restart, listed and deleted.

pub(crate) mod actor;
pub(crate) mod cancel;
pub(crate) mod clean_shared;
pub(crate) mod deadlines;
pub(crate) mod dispatch;
pub(crate) mod evict;
mod evict_skills;
pub(crate) mod inventory;
pub(crate) mod member;
pub(crate) mod recovery;
pub(crate) mod reply;
pub(crate) mod retention;
pub(crate) mod sweep_homes;
pub(crate) mod take_over;
pub(crate) mod temp_sweep;

pub use cancel::Canceled;
pub use inventory::{Cleaned, ListFilter, Listing};
pub(crate) use inventory::{ROWS_AT_ONCE, read_rows};
pub use reply::{PendingQuestion, Replied};
