//! The name, the kind and the meaning of every metric.

/// What sort of number a metric is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Counter,
    Gauge,
    Histogram,
}

/// A metric by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Described {
    pub(super) name: &'static str,
    pub(super) help: &'static str,
    pub(super) kind: Kind,
}

macro_rules! metrics {
    ($($key:ident $kind:ident $name:literal $help:literal;)*) => {
        $(pub(super) const $key: Described = Described { name: $name, help: $help, kind: Kind::$kind };)*

        #[cfg(test)]
        pub(super) const ALL: &[Described] = &[$($key),*];
    };
}

metrics! {
    BUILD Gauge "skill_runner_build_info" "Always 1; the label has the version of the program.";
    RUNS Gauge "skill_runner_runs" "Runs that have not ended, by engine and state.";
    CREATED Counter "skill_runner_runs_created_total" "Runs that were created since the start of the service.";
    FINISHED Counter "skill_runner_runs_finished_total" "Runs that ended, by engine and how.";
    ERRORS Counter "skill_runner_run_errors_total" "Runs that failed or were canceled, by error code; codes of a skill's own are counted as SKILL.";
    RUN_SECONDS Histogram "skill_runner_run_duration_seconds" "From the creation of a run to its end.";
    TURNS Counter "skill_runner_turns_total" "Turns of engines that were started.";
    QUEUE Gauge "skill_runner_queue_length" "Runs that wait for a slot.";
    QUEUE_CAPACITY Gauge "skill_runner_queue_capacity" "Runs that may wait for a slot: max_queued_jobs.";
    QUEUE_SECONDS Histogram "skill_runner_queue_wait_seconds" "From the last event of a queued run to its start.";
    SLOTS_USED Gauge "skill_runner_slots_used" "Runs that have a slot.";
    SLOTS Gauge "skill_runner_slots" "Runs that may have a slot: max_running_jobs.";
    CACHE_HITS Counter "skill_runner_cache_hits_total" "Runs that took the result of an equal run.";
    TOKENS Counter "skill_runner_tokens_total" "Tokens as the engines report them; cached_input is a part of input.";
    COST Counter "skill_runner_cost_usd_total" "Cost in US dollars, where an engine tells it.";
    EVENTS Counter "skill_runner_events_total" "Events that were written to logs of runs.";
    COMMIT_SECONDS Histogram "skill_runner_commit_duration_seconds" "From handing events to the store until they are on disk.";
    COMMIT_FAILURES Counter "skill_runner_commit_failures_total" "Appends that the store refused or lost: conflicts, no room, errors.";
    STOPS Counter "skill_runner_engine_stops_total" "Processes of runs that were stopped before their end, by reason.";
    KILLED Counter "skill_runner_processes_killed_total" "Processes of runs that ended by SIGKILL, and processes they left behind that had to be killed.";
    SSE_READERS Gauge "skill_runner_sse_readers" "Event streams that are being read.";
    REQUESTS Counter "skill_runner_http_requests_total" "Answered requests, by method, route and status.";
    REQUEST_SECONDS Histogram "skill_runner_http_request_duration_seconds" "From a request to the head of its answer, waits included.";
    RETIRED Counter "skill_runner_retention_deleted_total" "Runs that the service deleted because of keep_days, keep_last or keep_labels.";
    EXPORTED Counter "skill_runner_otlp_exports_total" "Traces of runs and sets of metrics that were sent over OTLP.";
    EXPORT_FAILURES Counter "skill_runner_otlp_export_failures_total" "Traces and sets of metrics that were given up.";
    DAMAGED Gauge "skill_runner_damaged_runs" "Runs with a stored file that is known to be damaged.";
    STORE_BYTES Gauge "skill_runner_store_bytes" "Size of the event store on disk.";
    DISK_FREE Gauge "skill_runner_disk_free_bytes" "Free space of the disk with the data folder.";
    DISK_SIZE Gauge "skill_runner_disk_size_bytes" "Size of the disk with the data folder.";
    CACHED_BYTES Gauge "skill_runner_cached_bytes" "Files of runs on this disk that are shared as well, as last looked at.";
    DATA_BYTES Gauge "skill_runner_data_bytes" "What the data folder takes on disk, by folder, as last measured.";
    CPU Counter "process_cpu_seconds_total" "Processor time of the service's own process.";
    RESIDENT Gauge "process_resident_memory_bytes" "Memory of the service's own process.";
    VIRTUAL Gauge "process_virtual_memory_bytes" "Address space of the service's own process.";
    OPEN_FDS Gauge "process_open_fds" "Open descriptors of the service's own process.";
    MAX_FDS Gauge "process_max_fds" "Most descriptors that the process may have open.";
    THREADS Gauge "process_threads" "Threads of the service's own process.";
    START Gauge "process_start_time_seconds" "When the process was started, in seconds since 1970.";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_the_conventions_and_stand_once() {
        let mut names: Vec<&str> = ALL.iter().map(|metric| metric.name).collect();
        names.sort_unstable();
        let count = names.len();
        names.dedup();
        assert_eq!(names.len(), count);
        for metric in ALL {
            assert!(metric.name.starts_with("skill_runner_") || metric.name.starts_with("process_"), "{}", metric.name);
            assert_eq!(metric.name.ends_with("_total"), metric.kind == Kind::Counter, "{}", metric.name);
            assert!(metric.kind != Kind::Histogram || metric.name.ends_with("_seconds"), "{}", metric.name);
            assert!(metric.help.ends_with('.'), "{}", metric.name);
        }
    }
}
