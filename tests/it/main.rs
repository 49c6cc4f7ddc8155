//! The integration tests: one binary, one module per feature.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a failed unwrap is a failed test")]

mod artifacts;
mod registry;
mod settings;
mod skills;
mod store;
mod supervisor;
mod uploads;
