//! Memory for answers that are held whole until they are sent: so many bytes, and so many being made at once.
//!
//! A client that asks for large answers and does not read them would otherwise fill the memory, however few bytes each
//! connection may hold of a stream.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use axum::body::HttpBody;
use axum::response::Response;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit};
use tokio::time::timeout;

use crate::http::answer::problem::Problem;

/// Large answers that are being made at once.
const MAKING_MAX: usize = 8;
/// Finished ones that wait for room; more are refused at once.
const WAITING_MAX: usize = 2;
/// KiB of finished ones that wait to be sent.
const HELD_KIB: u32 = 256 * 1024;
/// An answer up to this size does not count: as many of them as there may be connections have room.
const SMALL_BYTES: u64 = 64 * 1024;
/// How long an answer may wait for room.
const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) struct AnswerRoom {
    making: Semaphore,
    waiting: Semaphore,
    held: Arc<Semaphore>,
}

/// The room of a finished answer, given back when its body is gone: an extension of the response.
#[derive(Debug, Clone)]
pub(crate) struct Held {
    _kib: Arc<OwnedSemaphorePermit>,
}

impl AnswerRoom {
    pub(crate) fn new() -> Self {
        let (making, waiting) = (Semaphore::new(MAKING_MAX), Semaphore::new(WAITING_MAX));
        Self { making, waiting, held: Arc::new(Semaphore::new(HELD_KIB as usize)) }
    }

    /// Makes an answer that may be large when there is room for it.
    pub(crate) async fn make(
        &self,
        making: impl Future<Output = Result<Response, Problem>>,
    ) -> Result<Response, Problem> {
        // Neither semaphore is ever closed.
        let Ok(Ok(permit)) = timeout(PATIENCE, self.making.acquire()).await else { return Err(Problem::NoRoom) };
        let response = making.await?;
        self.hold(response, Some(permit)).await
    }

    /// Room for an answer that was made. Every answer passes here in the end; one that has its room keeps it.
    pub(crate) async fn hold_made(&self, response: Response) -> Result<Response, Problem> {
        self.hold(response, None).await
    }

    async fn hold(&self, mut response: Response, making: Option<SemaphorePermit<'_>>) -> Result<Response, Problem> {
        let bytes = response.body().size_hint().lower();
        if bytes > SMALL_BYTES && response.extensions().get::<Held>().is_none() {
            // One that is larger than all the room waits until it is alone.
            let kib = u32::try_from(bytes / 1024).unwrap_or(u32::MAX).min(HELD_KIB);
            let kib = match self.held.clone().try_acquire_many_owned(kib) {
                Ok(held) => held,
                Err(_) => {
                    let Ok(_waiting) = self.waiting.try_acquire() else { return Err(Problem::NoRoom) };
                    // Others, which may be small, are made meanwhile.
                    drop(making);
                    let held = timeout(PATIENCE, self.held.clone().acquire_many_owned(kib)).await;
                    let Ok(Ok(held)) = held else { return Err(Problem::NoRoom) };
                    held
                }
            };
            response.extensions_mut().insert(Held { _kib: Arc::new(kib) });
        }
        Ok(response)
    }
}

#[cfg(test)]
mod tests {
    use axum::response::IntoResponse;

    use super::*;

    async fn answer(room: &AnswerRoom, bytes: usize) -> Result<Response, Problem> {
        room.make(async move { Ok(vec![b'x'; bytes].into_response()) }).await
    }

    #[tokio::test(start_paused = true)]
    async fn answers_that_nobody_reads_take_no_more_than_their_room_and_small_ones_always_have_some() {
        let room = AnswerRoom::new();
        let mut unread = Vec::new();
        while let Ok(response) = answer(&room, 32 << 20).await {
            unread.push(response);
        }
        assert_eq!(unread.len(), 8);
        assert!(answer(&room, 60 << 10).await.is_ok());
        unread.pop();
        assert!(answer(&room, 32 << 20).await.is_ok(), "room that was given back is there again");
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_takes_room_once_wherever_it_was_made() {
        let room = AnswerRoom::new();
        let made = || vec![b'x'; 200 << 20].into_response();
        let held = room.hold_made(made()).await.unwrap();
        assert!(matches!(room.hold_made(made()).await, Err(Problem::NoRoom)));
        let held = room.hold_made(held).await.unwrap();
        drop(held);
        assert!(room.hold_made(made()).await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_larger_than_all_the_room_is_served_when_it_is_alone() {
        let room = AnswerRoom::new();
        let whole = answer(&room, 300 << 20).await.unwrap();
        assert!(matches!(answer(&room, 1 << 20).await, Err(Problem::NoRoom)));
        drop(whole);
        assert!(answer(&room, 1 << 20).await.is_ok());
    }
}
