//! Everything that is counted, and what adds to it.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use super::instruments::{Counter, CounterFamily, Gauge, GaugeFamily, Held, Histogram, Money};
use crate::domain::engine::Engine;
use crate::domain::statechart::Status;

/// Upper bounds of the buckets, in seconds.
const COMMIT_BOUNDS: &[f64] = &[0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0];
const REQUEST_BOUNDS: &[f64] = &[0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];
const RUN_BOUNDS: &[f64] = &[0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1200.0, 3600.0];

/// States that a run can leave.
const OPEN_STATES: [Status; 3] = [Status::Queued, Status::Running, Status::WaitingUser];

/// Everything that is counted.
#[derive(Debug)]
pub(crate) struct Metrics {
    /// Runs that have not ended, by engine and state.
    pub(super) open_runs: GaugeFamily<2>,
    /// Whether others start and end runs, too: then the store tells how many are open.
    pub(super) open_runs_told: AtomicBool,
    pub(super) created: CounterFamily<1>,
    pub(super) finished: CounterFamily<2>,
    pub(super) errors: CounterFamily<1>,
    pub(super) run_seconds: Histogram,
    pub(super) queue_seconds: Histogram,
    pub(super) turns: CounterFamily<1>,
    pub(super) cache_hits: CounterFamily<1>,
    pub(super) tokens: CounterFamily<2>,
    pub(super) cost: Money,
    pub(super) events: Counter,
    pub(super) commit_seconds: Histogram,
    pub(super) commit_failures: Counter,
    pub(super) stops: CounterFamily<1>,
    pub(super) killed: Counter,
    pub(super) sse_readers: Gauge,
    pub(super) requests: CounterFamily<3>,
    pub(super) request_seconds: Histogram,
    pub(super) retention_deleted: Counter,
    pub(super) exported: CounterFamily<1>,
    pub(super) export_failures: CounterFamily<1>,
}

impl Default for Metrics {
    fn default() -> Self {
        let metrics = Self {
            open_runs: GaugeFamily::default(),
            open_runs_told: AtomicBool::new(false),
            created: CounterFamily::default(),
            finished: CounterFamily::default(),
            errors: CounterFamily::default(),
            run_seconds: Histogram::new(RUN_BOUNDS),
            queue_seconds: Histogram::new(RUN_BOUNDS),
            turns: CounterFamily::default(),
            cache_hits: CounterFamily::default(),
            tokens: CounterFamily::default(),
            cost: Money::default(),
            events: Counter::default(),
            commit_seconds: Histogram::new(COMMIT_BOUNDS),
            commit_failures: Counter::default(),
            stops: CounterFamily::default(),
            killed: Counter::default(),
            sse_readers: Gauge::default(),
            requests: CounterFamily::default(),
            request_seconds: Histogram::new(REQUEST_BOUNDS),
            retention_deleted: Counter::default(),
            exported: CounterFamily::default(),
            export_failures: CounterFamily::default(),
        };
        // What can be zero is told as zero, so that rates begin with the first run.
        for engine in Engine::ALL {
            for state in OPEN_STATES {
                metrics.open_runs.add([engine.as_str(), state.as_str()], 0);
            }
            for status in Status::ALL.into_iter().filter(|status| status.is_final()) {
                metrics.finished.add([engine.as_str(), status.as_str()], 0);
            }
            metrics.created.add([engine.as_str()], 0);
            metrics.turns.add([engine.as_str()], 0);
            metrics.cache_hits.add([engine.as_str()], 0);
        }
        for signal in ["traces", "metrics"] {
            metrics.exported.add([signal], 0);
            metrics.export_failures.add([signal], 0);
        }
        metrics
    }
}

impl Metrics {
    /// An append to the store took so long and wrote so many events, if it succeeded.
    pub(crate) fn committed(&self, took: Duration, events: u64, succeeded: bool) {
        if succeeded {
            self.commit_seconds.observe(took);
            self.events.add(events);
        } else {
            self.commit_failures.add(1);
        }
    }

    /// An engine was stopped before its end, for this reason.
    pub(crate) fn stopped(&self, reason: &'static str) {
        self.stops.add([reason], 1);
    }

    /// So many processes of a run had to be killed.
    pub(crate) fn killed(&self, processes: u64) {
        self.killed.add(processes);
    }

    /// An event stream is being read, until the value is dropped.
    pub(crate) fn sse_reader(&self) -> Held {
        self.sse_readers.hold()
    }

    /// How many event streams are being read.
    pub(crate) fn sse_readers(&self) -> i64 {
        self.sse_readers.get()
    }

    /// A request was answered.
    pub(crate) fn answered(&self, method: &'static str, route: &str, status: &str, took: Duration) {
        self.requests.add([method, route, status], 1);
        self.request_seconds.observe(took);
    }

    /// The service itself has deleted runs that were older than they may get.
    pub(crate) fn retired(&self, runs: u64) {
        self.retention_deleted.add(runs);
    }

    /// So many traces, or one set of metrics, were sent or given up.
    pub(crate) fn exported(&self, signal: &'static str, count: u64, succeeded: bool) {
        let family = if succeeded { &self.exported } else { &self.export_failures };
        family.add([signal], count);
    }
}
