//! All runs of the service: driven by actors, answered by users, decided by deadlines, recovered after a restart, listed
//! and deleted.

pub(crate) mod actor;
pub(crate) mod deadlines;
pub(crate) mod inventory;
pub(crate) mod recovery;
pub(crate) mod reply;

pub use inventory::{Cleaned, ListFilter, Listing};
pub use reply::{PendingQuestion, Replied};
