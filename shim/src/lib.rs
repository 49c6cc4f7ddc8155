//! The shim: a small process between the service and one engine, which no descendant of the engine can leave.
//!
//! It needs no C library and no allocator, so that its start costs as little as a process can. Its program, `program.rs`, is
//! built by the build script of skill-runner, which carries it inside its own. The service uses this library for what both
//! must know: the messages between them, and how the kernel describes a process.
#![cfg_attr(not(test), no_std)]
#![cfg_attr(test, expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test"))]

mod children;
mod engine;
mod first_process;
mod limits;
mod order;
mod program_file;
mod sandbox;
pub mod serve;
pub mod stat;
mod sys;
mod text;
pub mod wire;
