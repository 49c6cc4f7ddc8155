//! What is not counted here but read when somebody asks: the queue, the disk, the process.

/// Numbers of one moment.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Readings {
    pub(crate) version: &'static str,
    pub(crate) queued: u64,
    pub(crate) queue_capacity: u64,
    pub(crate) running: u64,
    pub(crate) slots: u64,
    pub(crate) damaged_runs: u64,
    pub(crate) store_bytes: Option<u64>,
    pub(crate) disk_free_bytes: Option<u64>,
    pub(crate) disk_size_bytes: Option<u64>,
    /// Of one of several services.
    pub(crate) cached_bytes: Option<u64>,
    /// As it was last measured.
    pub(crate) data_folder: Option<DataFolder>,
    pub(crate) process: ProcessReadings,
}

/// How much the data folder holds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct DataFolder {
    /// What is directly below it, with the bytes it takes on the disk.
    pub(crate) folders: Vec<(String, u64)>,
}

/// What the service's own process uses.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct ProcessReadings {
    pub(crate) cpu_seconds: f64,
    pub(crate) resident_bytes: u64,
    pub(crate) virtual_bytes: u64,
    pub(crate) open_descriptors: u64,
    pub(crate) most_descriptors: Option<u64>,
    pub(crate) threads: u64,
    /// Seconds since 1970.
    pub(crate) started_at_seconds: f64,
}
