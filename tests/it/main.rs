//! The integration tests: one binary, one module per feature.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a failed unwrap is a failed test")]

mod support;

mod architecture;
mod artifacts;
mod asked;
mod cache;
mod cli;
mod codes;
mod compat;
mod crash;
mod dependencies;
mod durability;
mod engines;
mod explain;
mod export;
mod homes;
mod hostile;
mod http;
mod hybrid;
mod integrity;
mod interactive;
mod normalization;
mod packages;
mod protocol;
mod readme;
mod real_clis;
mod reconcile;
mod recording;
mod registry;
mod replay;
mod resources;
mod restart;
mod runs;
mod secrets;
mod settings;
mod sharing;
mod skill_copies;
mod skill_protocol;
mod skills;
mod sse;
mod store;
mod supervisor;
mod temp_runs;
mod uploads;
