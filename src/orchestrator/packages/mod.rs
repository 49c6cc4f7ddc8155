//! Skill packages: unpacked, checked, installed, and what became of each installation.

mod agreed;
pub(crate) mod change;
pub(crate) mod check;
pub(crate) mod follow;
mod group;
pub(crate) mod install;
mod installation;
mod publish;
pub(crate) mod record;
pub(crate) mod share_installs;
mod skill_change;
pub(crate) mod temporary;
pub(crate) mod unpack;

pub(crate) use change::change_here;
pub(crate) use install::{NotInstalled, install_here};
pub(crate) use record::{Install, InstallStatus};
pub(crate) use skill_change::Change;
