//! The skills folder: scanning it, seeing its changes, and installing into it.

mod agents;
mod archive;
pub(crate) mod builtin;
mod change;
mod copying;
mod import;
mod install;
mod installed;
mod load;
mod package_files;
mod packing;
mod plan;
mod refused;
mod scan;
mod settle;
mod staging;
mod survey;

pub use agents::load_agent;
pub(crate) use archive::KeptVersion;
pub(crate) use change::{ChangeRefused, name_of, short};
pub(crate) use import::{Importable, importable, is_agent};
pub(crate) use install::{RecoveredInstall, recover_installs};
pub use installed::{Entry, Installed, NotUsable};
pub use load::load_dir;
pub(crate) use package_files::compare;
pub(crate) use packing::pack;
pub(crate) use plan::{Action, Done, Plan, replaces};
pub(crate) use refused::InstallRefused;
pub use scan::Registry;
pub(crate) use settle::{Agreed, Settled};
pub(crate) use staging::Staging;
pub(crate) use survey::NOT_PACKAGED;
