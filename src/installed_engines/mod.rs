//! The agent CLIs on this machine: where they are, their versions, logins and models, and how to install them.

mod installed;
mod list_cache;
mod listing;
mod login;
mod model_names;
pub(crate) mod operator_config;
mod package_version;
mod program;
mod secrets;
mod snapshots;
mod status;
mod temporary_folder;
mod tool_version;
mod upgrade;
mod upgrade_records;
mod version;

pub use installed::InstalledEngines;
pub(crate) use listing::Models;
#[cfg(any(test, fuzzing))]
pub(crate) use listing::foreign_models;
pub use listing::{ListSource, Manifest};
pub use model_names::Entry;
pub use program::{Found, Source};
pub use snapshots::Snapshot;
pub(crate) use snapshots::SnapshotRefused;
pub use status::Status;
pub use upgrade::UpgradeRefused;
pub use upgrade_records::{Upgrade, UpgradeStatus};
#[cfg(any(test, fuzzing))]
pub(crate) use version::foreign_version;

pub(crate) use tool_version::tool_version;
