//! Shared files that nothing needs any more are removed, and none that something is about to need.
//!
//! A removal is begun in the store, carried out, and ended in the store. It is begun only of what nothing needs. While it is under
//! way, no append can name the file ([`Error::FilesRemoved`]), and when it is over only one whose files were put after that:
//! an append tells how many removals were over before its files were put. So it makes no difference how long anybody is paused
//! between putting a file and naming it, nor which clock is wrong: at worst the file is put once more.

use std::time::Duration;

use super::{BoxFuture, Error};

/// The SHA-256 of a shared file.
pub type FileHash = [u8; 32];

/// After so long a removal that was begun and not ended is carried out again by another service. Whoever began it removes
/// nothing more after a fraction of that.
pub(crate) const BEGUN_FOR: Duration = Duration::from_secs(300);

/// The turn of a service to look for what nothing needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Turn {
    /// Files up to this one were looked at by the service before.
    pub after: Option<FileHash>,
    /// How old the store is: what is older was not made for it.
    pub store_age: Duration,
}

pub trait Removals: Send + Sync {
    /// Whether it is this service's turn: one service has it at a time, until it has looked at all files or was not heard of for a
    /// while. When all were looked at, the next turn begins after `every`.
    fn take_turn(&self, every: Duration) -> BoxFuture<'_, Result<Option<Turn>, Error>>;

    /// Files up to this one were looked at, or all. Whether this service still has its turn.
    fn looked_at(&self, up_to: Option<FileHash>) -> BoxFuture<'_, Result<bool, Error>>;

    /// The next turn may begin now. Whoever has no lease can ask for it as well.
    fn look_again(&self) -> BoxFuture<'_, Result<(), Error>>;

    /// Begins the removal of those that nothing needs, and tells which. None while a service may be there that knows nothing of
    /// removals.
    fn begin_removal(&self, among: &[FileHash]) -> BoxFuture<'_, Result<Vec<FileHash>, Error>>;

    /// Begins those removals anew that were begun five minutes ago and not ended; which they are.
    fn begun_long_ago(&self) -> BoxFuture<'_, Result<Vec<FileHash>, Error>>;

    /// Ends removals that this service began: of files that are removed, and of files that it left alone.
    fn end_removal(&self, removed: &[FileHash], left: &[FileHash]) -> BoxFuture<'_, Result<(), Error>>;
}
