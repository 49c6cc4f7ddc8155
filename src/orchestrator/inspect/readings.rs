//! The metrics of this moment: what was counted, and what is read for it.

use std::sync::atomic::Ordering;

use crate::domain::time::Timestamp;
use crate::files;
use crate::metrics::{DataFolder, Metric, Readings};
use crate::orchestrator::handle::Orchestrator;

/// Most folders of the data folder that are told apart; there are far fewer.
const FOLDERS_MAX: usize = 40;

impl Orchestrator {
    /// All metrics. Blocks for a moment: the disk and the process are looked at. No run is.
    pub(crate) fn read_metrics(&self) -> Vec<Metric> {
        self.shared.metrics.snapshot(&self.readings())
    }

    fn readings(&self) -> Readings {
        let (shared, sizes) = (&self.shared, self.sizes());
        let (runs, data) = (&shared.settings.runs, shared.layout.data());
        let count = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
        Readings {
            version: env!("CARGO_PKG_VERSION"),
            queued: count(sizes.queued),
            queue_capacity: count(runs.max_queued_jobs),
            running: count(sizes.running),
            slots: count(runs.max_running_jobs),
            damaged_runs: count(self.damaged_runs().len()),
            store_bytes: self.store_bytes(),
            disk_free_bytes: files::free_bytes(data).ok(),
            disk_size_bytes: files::disk_bytes(data).ok(),
            cached_bytes: shared.member.as_ref().map(|_| shared.cached_bytes.load(Ordering::Relaxed)),
            data_folder: self.data_use().map(|(found, _)| found),
            process: files::own_process(),
        }
    }

    /// The size of the event store on disk.
    pub(crate) fn store_bytes(&self) -> Option<u64> {
        self.shared.store.disk_bytes()
    }

    /// What the data folder holds, and when that was measured; `None` until it was. If that is long ago, it is measured anew, without
    /// anybody waiting for it.
    pub(crate) fn data_use(&self) -> Option<(DataFolder, Timestamp)> {
        let shared = &self.shared;
        if shared.data_use.is_due(shared.clock.now()) {
            // Not all that is shared: this may outlive the service.
            let (layout, data_use, clock) = (shared.layout.clone(), shared.data_use.clone(), shared.clock.clone());
            let measure = move || {
                let mut folders = files::sizes_below(layout.data());
                folders.truncate(FOLDERS_MAX);
                data_use.measured(DataFolder { folders }, clock.now());
            };
            if std::thread::Builder::new().name("data-use".to_owned()).spawn(measure).is_err() {
                tracing::warn!("no thread could be started to measure the data folder");
            }
        }
        self.shared.data_use.last()
    }
}
