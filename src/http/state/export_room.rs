//! The room on the disk that exports have together, from when they are written until they are sent.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::http::answer::problem::Problem;
use crate::orchestrator::Orchestrator;

/// How many bytes exports hold that are being written or sent.
#[derive(Default)]
pub(crate) struct ExportRoom(Arc<AtomicU64>);

/// The room of one export, given back when it is dropped.
#[derive(Debug)]
pub(crate) struct HeldExport {
    all: Arc<AtomicU64>,
    bytes: u64,
}

impl ExportRoom {
    /// Room for an export of so many bytes. All of them together leave half of what is free to others, however slowly they are read.
    pub(crate) fn take(&self, orchestrator: &Orchestrator, bytes: u64) -> Result<HeldExport, Problem> {
        // One that is alone may take half of what is free now.
        orchestrator.has_room_for(bytes.saturating_mul(2))?;
        let others = self.0.fetch_add(bytes, Ordering::AcqRel);
        let held = HeldExport { all: self.0.clone(), bytes };
        let with_others = others.saturating_add(bytes.saturating_mul(2));
        orchestrator.has_room_for(with_others).map_err(|_| Problem::NoRoom)?;
        Ok(held)
    }
}

impl Drop for HeldExport {
    fn drop(&mut self) {
        self.all.fetch_sub(self.bytes, Ordering::AcqRel);
    }
}
