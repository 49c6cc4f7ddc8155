//! Skill packages: unpacked, checked, installed, and what became of each installation.

pub(crate) mod change;
pub(crate) mod check;
pub(crate) mod install;
pub(crate) mod record;
pub(crate) mod temporary;
pub(crate) mod unpack;

pub(crate) use change::{Change, change_here};
pub(crate) use install::{NotInstalled, install_here};
pub(crate) use record::{Install, InstallStatus};
