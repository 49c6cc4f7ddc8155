//! Tickets for event streams: a page of another origin cannot send a header with an EventSource, and a token in an address ends up in logs.

use std::collections::HashMap;
use std::io;
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::domain::ids::RunId;
use crate::domain::time::Timestamp;
use crate::http::state::credential::Credential;
use crate::workspace::new_secret;

/// How long a ticket opens the stream of its run. A stream that is open stays open, as long as the ticket's credential is good.
const SECONDS: u64 = 60;
const PREFIX: &str = "st_";
/// Most tickets, and most of one client; the one that is over first goes when there are more.
const MOST: usize = 10_000;
const MOST_OF_ONE: usize = MOST / 4;

/// What a ticket opens, and what it was given for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Ticket {
    pub(crate) run: RunId,
    /// What it was asked for with: without that, the ticket is worth nothing.
    #[serde(flatten)]
    pub(crate) credential: Credential,
    pub(crate) expires_at: Timestamp,
}

/// The tickets in force, by the hash of their text.
#[derive(Debug, Default)]
pub(crate) struct Tickets(Mutex<HashMap<[u8; 32], Ticket>>);

impl Tickets {
    /// Makes a ticket: its text, and when it is over.
    pub(crate) fn make(&self, run: RunId, credential: Credential, now: Timestamp) -> io::Result<(String, Timestamp)> {
        let (text, ticket) = new_ticket(run, credential, now)?;
        let expires_at = ticket.expires_at;
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= MOST_OF_ONE {
            all.retain(|_, ticket| now < ticket.expires_at);
        }
        let own = all.iter().filter(|(_, other)| other.credential.is_of_same(&ticket.credential));
        let (own, first_own) = first(own);
        let gone = if own >= MOST_OF_ONE { first_own } else { first(all.iter()).1.filter(|_| all.len() >= MOST) };
        if let Some(gone) = gone {
            all.remove(&gone);
        }
        all.insert(hash(&text), ticket);
        Ok((text, expires_at))
    }

    /// The ticket with this text, if it is in force.
    pub(crate) fn find(&self, text: &str, now: Timestamp) -> Option<Ticket> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.get(&hash(text)).filter(|ticket| now < ticket.expires_at).cloned()
    }
}

/// How many there are, and the one that is over first.
fn first<'a>(tickets: impl Iterator<Item = (&'a [u8; 32], &'a Ticket)>) -> (usize, Option<[u8; 32]>) {
    let (mut count, mut first) = (0, None);
    for (hash, ticket) in tickets {
        count += 1;
        if first.is_none_or(|(_, end)| ticket.expires_at < end) {
            first = Some((*hash, ticket.expires_at));
        }
    }
    (count, first.map(|(hash, _)| hash))
}

/// A ticket for a minute, and its text.
pub(crate) fn new_ticket(run: RunId, credential: Credential, now: Timestamp) -> io::Result<(String, Ticket)> {
    Ok((new_secret(PREFIX)?, Ticket { run, credential, expires_at: now.plus_seconds(SECONDS) }))
}

/// The hash by which a ticket's text is known.
pub(crate) fn text_hash(text: &str) -> String {
    hex::encode(hash(text))
}

fn hash(text: &str) -> [u8; 32] {
    Sha256::digest(text).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_micros(second * 1_000_000)
    }

    #[test]
    fn a_ticket_is_in_force_for_a_minute_and_there_are_never_too_many() {
        let tickets = Tickets::default();
        let run = RunId::from_bytes([1; 16]);
        let (text, end) = tickets.make(run, Credential::default(), at(0)).unwrap();
        assert_eq!((end, text.len()), (at(60), 46));
        let found = Ticket { run, credential: Credential::default(), expires_at: at(60) };
        assert_eq!((tickets.find(&text, at(59)), tickets.find(&text, at(60))), (Some(found), None));
        for wrong in ["", "st_", &text[1..]] {
            assert_eq!(tickets.find(wrong, at(1)), None, "{wrong}");
        }
        let of = |token: &str| Credential { token: Some(token.to_owned()), session: None };
        for session in 0..=MOST_OF_ONE {
            let credential = Credential { session: Some(session.to_string()), ..of("greedy") };
            tickets.make(run, credential, at(1)).unwrap();
        }
        assert_eq!(tickets.0.lock().unwrap().len(), MOST_OF_ONE + 1);
        assert!(tickets.find(&text, at(1)).is_some(), "a client has no more than its share");
        let others = (0..MOST).map(|other| of(&(other / MOST_OF_ONE).to_string()));
        others.for_each(|credential| drop(tickets.make(run, credential, at(2)).unwrap()));
        assert_eq!(tickets.0.lock().unwrap().len(), MOST);
        assert_eq!(tickets.find(&text, at(1)), None, "the oldest has gone");
        tickets.make(run, Credential::default(), at(100)).unwrap();
        assert_eq!(tickets.0.lock().unwrap().len(), 1, "those that are over have gone");
    }
}
