//! How often each client may be wrong about a token or a password before it has to wait.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// After this time one wrong attempt is forgiven.
const FORGIVEN_AFTER: Duration = Duration::from_secs(30);
/// Most clients that are remembered; the one that is forgiven first is forgotten when there are more.
const MOST_CLIENTS: usize = 4096;

/// Whose attempts are counted together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Client {
    /// A user of this machine: one cannot keep the others out.
    User(u32),
    /// Another machine; of IPv6 its network of 64 bits, because a machine has as many addresses there as it likes.
    Address(IpAddr),
}

impl Client {
    pub(crate) fn new(address: IpAddr, uid: Option<u32>) -> Self {
        match (uid, address.to_canonical()) {
            (Some(uid), _) => Self::User(uid),
            (None, IpAddr::V6(address)) => {
                let [a, b, c, d, ..] = address.segments();
                Self::Address(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into())
            }
            (None, address) => Self::Address(address),
        }
    }
}

/// The wrong attempts of all clients.
#[derive(Debug)]
pub(crate) struct FailedLogins {
    /// How many in a row; 0 is no limit.
    most: u32,
    /// When everything is forgiven, by client.
    forgiven: Mutex<HashMap<Client, Instant>>,
}

impl FailedLogins {
    pub(crate) fn new(most: u32) -> Self {
        Self { most, forgiven: Mutex::default() }
    }

    /// How long a client has to wait before it may try again; none if it may now.
    pub(crate) fn wait(&self, client: Client, now: Instant) -> Option<Duration> {
        let allowed = FORGIVEN_AFTER * self.most.checked_sub(1)?;
        let forgiven = *self.forgiven.lock().unwrap_or_else(PoisonError::into_inner).get(&client)?;
        forgiven.saturating_duration_since(now).checked_sub(allowed).filter(|wait| !wait.is_zero())
    }

    /// A client was wrong.
    pub(crate) fn count(&self, client: Client, now: Instant) {
        if self.most == 0 {
            return;
        }
        let mut all = self.forgiven.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= MOST_CLIENTS && !all.contains_key(&client) {
            all.retain(|_, forgiven| now < *forgiven);
            if all.len() >= MOST_CLIENTS
                && let Some(first) = all.iter().min_by_key(|(_, forgiven)| **forgiven).map(|(client, _)| *client)
            {
                all.remove(&first);
            }
        }
        let forgiven = all.entry(client).or_insert(now);
        *forgiven = (*forgiven).max(now) + FORGIVEN_AFTER;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Client = Client::User(1);

    #[test]
    fn after_ten_wrong_attempts_one_is_allowed_each_half_minute_and_others_are_not_kept_out() {
        let failed = FailedLogins::new(10);
        let begin = Instant::now();
        for _ in 0..10 {
            assert_eq!(failed.wait(ONE, begin), None);
            failed.count(ONE, begin);
        }
        assert_eq!(failed.wait(ONE, begin), Some(FORGIVEN_AFTER));
        assert_eq!(failed.wait(Client::User(2), begin), None);
        assert_eq!(failed.wait(ONE, begin + Duration::from_secs(29)), Some(Duration::from_secs(1)));
        let later = begin + FORGIVEN_AFTER;
        assert_eq!(failed.wait(ONE, later), None);
        failed.count(ONE, later);
        assert_eq!(failed.wait(ONE, later), Some(FORGIVEN_AFTER));
        assert_eq!(failed.wait(ONE, later + FORGIVEN_AFTER * 10), None);
        let unlimited = FailedLogins::new(0);
        for _ in 0..100 {
            unlimited.count(ONE, begin);
        }
        assert_eq!(unlimited.wait(ONE, begin), None);
    }

    #[test]
    fn a_network_is_one_client_and_only_so_many_are_remembered() {
        let address = |text: &str| Client::new(text.parse().unwrap(), None);
        assert_eq!(address("2001:db8:0:1::1"), address("2001:db8:0:1:9::2"));
        assert_ne!(address("2001:db8:0:1::1"), address("2001:db8:0:2::1"));
        assert_eq!(address("::ffff:192.0.2.1"), address("192.0.2.1"));
        assert_eq!(Client::new("127.0.0.1".parse().unwrap(), Some(7)), Client::User(7));
        let failed = FailedLogins::new(1);
        let begin = Instant::now();
        for uid in 0..2 * u32::try_from(MOST_CLIENTS).unwrap() {
            failed.count(Client::User(uid), begin + Duration::from_millis(uid.into()));
        }
        assert_eq!(failed.forgiven.lock().unwrap().len(), MOST_CLIENTS);
        let last = begin + Duration::from_secs(9);
        assert_eq!(failed.wait(Client::User(0), last), None, "the first was forgotten");
        assert!(failed.wait(Client::User(2 * 4096 - 1), last).is_some());
    }
}
