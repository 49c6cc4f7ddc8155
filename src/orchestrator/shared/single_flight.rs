//! Runs that want the same result at the same time: one leads, the others follow it and hold no slot.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::domain::fair_queue::Ticket;
use crate::domain::ids::RunId;
use crate::orchestrator::shared::queue::Place;

/// Who leads and who follows, by cache key; a plain structure behind a short lock.
#[derive(Debug, Default)]
pub(crate) struct SingleFlight {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    flights: HashMap<String, Flight>,
}

#[derive(Debug)]
struct Flight {
    leader: RunId,
    followers: VecDeque<Follower>,
}

/// A run that waits for the result of an equal one. Its place in the queue is kept meanwhile.
#[derive(Debug)]
pub(crate) struct Follower {
    pub ticket: Ticket,
    pub place: Option<Place>,
}

impl SingleFlight {
    /// Lead, unless somebody does already.
    pub(crate) fn lead(&self, key: &str, run: RunId) -> bool {
        let mut inner = self.lock();
        if inner.flights.contains_key(key) {
            return false;
        }
        inner.flights.insert(key.to_owned(), Flight { leader: run, followers: VecDeque::new() });
        true
    }

    /// Follow whoever leads; a run that has nobody to follow leads, and is given back.
    pub(crate) fn follow(&self, key: &str, follower: Follower) -> Option<Follower> {
        let mut inner = self.lock();
        let Some(flight) = inner.flights.get_mut(key) else {
            inner.flights.insert(key.to_owned(), Flight { leader: follower.ticket.run, followers: VecDeque::new() });
            return Some(follower);
        };
        if flight.leader == follower.ticket.run {
            return Some(follower);
        }
        flight.followers.push_back(follower);
        None
    }

    /// A run is over. The runs that are to go on: all that followed it, if there is a result to take; else the next
    /// in line, which leads from now on.
    pub(crate) fn ended(&self, key: &str, run: RunId, with_result: bool) -> Vec<Follower> {
        let mut inner = self.lock();
        let Some(flight) = inner.flights.get_mut(key) else { return Vec::new() };
        if flight.leader != run {
            flight.followers.retain(|follower| follower.ticket.run != run);
            return Vec::new();
        }
        if with_result {
            return inner.flights.remove(key).map(|flight| flight.followers.into()).unwrap_or_default();
        }
        match flight.followers.pop_front() {
            Some(next) => {
                flight.leader = next.ticket.run;
                vec![next]
            }
            None => {
                inner.flights.remove(key);
                Vec::new()
            }
        }
    }

    /// Nothing can panic while it holds the lock, so a poisoned one is as good as any.
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    fn run(n: u128) -> RunId {
        RunId(Uuid::from_u128(n))
    }

    fn follower(n: u128) -> Follower {
        let (share, engine, skill) = (String::new(), "script".into(), "s".into());
        Follower { ticket: Ticket { run: run(n), priority: 0, share, engine, skill }, place: None }
    }

    fn runs(followers: Vec<Follower>) -> Vec<RunId> {
        followers.into_iter().map(|follower| follower.ticket.run).collect()
    }

    /// Run 1 leads, 2 to 4 follow.
    fn with_followers() -> SingleFlight {
        let flights = SingleFlight::default();
        assert!(flights.lead("k", run(1)) && !flights.lead("k", run(9)));
        assert!((2..=4).all(|n| flights.follow("k", follower(n)).is_none()));
        flights
    }

    #[test]
    fn a_result_is_for_all_and_the_next_one_leads_anew() {
        let flights = with_followers();
        assert_eq!(runs(flights.ended("k", run(1), true)), [run(2), run(3), run(4)]);
        assert!(flights.lead("k", run(5)));
    }

    #[test]
    fn after_a_failure_the_next_in_line_leads_and_the_others_follow_it() {
        let flights = with_followers();
        assert_eq!(runs(flights.ended("k", run(1), false)), [run(2)]);
        assert!(flights.follow("k", follower(2)).is_some(), "it leads already");
        assert_eq!(runs(flights.ended("k", run(1), true)), [], "a run is over once");
        assert_eq!(runs(flights.ended("k", run(2), true)), [run(3), run(4)]);
    }

    #[test]
    fn a_follower_that_is_over_is_passed_over_and_the_last_one_leaves_nothing() {
        let flights = with_followers();
        assert_eq!(runs(flights.ended("k", run(2), false)), []);
        assert_eq!(runs(flights.ended("k", run(1), false)), [run(3)]);
        assert_eq!(runs(flights.ended("k", run(3), false)), [run(4)]);
        assert_eq!(runs(flights.ended("k", run(4), false)), []);
        assert!(flights.lock().flights.is_empty());
    }
}
