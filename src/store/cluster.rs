//! What several services on one store agree on: who is alive, who works on which run, what is asked of whom.
//!
//! A run that an engine works on, or is about to, has an owner: one service. Nobody else can append to its log. Each change of
//! owner raises the run's epoch, and an append that carries an older one is refused ([`Error::NotOwner`]). A run that no engine
//! works on has no owner: whoever reads it decides on it, and the expected head settles who was first.
//!
//! A service is known by its lease. It has to renew it, and whose lease has ended is taken for dead: others take its runs over.
//! The store's clock alone judges leases. A service judges its own by its monotonic clock, from the moment at which it sent
//! the last renewal that was answered.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::sync::Notify;
use uuid::Uuid;

use super::removals::Removals;
use super::{BoxFuture, Changed, Error, RecordChange, Records};
use crate::domain::fair_queue::Bounds;
use crate::domain::ids::RunId;
use crate::domain::statechart::Status;

/// A service as others see it: the same across restarts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct NodeId(pub Uuid);

/// One lease of a service: no two have the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct LeaseId(pub Uuid);

/// What a service says of itself when it joins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeInfo {
    pub node: NodeId,
    /// What its operator calls it.
    pub name: String,
    pub version: String,
    /// Where its API is, if it has one.
    pub address: Option<String>,
    /// Whether it starts runs.
    pub works: bool,
    /// How long its lease lasts after each renewal.
    pub lease: Duration,
}

/// How busy a service is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct NodeLoad {
    /// Runs with an engine.
    pub running: u32,
    /// Runs that it can have at once.
    pub slots: u32,
}

/// A service in a list of all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    pub node: NodeId,
    pub name: String,
    pub version: String,
    pub address: Option<String>,
    pub works: bool,
    pub load: NodeLoad,
    /// Whether it takes no new runs, because somebody asked so or it is ending.
    pub draining: bool,
    /// Runs that it owns.
    pub owns: u64,
    /// Microseconds after the epoch, by the store's clock.
    pub joined_at: i64,
    /// What is left of its lease; `None` if it has ended.
    pub lease_left: Option<Duration>,
}

/// What a renewal says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Renewed {
    /// Somebody asked this service to take no new runs.
    pub draining: bool,
    /// How many runs of each share wait in the queue of all services.
    pub queued: BTreeMap<String, usize>,
}

/// What is asked of the service that owns a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Control {
    Cancel { requested_by: String, reason: String },
}

/// Numbers of runs by engine and status.
pub type OpenCounts = Vec<(String, Status, u64)>;

/// The services on one store. Each has its own view of it, which appends and takes runs in its name.
pub trait Cluster: Records + Removals {
    /// Joins, or joins again after the lease was lost. What an earlier process of the same node owned is abandoned at once. Until
    /// it has joined, a service owns nothing and can take nothing.
    fn join(&self, info: NodeInfo) -> BoxFuture<'_, Result<(), Error>>;

    /// Renews the lease. [`Error::NotOwner`] if it has ended and others may have taken its runs: join again.
    fn renew(&self, load: NodeLoad) -> BoxFuture<'_, Result<Renewed, Error>>;

    /// Ends the lease: what it still owns is abandoned.
    fn leave(&self) -> BoxFuture<'_, Result<(), Error>>;

    /// The lease that this service has, as far as it knows.
    fn lease(&self) -> Option<LeaseId>;

    /// Whether a lease is over. Nothing is changed under it any more then.
    fn lease_is_over(&self, lease: LeaseId) -> BoxFuture<'_, Result<bool, Error>>;

    /// As [`Records::change_record`], if this lease is in force; else [`Error::NotOwner`]. Where an answer was lost, that may be said of a
    /// change that was made.
    fn change_record_under(&self, lease: LeaseId, change: RecordChange) -> BoxFuture<'_, Result<Changed, Error>>;

    /// Takes up to `most` runs from the queue that may start now, fairly and within the limits of all services together
    /// (`running` of the bounds is the service's own affair). This service owns them then. A run that this service owns without
    /// knowing it, because an answer was lost, comes first. [`Error::NotOwner`] without a good lease: join again.
    fn take(&self, most: usize, bounds: &Bounds) -> BoxFuture<'_, Result<Vec<RunId>, Error>>;

    /// Takes up to `most` runs over that a service owned whose lease has ended, or that run without an owner. Those of them that
    /// had not begun go back to the queue instead, to where they were. [`Error::NotOwner`] without a good lease: join again.
    fn take_abandoned(&self, most: usize) -> BoxFuture<'_, Result<Vec<RunId>, Error>>;

    /// Gives a run back that this service owns; nothing if it does not. An append that leaves a run with no engine at
    /// work gives it back as well.
    fn release(&self, run: RunId) -> BoxFuture<'_, Result<(), Error>>;

    /// Whether this service owns the run, as far as it knows.
    fn owns(&self, run: RunId) -> bool;

    /// Runs that wait for a user whose time is over, oldest first. Any service may decide on them.
    fn due(&self, most: usize) -> BoxFuture<'_, Result<Vec<RunId>, Error>>;

    /// Runs that are over for at least so long and still have events in the store. Any service may seal them.
    fn unsealed(&self, over_for: Duration, most: usize) -> BoxFuture<'_, Result<Vec<RunId>, Error>>;

    /// Asks the owner of a run for something; false if nobody owns it. It may be lost with its owner.
    fn ask(&self, run: RunId, control: Control) -> BoxFuture<'_, Result<bool, Error>>;

    /// What was asked of this service; each is told once.
    fn asked(&self) -> BoxFuture<'_, Result<Vec<(RunId, Control)>, Error>>;

    /// Told when there may be something to take or something was asked. May be lost or come without reason: whoever waits looks
    /// for itself now and then.
    fn wake(&self) -> Arc<Notify>;

    /// Whether something may have been asked of this service since this was last said. What is not heard of is found by whoever looks for
    /// itself now and then.
    fn was_asked(&self) -> bool {
        true
    }

    /// All services whose lease has not ended long ago.
    fn nodes(&self) -> BoxFuture<'_, Result<Vec<Node>, Error>>;

    /// Asks a service to take no new runs, or to take some again; false if there is none with this id.
    fn drain(&self, node: NodeId, draining: bool) -> BoxFuture<'_, Result<bool, Error>>;

    /// How many runs that have not ended there are, by engine and status; `None` if that cannot be told.
    fn open_counts(&self) -> BoxFuture<'_, Result<Option<OpenCounts>, Error>> {
        Box::pin(std::future::ready(Ok(None)))
    }

    /// Those of the shared files, by their SHA-256, that no run and no record needs.
    fn unused_files(&self, among: &[[u8; 32]]) -> BoxFuture<'_, Result<Vec<[u8; 32]>, Error>>;
}
