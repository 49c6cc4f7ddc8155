//! skill-runner: runs agent skills and keeps every fact of a run in an append-only FCMP log.
//!
//! Modules are listed in layer order; a module names only modules of lower layers.
// An item is `pub` only where the binary, the tests or the benchmarks use it, so that rustc finds unused code.
#![warn(unreachable_pub)]
// They panic when nobody reads on; `cli::terminal` writes without.
#![cfg_attr(not(any(test, fuzzing)), deny(clippy::print_stdout, clippy::print_stderr))]
#![cfg_attr(test, expect(clippy::unwrap_used, clippy::expect_used, reason = "a failed unwrap is a failed test"))]

// L0, pure
pub(crate) mod bounded;
pub mod domain;
// L1, pure
pub mod engine;
pub(crate) mod metrics;
pub mod settings;
// L2, pure
pub mod skill;
// L3, pure
pub mod convergence;
pub mod fcmp;
pub mod projection;
pub mod prompt;
// L4, pure
pub(crate) mod verdict;
// L5, shared by the IO modules
pub(crate) mod files;
pub(crate) mod trust;
// L6, IO
pub mod artifact;
pub mod blobs;
pub mod environments;
pub mod export;
pub mod installed_engines;
pub mod registry;
pub mod renderer;
pub mod store;
pub mod supervisor;
pub(crate) mod telemetry;
pub mod workspace;
// L7
pub(crate) mod audit;
pub mod orchestrator;
// L8
pub mod http;
// L9
pub mod cli;
// L10, for tests alone
#[cfg(any(test, fuzzing))]
pub mod fuzz;
