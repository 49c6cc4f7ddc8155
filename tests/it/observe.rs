//! What operators see of a running service: metrics, traces, logs; and what it does by itself for them.

mod backup;
mod dashboard;
mod deploy;
mod logs;
mod metrics;
mod retention;
mod telemetry;
