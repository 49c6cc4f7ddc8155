//! FCMP/1.0: the envelope, its encoding, its rules, and windows over a run's log.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

pub mod audit;
mod check;
mod encoder;
mod envelope;
mod fold;
mod head;
mod signature;
mod window;

#[cfg(test)]
mod properties;

pub(crate) use check::SchemaViolation;
pub use encoder::{Encoder, Page};
pub use envelope::{Envelope, Meta, read_envelope};
pub(crate) use envelope::{PROTOCOL_VERSION, RawRef, stored_ts};
pub use head::LogHead;
pub(crate) use head::{Chain, ChainHasher};
pub(crate) use signature::verify as verify_signature;
pub use signature::{PublicKey, Signer};
pub(crate) use window::{Side, Window};

/// The machine-readable contract of the envelope and of every type's data.
pub const SCHEMA: &str = include_str!("../../schema/fcmp.schema.json");
