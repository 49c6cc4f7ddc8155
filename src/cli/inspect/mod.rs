//! Commands that look at runs: logs, history, explain, export, audit, replay, reparse; and those that keep them: backup, migrate.

pub(crate) mod audit;
pub(crate) mod backup;
pub(crate) mod explain;
pub(crate) mod export;
pub(crate) mod history;
pub(crate) mod key;
pub(crate) mod logs;
pub(crate) mod migrate;
pub(crate) mod reparse;
pub(crate) mod replay;
pub(crate) mod verify;
