//! Followers of runs that go from one service to the next with nothing but their cursor.

use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::Value;

use super::{Kind, NODES, World};
use crate::support::client::Sse;
use crate::support::random::Random;

/// How long a follower waits for the next event before it goes elsewhere.
const SILENCE: Duration = Duration::from_secs(2);

/// What the end of a stretch says.
enum Stretch {
    /// There is more, here or elsewhere.
    More,
    /// Nothing follows.
    End,
}

/// Follows one run after the other for a stretch, until everything was followed to its end.
pub fn follower(world: &World, mut dice: Random) {
    while !world.followed.load(Ordering::Relaxed) {
        let next = world.to_follow.lock().unwrap().pop_front();
        let Some(run) = next else {
            std::thread::sleep(Duration::from_millis(20));
            continue;
        };
        match stretch(world, &run, &mut dice) {
            Stretch::More => world.to_follow.lock().unwrap().push_back(run),
            Stretch::End => world.told(&run, |told| told.ended = true),
        }
    }
}

fn stretch(world: &World, run: &str, dice: &mut Random) -> Stretch {
    let at = dice.below(NODES as u64) as usize;
    let cursor = world.runs.lock().unwrap()[run].seen.len();
    world.hops.fetch_add(1, Ordering::Relaxed);
    // Both ways to name a cursor.
    let path = format!("/v1/jobs/{run}/events");
    let opened = if dice.below(2) == 0 {
        Sse::try_open(world.address(at), &format!("{path}?cursor={cursor}"), &[], SILENCE)
    } else {
        Sse::try_open(world.address(at), &path, &[("Last-Event-ID", &cursor.to_string())], SILENCE)
    };
    let Ok(mut stream) = opened else { return Stretch::More };
    match stream.status {
        200 => {}
        204 => return ended(world, run),
        404 => {
            world.wrong(format!("{run} was acknowledged, and service {at} does not know it"));
            return Stretch::End;
        }
        _ => return Stretch::More,
    }
    let mut left = 1 + dice.below(6);
    while left > 0 {
        let event = match stream.try_next_event() {
            Ok(Some(event)) => event,
            Ok(None) => return ended(world, run),
            Err(_) => return Stretch::More,
        };
        if event.event == "chat_event" {
            left -= 1;
            if !take(world, at, run, event.data.into_bytes()) {
                return Stretch::End;
            }
        }
    }
    Stretch::More
}

/// Notes an event; whether the run is worth following.
fn take(world: &World, at: usize, run: &str, data: Vec<u8>) -> bool {
    let event: Value = serde_json::from_slice(&data).unwrap();
    let mut expected = 0;
    let mut kind = Kind::Short;
    world.told(run, |told| {
        told.seen.push(data);
        (expected, kind) = (told.seen.len() as u64, told.kind);
    });
    if event["seq"] != expected {
        world.wrong(format!("a follower of {run} waits for event {expected}, and service {at} sends {event}"));
        return false;
    }
    if event["data"]["to"] == "waiting_user" && kind == Kind::Ask {
        // Whoever cannot take it now is asked again when all is over.
        (at + 1..at + 1 + NODES).any(|at| world.answer(at % NODES, run));
    }
    true
}

/// A feed was ended properly: the run must be over.
fn ended(world: &World, run: &str) -> Stretch {
    let last = world.runs.lock().unwrap()[run].seen.last().cloned().unwrap_or_default();
    let event: Value = serde_json::from_slice(&last).unwrap_or_default();
    if !super::judge::is_final(&event["data"]["status"]) {
        world.wrong(format!("a feed of {run} ended properly behind {event}"));
    }
    Stretch::End
}
