//! The places for open connections: how many there may be, and which one gives way when all are taken.
//!
//! A connection that waits for its client costs the client nothing, so it is the first to go: whoever opens connections and sends
//! nothing, half a head or half a body, takes no place from others.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use crate::supervisor::connections_of_a_run;

/// Descriptors kept for the store, the log, the listener and work that no request waits for.
const DESCRIPTORS_RESERVED: u64 = 64;
/// Descriptors of a run at work, beside its connections: pipes, log files, the control socket, files being prepared or judged.
const DESCRIPTORS_PER_RUN: u64 = 16;
/// Descriptors of a connection: the socket, and the files that a request sends or receives.
const DESCRIPTORS_PER_CONNECTION: u64 = 3;
/// So few always work, whatever the descriptor limit.
const LEAST_CONNECTIONS: usize = 4;

/// How long a connection counts as just begun.
const FRESH: Duration = Duration::from_secs(1);

/// How many connections fit below a limit of open files, at most `wanted`.
pub(crate) fn connection_limit(wanted: usize, open_files: u64, running_jobs: usize) -> usize {
    let ways_out = 2 * connections_of_a_run(open_files, running_jobs) as u64;
    let runs = (DESCRIPTORS_PER_RUN + ways_out).saturating_mul(running_jobs as u64);
    let left = open_files.saturating_sub(DESCRIPTORS_RESERVED).saturating_sub(runs);
    let fitting = usize::try_from(left / DESCRIPTORS_PER_CONNECTION).unwrap_or(usize::MAX);
    wanted.min(fitting.max(LEAST_CONNECTIONS))
}

/// All open connections.
pub(crate) struct Slots {
    most: usize,
    most_per_address: usize,
    open: Mutex<Open>,
}

#[derive(Default)]
struct Open {
    next_id: u64,
    connections: HashMap<u64, Connection>,
}

struct Connection {
    /// None for the machine's own addresses: a proxy on this machine brings everybody's connections.
    network: Option<Network>,
    requests: u32,
    /// Since when it has waited for the client to send something: a request, or more of a body. None while a request is being
    /// answered.
    waits_since: Option<Instant>,
    evicted: CancellationToken,
    gone: CancellationToken,
}

/// Who counts as one client: an IPv4 address, or the /64 network that one IPv6 host can take any address of.
type Network = (bool, [u8; 8]);

fn network(address: IpAddr) -> Option<Network> {
    match address.to_canonical() {
        own if own.is_loopback() => None,
        IpAddr::V4(address) => {
            let [a, b, c, d] = address.octets();
            Some((true, [a, b, c, d, 0, 0, 0, 0]))
        }
        IpAddr::V6(address) => {
            let [a, b, c, d, e, f, g, h, ..] = address.octets();
            Some((false, [a, b, c, d, e, f, g, h]))
        }
    }
}

impl Slots {
    pub(crate) fn new(most: usize, most_per_address: usize) -> Arc<Self> {
        Arc::new(Self { most, most_per_address, open: Mutex::default() })
    }

    /// A place for a connection from this address. If all are taken, the connection that has waited longest for its client
    /// gives up its own; none if every connection has a request that is being answered.
    pub(crate) fn enter(self: &Arc<Self>, address: IpAddr) -> Option<Entered> {
        let network = network(address);
        let mut open = self.open();
        let of_network = network.map_or(0, |network| open.connections.values().filter(|c| c.is_of(network)).count());
        let evicted = if of_network >= self.most_per_address {
            Some(open.evict(network)?)
        } else if open.connections.len() >= self.most {
            Some(open.evict(None)?)
        } else {
            None
        };
        let id = open.next_id;
        open.next_id += 1;
        let slot = Slot { id, slots: self.clone(), evicted: CancellationToken::new(), gone: CancellationToken::new() };
        open.connections.insert(
            id,
            Connection {
                network,
                requests: 0,
                waits_since: Some(Instant::now()),
                evicted: slot.evicted.clone(),
                gone: slot.gone.clone(),
            },
        );
        Some(Entered { slot, evicted })
    }

    /// Closes the connection that has waited longest for its client, if one has waited for a while: the system has no
    /// descriptor left. It says so even if nobody is waiting to be accepted, so connections that have just begun stay.
    pub(crate) fn evict_one(&self) -> Option<CancellationToken> {
        let mut open = self.open();
        let waited = |connection: &Connection| connection.waits_since.is_some_and(|since| since.elapsed() > FRESH);
        if open.connections.values().any(waited) { open.evict(None) } else { None }
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        // It is consistent between any two statements, so a panic elsewhere does not spoil it.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Connection {
    fn is_of(&self, network: Network) -> bool {
        self.network == Some(network)
    }
}

impl Open {
    fn evict(&mut self, network: Option<Network>) -> Option<CancellationToken> {
        let of_network = |connection: &Connection| network.is_none_or(|network| connection.is_of(network));
        let waiting = self.connections.iter().filter(|(_, connection)| of_network(connection));
        let waiting = waiting.filter_map(|(id, connection)| Some((connection.waits_since?, *id)));
        let (_, id) = waiting.min()?;
        let evicted = self.connections.remove(&id)?;
        evicted.evicted.cancel();
        Some(evicted.gone)
    }
}

/// A place, and if another connection had to give it up, what is canceled when that one is closed.
pub(crate) struct Entered {
    pub(crate) slot: Slot,
    pub(crate) evicted: Option<CancellationToken>,
}

/// The place of one connection, free again when this is dropped.
pub(crate) struct Slot {
    id: u64,
    slots: Arc<Slots>,
    /// Canceled when the connection has to close for another one.
    pub(crate) evicted: CancellationToken,
    gone: CancellationToken,
}

impl Slot {
    /// Whether no request of the connection is being answered.
    pub(crate) fn is_idle(&self) -> bool {
        self.slots.open().connections.get(&self.id).is_none_or(|connection| connection.requests == 0)
    }

    /// The connection has a request, until the result is dropped; none if it has lost its place already.
    pub(crate) fn begin_request(self: &Arc<Self>) -> Option<Request> {
        let mut open = self.slots.open();
        let connection = open.connections.get_mut(&self.id)?;
        connection.requests += 1;
        connection.waits_since = None;
        Some(Request(self.clone()))
    }

    /// The request's body is being waited for, or is no longer.
    pub(crate) fn waits_for_body(&self, waits: bool) {
        if let Some(connection) = self.slots.open().connections.get_mut(&self.id) {
            let idle = connection.requests == 0;
            connection.waits_since = (waits || idle).then(|| connection.waits_since.unwrap_or_else(Instant::now));
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.slots.open().connections.remove(&self.id);
        self.gone.cancel();
    }
}

/// A request that is being answered: its connection does not give way.
pub(crate) struct Request(Arc<Slot>);

impl Drop for Request {
    fn drop(&mut self) {
        if let Some(connection) = self.0.slots.open().connections.get_mut(&self.0.id) {
            connection.requests = connection.requests.saturating_sub(1);
            connection.waits_since = (connection.requests == 0).then(Instant::now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    fn far(last: u8) -> IpAddr {
        IpAddr::V4([192, 0, 2, last].into())
    }

    fn enter(slots: &Arc<Slots>, address: IpAddr) -> Slot {
        slots.enter(address).unwrap().slot
    }

    #[test]
    fn the_connection_that_waited_longest_gives_way_and_busy_ones_stay() {
        let slots = Slots::new(3, 3);
        let places: Vec<_> = (0..3).map(|_| Arc::new(enter(&slots, OWN))).collect();
        let first_request = places[0].begin_request().unwrap();
        let newcomer = Arc::new(enter(&slots, OWN));
        let evicted = |places: &[Arc<Slot>]| places.iter().map(|slot| slot.evicted.is_cancelled()).collect::<Vec<_>>();
        assert_eq!(evicted(&places), [false, true, false]);
        assert!(places[1].begin_request().is_none(), "what lost its place begins nothing");
        let _requests = (places[2].begin_request().unwrap(), newcomer.begin_request().unwrap());
        assert!(slots.enter(OWN).is_none(), "all are busy");
        drop(first_request);
        assert!(slots.enter(OWN).is_some());
        assert_eq!(evicted(&places), [true, true, false]);
    }

    #[test]
    fn a_connection_whose_body_does_not_come_gives_way_and_one_whose_body_comes_stays() {
        let slots = Slots::new(2, 2);
        let places: Vec<_> = (0..2).map(|_| Arc::new(enter(&slots, OWN))).collect();
        let _requests: Vec<_> = places.iter().map(|slot| slot.begin_request().unwrap()).collect();
        assert!(slots.enter(OWN).is_none(), "both are being answered");
        places[0].waits_for_body(true);
        places[1].waits_for_body(true);
        places[0].waits_for_body(false);
        places[0].waits_for_body(true);
        assert!(slots.enter(OWN).is_some());
        let evicted: Vec<bool> = places.iter().map(|slot| slot.evicted.is_cancelled()).collect();
        assert_eq!(evicted, [false, true], "the one that has waited longest since its last byte");
    }

    #[test]
    fn one_address_takes_only_its_share_and_this_machine_has_none() {
        let slots = Slots::new(10, 2);
        let far_places: Vec<_> = (0..2).map(|_| Arc::new(enter(&slots, far(1)))).collect();
        let _busy: Vec<_> = far_places.iter().map(|slot| slot.begin_request().unwrap()).collect();
        assert!(slots.enter(far(1)).is_none());
        assert!(slots.enter("::ffff:192.0.2.1".parse().unwrap()).is_none(), "the same address");
        let _other = enter(&slots, far(2));
        let own: Vec<_> = (0..7).map(|_| enter(&slots, OWN)).collect();
        assert_eq!(own.iter().filter(|slot| slot.evicted.is_cancelled()).count(), 0);
        let six = |last: &str| slots.enter(format!("2001:db8::{last}").parse().unwrap()).map(|entered| entered.slot);
        let v6 = [six("1").unwrap(), six("2").unwrap(), six("3").unwrap()];
        assert_eq!(v6.map(|slot| slot.evicted.is_cancelled()), [true, false, false], "one network");
    }

    #[test]
    fn a_closed_connection_frees_its_place() {
        let slots = Slots::new(1, 1);
        let slot = Arc::new(enter(&slots, far(1)));
        let request = slot.begin_request();
        drop(slot);
        assert!(slots.enter(far(1)).is_none(), "its request is still answered");
        drop(request);
        assert!(slots.enter(far(1)).is_some());
        assert_eq!(slots.open().connections.len(), 0);
    }

    #[test]
    fn connections_leave_descriptors_for_runs() {
        for (open_files, running_jobs, expected) in
            [(0, 2, 4), (64, 2, 4), (1024, 2, 224), (20_000, 4, 1024), (u64::MAX, 4096, 1024)]
        {
            assert_eq!(connection_limit(1024, open_files, running_jobs), expected, "{open_files}");
        }
        assert_eq!(connection_limit(2, 20_000, 4), 2);
    }
}
