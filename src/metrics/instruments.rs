//! Counters, gauges and histograms: numbers in memory that any thread adds to.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

/// Most combinations of labels that one family keeps apart; all others are counted together.
const SERIES_MAX: usize = 1500;
/// What their labels are called.
const OTHER: &str = "other";

/// A number that only grows.
#[derive(Debug, Default)]
pub(super) struct Counter(AtomicU64);

impl Counter {
    pub(super) fn add(&self, count: u64) {
        self.0.fetch_add(count, Relaxed);
    }

    pub(super) fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// A number that goes up and down.
#[derive(Debug, Clone, Default)]
pub(super) struct Gauge(Arc<AtomicI64>);

impl Gauge {
    /// One more, until the value is dropped.
    pub(super) fn hold(&self) -> Held {
        self.0.fetch_add(1, Relaxed);
        Held(self.0.clone())
    }

    pub(super) fn get(&self) -> i64 {
        self.0.load(Relaxed)
    }
}

/// One of what a gauge counts.
#[derive(Debug)]
pub(crate) struct Held(Arc<AtomicI64>);

impl Drop for Held {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

/// A sum of money that only grows.
#[derive(Debug, Default)]
pub(super) struct Money(AtomicU64);

impl Money {
    pub(super) fn add(&self, amount: f64) {
        if amount.is_finite() && amount > 0.0 {
            let added = |bits| Some((f64::from_bits(bits) + amount).to_bits());
            // It cannot fail: there is always a next value.
            let _ = self.0.fetch_update(Relaxed, Relaxed, added);
        }
    }

    pub(super) fn get(&self) -> f64 {
        f64::from_bits(self.0.load(Relaxed))
    }
}

/// How many times something took how long.
#[derive(Debug)]
pub(super) struct Histogram {
    bounds: &'static [f64],
    /// One for each bound, and one for what is beyond the last.
    counts: Vec<AtomicU64>,
    micros: AtomicU64,
}

impl Histogram {
    pub(super) fn new(bounds: &'static [f64]) -> Self {
        let counts = (0..=bounds.len()).map(|_| AtomicU64::default()).collect();
        Self { bounds, counts, micros: AtomicU64::default() }
    }

    pub(super) fn observe(&self, took: Duration) {
        let seconds = took.as_secs_f64();
        let at = self.bounds.partition_point(|bound| *bound < seconds);
        if let Some(count) = self.counts.get(at) {
            count.fetch_add(1, Relaxed);
        }
        self.micros.fetch_add(u64::try_from(took.as_micros()).unwrap_or(u64::MAX), Relaxed);
    }

    pub(super) fn bounds(&self) -> &'static [f64] {
        self.bounds
    }

    /// How many fell into each bucket, not those below it.
    pub(super) fn counts(&self) -> Vec<u64> {
        self.counts.iter().map(|count| count.load(Relaxed)).collect()
    }

    pub(super) fn sum_seconds(&self) -> f64 {
        Duration::from_micros(self.micros.load(Relaxed)).as_secs_f64()
    }
}

/// One number for each combination of `N` labels.
#[derive(Debug)]
struct Family<const N: usize>(RwLock<BTreeMap<[String; N], Arc<AtomicI64>>>);

impl<const N: usize> Default for Family<N> {
    fn default() -> Self {
        Self(RwLock::default())
    }
}

impl<const N: usize> Family<N> {
    fn add(&self, labels: [&str; N], count: i64) {
        let key = labels.map(str::to_owned);
        // Nothing can panic while it holds the lock.
        if let Some(number) = self.0.read().unwrap_or_else(PoisonError::into_inner).get(&key) {
            number.fetch_add(count, Relaxed);
            return;
        }
        let mut all = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let has_room = all.len() < SERIES_MAX || all.contains_key(&key);
        let key = if has_room { key } else { [OTHER; N].map(str::to_owned) };
        all.entry(key).or_default().fetch_add(count, Relaxed);
    }

    fn all(&self) -> Vec<([String; N], i64)> {
        let all = self.0.read().unwrap_or_else(PoisonError::into_inner);
        all.iter().map(|(labels, number)| (labels.clone(), number.load(Relaxed))).collect()
    }
}

/// Counters that differ in their labels.
#[derive(Debug, Default)]
pub(super) struct CounterFamily<const N: usize>(Family<N>);

impl<const N: usize> CounterFamily<N> {
    pub(super) fn add(&self, labels: [&str; N], count: u64) {
        self.0.add(labels, i64::try_from(count).unwrap_or(i64::MAX));
    }

    pub(super) fn all(&self) -> Vec<([String; N], i64)> {
        self.0.all()
    }
}

/// Gauges that differ in their labels.
#[derive(Debug, Default)]
pub(super) struct GaugeFamily<const N: usize>(Family<N>);

impl<const N: usize> GaugeFamily<N> {
    pub(super) fn add(&self, labels: [&str; N], change: i64) {
        self.0.add(labels, change);
    }

    pub(super) fn all(&self) -> Vec<([String; N], i64)> {
        self.0.all()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_histogram_puts_each_time_into_the_first_bucket_that_holds_it() {
        let histogram = Histogram::new(&[0.01, 0.1]);
        for millis in [1, 10, 11, 100, 5000] {
            histogram.observe(Duration::from_millis(millis));
        }
        assert_eq!(histogram.counts(), [2, 2, 1]);
        assert!((histogram.sum_seconds() - 5.122).abs() < 1e-9);
    }

    #[test]
    fn a_family_keeps_a_bounded_number_of_series_and_loses_no_count() {
        let family = CounterFamily::<1>::default();
        for number in 0..SERIES_MAX + 10 {
            family.add([&number.to_string()], 1);
        }
        family.add(["0"], 1);
        let all = family.all();
        assert_eq!(all.len(), SERIES_MAX + 1);
        let of = |name: &str| all.iter().find(|(labels, _)| labels[0] == name).map(|(_, count)| *count);
        assert_eq!((of("0"), of(OTHER)), (Some(2), Some(10)));
    }

    #[test]
    fn what_a_gauge_holds_goes_when_it_is_dropped() {
        let gauge = Gauge::default();
        let held = [gauge.hold(), gauge.hold()];
        assert_eq!(gauge.get(), 2);
        drop(held);
        assert_eq!(gauge.get(), 0);
    }
}
