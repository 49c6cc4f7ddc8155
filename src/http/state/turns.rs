//! How many requests are being answered at once, by how long such an answer takes to begin.
//!
//! Reading a long log or making a zip takes a thread and a processor for seconds. Without a limit, clients that ask for many of
//! them at once would keep everybody else waiting.

use std::sync::Arc;
use std::time::Duration;

use axum::response::{IntoResponse, Response};
use percent_encoding::percent_decode_str;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use tracing::Instrument;

use crate::http::answer::problem::Problem;

/// Answers at once that may take seconds.
const SLOW_MAX: usize = 4;
/// All others that read.
const USUAL_MAX: usize = 64;
/// How long a request waits for its turn.
const PATIENCE: Duration = Duration::from_secs(30);

/// How long it takes until an answer begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pace {
    /// No time, or the time that the client asked for.
    Own,
    Usual,
    /// It reads a whole log, or all files of a run.
    Slow,
    /// It reads a whole log if one of these is in the query.
    SlowWith(&'static [&'static str]),
}

pub(crate) struct Turns {
    answering: Arc<Semaphore>,
    slow: Arc<Semaphore>,
    usual: Arc<Semaphore>,
}

/// A request is being answered until the last byte of its answer is sent: an extension of the response.
#[derive(Debug, Clone)]
pub(crate) struct Answering {
    _permit: Arc<OwnedSemaphorePermit>,
}

impl Turns {
    /// For a service with so many connections. One in eight of them is kept for who asks whether the service lives.
    pub(crate) fn new(connections: usize) -> Self {
        let answering = Arc::new(Semaphore::new(connections - connections / 8));
        Self { answering, slow: Arc::new(Semaphore::new(SLOW_MAX)), usual: Arc::new(Semaphore::new(USUAL_MAX)) }
    }

    /// Begins to answer a request; none if as many as possible are being answered. Feeds without end, and answers that nobody
    /// reads, count too.
    pub(crate) fn begin(&self) -> Result<Answering, Problem> {
        let permit = self.answering.clone().try_acquire_owned().map_err(|_| Problem::TooManyConnections)?;
        Ok(Answering { _permit: Arc::new(permit) })
    }

    /// Waits for the turn of work that may take seconds and begins only when the body of its request has come.
    pub(crate) async fn slow(&self) -> Result<OwnedSemaphorePermit, Problem> {
        // The semaphores are never closed.
        let turn = timeout(PATIENCE, self.slow.clone().acquire_owned()).await;
        turn.ok().and_then(Result::ok).ok_or(Problem::Busy)
    }

    /// Makes an answer when it is its turn. What has begun goes on without its client, and keeps its turn until it is done.
    pub(crate) async fn take(
        &self,
        pace: Pace,
        query: &str,
        answer: impl Future<Output = Response> + Send + 'static,
    ) -> Response {
        // As the handler reads it: a name may be percent-encoded.
        let has = |names: &[&str]| {
            let mut named = query.split('&').map(|pair| pair.split('=').next().unwrap_or_default());
            named.any(|name| percent_decode_str(name).decode_utf8().is_ok_and(|name| names.contains(&&*name)))
        };
        let kind = match pace {
            Pace::Own => return answer.await,
            Pace::Slow => &self.slow,
            Pace::SlowWith(names) if has(names) => &self.slow,
            Pace::Usual | Pace::SlowWith(_) => &self.usual,
        };
        // The semaphores are never closed.
        let Ok(Ok(turn)) = timeout(PATIENCE, kind.clone().acquire_owned()).await else {
            return Problem::Busy.into_response();
        };
        let answer = async move {
            let _turn = turn;
            answer.await
        };
        tokio::spawn(answer.in_current_span()).await.unwrap_or_else(|_| Problem::Panicked.into_response())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn slow_answers_wait_for_each_other_and_nobody_else_waits_for_them() {
        let turns = Arc::new(Turns::new(16));
        let endless = |pace: Pace, query: &'static str| {
            let turns = turns.clone();
            tokio::spawn(async move { turns.take(pace, query, std::future::pending()).await })
        };
        let stuck: Vec<_> = (0..SLOW_MAX).map(|_| endless(Pace::SlowWith(&["at_seq"]), "a=b&at_seq=1")).collect();
        tokio::task::yield_now().await;
        // Clients that have gone take nothing with them.
        stuck.iter().for_each(tokio::task::JoinHandle::abort);
        let is_answered = async |pace: Pace, query: &str| {
            turns.take(pace, query, async { "done".into_response() }).await.status().is_success()
        };
        assert!(!is_answered(Pace::Slow, "").await);
        assert!(matches!(turns.slow().await, Err(Problem::Busy)), "what a request brings waits with them");
        assert!(!is_answered(Pace::SlowWith(&["at_seq"]), "a=b&a%74%5Fseq=1").await, "the same name");
        assert!(is_answered(Pace::SlowWith(&["at_seq"]), "b=at_seq").await);
        assert!(is_answered(Pace::Usual, "").await && is_answered(Pace::Own, "").await);
    }

    #[test]
    fn one_in_eight_connections_has_no_request_that_is_being_answered() {
        for (connections, most) in [(1, 1), (7, 7), (16, 14), (1024, 896)] {
            let turns = Turns::new(connections);
            let mut begun: Vec<Answering> = (0..most).map(|_| turns.begin().unwrap()).collect();
            assert!(matches!(turns.begin(), Err(Problem::TooManyConnections)));
            begun.pop();
            assert!(turns.begin().is_ok());
        }
    }
}
