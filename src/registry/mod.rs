//! The skills folder: scanning it, seeing its changes, and installing into it.

mod agents;
pub(crate) mod builtin;
mod copying;
mod import;
mod install;
mod installed;
mod load;
mod plan;
mod refused;
mod scan;
mod staging;
mod survey;

pub use agents::load_agent;
pub(crate) use import::{Importable, importable, is_agent};
pub(crate) use install::{RecoveredInstall, recover_installs};
pub use installed::{Entry, Installed, NotUsable};
pub use load::load_dir;
pub(crate) use plan::{Action, Done};
pub(crate) use refused::InstallRefused;
pub use scan::Registry;
pub(crate) use staging::Staging;
pub(crate) use survey::NOT_PACKAGED;
