//! What the service counts about itself, and how that is written down for Prometheus and OpenTelemetry.
//!
//! Counting is one addition to a number in memory; nothing here looks at runs, files or the clock.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

mod all;
mod catalog;
mod instruments;
mod otlp;
mod prometheus;
mod readings;
mod runs;
mod snapshot;

pub(crate) use all::Metrics;
pub(crate) use instruments::Held;
pub(crate) use otlp::otlp;
pub(crate) use prometheus::{CONTENT_TYPE as PROMETHEUS_CONTENT_TYPE, prometheus};
pub(crate) use readings::{DataFolder, ProcessReadings, Readings};
pub(crate) use snapshot::Metric;
