//! What clients asked for and were told: the service is held to it.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use skill_runner::domain::ids::RunId;
use skill_runner::domain::interaction::InteractionId;
use skill_runner::orchestrator::{Created, Replied};
use uuid::Uuid;

/// Everything clients remember; they outlive every crash.
#[derive(Default)]
pub struct Book {
    /// Runs whose creation was acknowledged.
    pub created: Vec<Created>,
    /// By idempotency key: which body was sent, and the answer once there was one.
    pub keys: BTreeMap<String, (Value, Option<Created>)>,
    /// Replies that were acknowledged.
    pub replies: Vec<Reply>,
    /// Runs whose cancel was accepted.
    pub canceled: Vec<RunId>,
    /// Runs whose upload was taken.
    pub uploaded: Vec<RunId>,
    /// Runs whose skill is their own.
    pub own_skill: BTreeSet<RunId>,
    /// Runs that were created equal and at once.
    pub equal: Vec<(RunId, RunId)>,
    /// The newest version that clients were told is installed.
    pub installed: Option<u64>,
    /// Installations that were begun, and whether their client was told that they are done.
    pub installs: BTreeMap<Uuid, bool>,
    /// Packages that are being installed, by their nodes.
    pub installing: BTreeMap<usize, u32>,
    /// Runs that were deleted, or may have been.
    pub deleted: Vec<RunId>,
    /// Runs to which somebody else wrote.
    pub written_by_others: BTreeSet<RunId>,
    /// How far logs were followed, and what was read: each goes on where it was, on any node.
    pub followed: BTreeMap<RunId, (u64, Vec<u8>)>,
    /// Numbers for keys and answers.
    pub numbers: u64,
}

/// A reply that was acknowledged.
#[derive(Debug, Clone, PartialEq)]
pub struct Reply {
    pub run: RunId,
    pub interaction: InteractionId,
    pub response: Value,
    pub key: Option<String>,
    pub receipt: Replied,
}

impl Book {
    pub fn number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }
}
