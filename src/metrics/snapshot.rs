//! All metrics at one moment, as plain values.

use super::all::Metrics;
use super::catalog::{self, Described, Kind};
use super::instruments::{Counter, CounterFamily, Histogram};
use super::readings::Readings;

/// A metric with all its series.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Metric {
    pub(super) name: &'static str,
    pub(super) help: &'static str,
    pub(super) kind: Kind,
    pub(super) samples: Vec<Sample>,
}

/// One series.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Sample {
    pub(super) labels: Vec<(&'static str, String)>,
    pub(super) value: Value,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value {
    Whole(i64),
    Real(f64),
    Buckets {
        bounds: &'static [f64],
        /// Of each bucket alone; the last is beyond all bounds.
        counts: Vec<u64>,
        sum: f64,
    },
}

fn metric(described: Described, samples: Vec<Sample>) -> Metric {
    Metric { name: described.name, help: described.help, kind: described.kind, samples }
}

fn one(described: Described, value: Value) -> Metric {
    metric(described, vec![Sample { labels: Vec::new(), value }])
}

fn whole(described: Described, number: u64) -> Metric {
    one(described, Value::Whole(i64::try_from(number).unwrap_or(i64::MAX)))
}

/// A gauge of what could not be read has no series.
fn maybe(described: Described, number: Option<u64>) -> Metric {
    number.map_or_else(|| metric(described, Vec::new()), |number| whole(described, number))
}

fn counter(described: Described, counter: &Counter) -> Metric {
    whole(described, counter.get())
}

fn series<const N: usize>(described: Described, names: [&'static str; N], all: Vec<([String; N], i64)>) -> Metric {
    let sample = |(labels, number): ([String; N], i64)| Sample {
        labels: names.into_iter().zip(labels).collect(),
        value: Value::Whole(number),
    };
    metric(described, all.into_iter().map(sample).collect())
}

fn counters<const N: usize>(described: Described, names: [&'static str; N], family: &CounterFamily<N>) -> Metric {
    series(described, names, family.all())
}

fn histogram(described: Described, histogram: &Histogram) -> Metric {
    let (bounds, counts, sum) = (histogram.bounds(), histogram.counts(), histogram.sum_seconds());
    one(described, Value::Buckets { bounds, counts, sum })
}

impl Metrics {
    /// All metrics as they are now, with what was read outside.
    pub(crate) fn snapshot(&self, read: &Readings) -> Vec<Metric> {
        let version = Sample { labels: vec![("version", read.version.to_owned())], value: Value::Whole(1) };
        let mut all = vec![
            metric(catalog::BUILD, vec![version]),
            series(catalog::RUNS, ["engine", "state"], self.open_runs.all()),
            counters(catalog::CREATED, ["engine"], &self.created),
            counters(catalog::FINISHED, ["engine", "status"], &self.finished),
            counters(catalog::ERRORS, ["code"], &self.errors),
            histogram(catalog::RUN_SECONDS, &self.run_seconds),
            counters(catalog::TURNS, ["engine"], &self.turns),
            whole(catalog::QUEUE, read.queued),
            whole(catalog::QUEUE_CAPACITY, read.queue_capacity),
            histogram(catalog::QUEUE_SECONDS, &self.queue_seconds),
            whole(catalog::SLOTS_USED, read.running),
            whole(catalog::SLOTS, read.slots),
            counters(catalog::CACHE_HITS, ["engine"], &self.cache_hits),
            counters(catalog::TOKENS, ["engine", "kind"], &self.tokens),
            one(catalog::COST, Value::Real(self.cost.get())),
            counter(catalog::EVENTS, &self.events),
            histogram(catalog::COMMIT_SECONDS, &self.commit_seconds),
            counter(catalog::COMMIT_FAILURES, &self.commit_failures),
            counters(catalog::STOPS, ["reason"], &self.stops),
            counter(catalog::KILLED, &self.killed),
            one(catalog::SSE_READERS, Value::Whole(self.sse_readers.get())),
            counters(catalog::REQUESTS, ["method", "route", "status"], &self.requests),
            histogram(catalog::REQUEST_SECONDS, &self.request_seconds),
            counter(catalog::RETIRED, &self.retention_deleted),
            counters(catalog::EXPORTED, ["signal"], &self.exported),
            counters(catalog::EXPORT_FAILURES, ["signal"], &self.export_failures),
            whole(catalog::DAMAGED, read.damaged_runs),
            maybe(catalog::STORE_BYTES, read.store_bytes),
            maybe(catalog::DISK_FREE, read.disk_free_bytes),
            maybe(catalog::DISK_SIZE, read.disk_size_bytes),
            maybe(catalog::CACHED_BYTES, read.cached_bytes),
        ];
        let folder = |(folder, bytes): &(String, u64)| Sample {
            labels: vec![("folder", folder.clone())],
            value: Value::Whole(i64::try_from(*bytes).unwrap_or(i64::MAX)),
        };
        let folders = read.data_folder.iter().flat_map(|data| &data.folders);
        all.push(metric(catalog::DATA_BYTES, folders.map(folder).collect()));
        let own = read.process;
        all.extend([
            one(catalog::CPU, Value::Real(own.cpu_seconds)),
            whole(catalog::RESIDENT, own.resident_bytes),
            whole(catalog::VIRTUAL, own.virtual_bytes),
            whole(catalog::OPEN_FDS, own.open_descriptors),
            maybe(catalog::MAX_FDS, own.most_descriptors),
            whole(catalog::THREADS, own.threads),
            one(catalog::START, Value::Real(own.started_at_seconds)),
        ]);
        all
    }
}
