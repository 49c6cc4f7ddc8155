//! Memory and threads for large JSON bodies: so many bytes that have come, and so few that are read as JSON at once.
//!
//! A small value takes many times its bytes in memory, and reading a large body takes long. Clients that send large bodies wait
//! for each other; nobody else waits for them.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::http::answer::problem::Problem;

/// A body up to this size does not count: as many of them as there may be connections have room.
pub(crate) const SMALL_BYTES: usize = 16 * 1024;
/// KiB of all larger bodies.
const HELD_KIB: usize = 64 * 1024;
/// Larger bodies that are read as JSON, or whose requests are being checked, at once.
const AT_WORK_MAX: usize = 4;
/// How long a body that has come waits for that.
const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) struct BodyRoom {
    held: Arc<Semaphore>,
    at_work: Arc<Semaphore>,
}

/// The room of one body, given back when it is dropped. Whoever works with what was read keeps it until then.
#[derive(Debug, Default)]
pub(crate) struct Place {
    held: Vec<OwnedSemaphorePermit>,
    at_work: Option<OwnedSemaphorePermit>,
}

impl BodyRoom {
    pub(crate) fn new() -> Self {
        Self { held: Arc::new(Semaphore::new(HELD_KIB)), at_work: Arc::new(Semaphore::new(AT_WORK_MAX)) }
    }

    /// Room for a body that has become so long, or a refusal: whoever sends slowly is not waited for.
    pub(crate) fn grow(&self, place: &mut Place, bytes: usize) -> Result<(), Problem> {
        if bytes <= SMALL_BYTES {
            return Ok(());
        }
        let has: usize = place.held.iter().map(OwnedSemaphorePermit::num_permits).sum();
        let more = u32::try_from(bytes.div_ceil(1024).saturating_sub(has)).unwrap_or(u32::MAX);
        if more == 0 {
            return Ok(());
        }
        place.held.push(self.held.clone().try_acquire_many_owned(more).map_err(|_| Problem::Busy)?);
        Ok(())
    }

    /// Waits until a large body may be read as JSON. A small one never waits.
    pub(crate) async fn work(&self, place: &mut Place) -> Result<(), Problem> {
        if !place.held.is_empty() {
            // The semaphore is never closed.
            let permit = timeout(PATIENCE, self.at_work.clone().acquire_owned()).await;
            place.at_work = Some(permit.ok().and_then(Result::ok).ok_or(Problem::Busy)?);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn large_bodies_take_no_more_than_their_room_and_small_ones_always_have_some() {
        let room = BodyRoom::new();
        let place = |bytes: usize| {
            let mut place = Place::default();
            room.grow(&mut place, bytes / 2).and_then(|()| room.grow(&mut place, bytes)).map(|()| place)
        };
        let mut places: Vec<Place> = (0..8).map(|_| place(8 << 20).unwrap()).collect();
        assert!(matches!(place(8 << 20), Err(Problem::Busy)));
        let mut small = place(SMALL_BYTES).unwrap();
        for large in places.iter_mut().take(AT_WORK_MAX) {
            room.work(large).await.unwrap();
        }
        assert!(matches!(room.work(&mut places[AT_WORK_MAX]).await, Err(Problem::Busy)));
        room.work(&mut small).await.unwrap();
        places.truncate(1);
        assert!(place(8 << 20).is_ok(), "room that was given back is there again");
    }
}
