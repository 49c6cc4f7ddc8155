//! The audit of a run as a whole: whether its log, streams, artifacts and result are what the run wrote.
//!
//! [`crate::fcmp::audit`] checks a log by itself; here it is compared with the files of the run, its export, and
//! its row in the store.

mod artifacts;
mod error;
mod files;
mod log;
#[cfg(test)]
mod mutations;
mod proven;
mod report;
mod result;
mod row;
mod streams;
mod whole;

pub(crate) use error::Error;
pub(crate) use report::{Report, SignerNode, Trust, Violation};
pub(crate) use row::StoredRow;
pub(crate) use whole::{export, file, folder, stored_run};
