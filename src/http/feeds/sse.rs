//! A stream of server-sent events. Every reader reads the log from its own cursor; a wake-up carries no data.

use std::time::Duration;

use async_stream::stream;
use bytes::Bytes;
use futures_util::Stream;
use serde_json::json;
use tokio::sync::watch;
use tracing::{error, info};

use crate::domain::causes::chain;
use crate::domain::ids::Seq;
use crate::domain::state::RunState;
use crate::http::answer::problem::Problem;
use crate::http::state::app::App;
use crate::http::state::pass::Pass;
use crate::metrics::Held;
use crate::orchestrator::Error;

/// How long an EventSource waits before it comes back.
const RETRY_MILLIS: u64 = 2000;

/// A reader, and its position in the log.
pub(crate) struct Follow {
    app: App,
    pass: Pass,
    state: RunState,
    head: watch::Receiver<Seq>,
    cursor: Seq,
    /// Counts the reader as long as it is there.
    _counted: Held,
}

/// What a reader does next.
enum Step {
    Send(Bytes),
    SendLast(Bytes),
    End,
    /// The token or session that opened the stream is gone. An end would say that there is nothing more.
    Cut,
}

impl Follow {
    /// Follow a run from a cursor. `head` was watched before `state` was read: an append between the two would
    /// otherwise be missed.
    pub(crate) fn new(app: App, pass: Pass, state: RunState, head: watch::Receiver<Seq>, cursor: Seq) -> Self {
        let _counted = app.orchestrator().metrics().sse_reader();
        Self { app, pass, state, head, cursor, _counted }
    }

    /// The snapshot, then every event after the cursor, until the run, the service or the reader's access ends.
    pub(crate) fn stream(mut self) -> impl Stream<Item = Result<Bytes, Problem>> {
        stream! {
            yield Ok(snapshot(&self.state));
            loop {
                match self.step().await {
                    Ok(Step::Send(bytes)) => yield Ok(bytes),
                    Ok(Step::SendLast(bytes)) => {
                        yield Ok(bytes);
                        break;
                    }
                    Ok(Step::End) => break,
                    Ok(Step::Cut) => {
                        info!(run.id = %self.state.run_id, "an event stream was cut: its token or session has ended");
                        yield Err(Problem::Unauthorized);
                        break;
                    }
                    Err(problem) => {
                        error!(run.id = %self.state.run_id, error = %chain(&problem), "an event stream failed");
                        // The client sees a cut response and comes back with its cursor.
                        yield Err(problem);
                        break;
                    }
                }
            }
        }
    }

    async fn step(&mut self) -> Result<Step, Problem> {
        loop {
            if self.pass.is_lost(&self.app) {
                return Ok(Step::Cut);
            }
            // The row is the head of a finished run: its events may have left the store for a file.
            let head = self.state.head_seq.max(*self.head.borrow_and_update());
            if self.cursor < head {
                let Some(frame) = self.app.frames().after(self.state.run_id, self.cursor, head).await? else {
                    let message = format!("it ends at {}, before {head}", self.cursor);
                    return Err(Error::Corrupt { run: self.state.run_id.to_string(), message }.into());
                };
                self.cursor = frame.last;
                let bytes = frame.bytes.clone();
                return Ok(if frame.terminal { Step::SendLast(bytes) } else { Step::Send(bytes) });
            }
            if self.state.status().is_final() {
                return Ok(Step::End);
            }
            if self.cursor > head {
                // A cursor beyond the head: the run may end without ever reaching it.
                self.look_again().await?;
                if self.state.status().is_final() || self.cursor < self.state.head_seq {
                    continue;
                }
            }
            if let Some(step) = self.wait().await? {
                return Ok(step);
            }
        }
    }

    /// Wait for a larger head; what to do meanwhile, if it takes long.
    async fn wait(&mut self) -> Result<Option<Step>, Problem> {
        let silence = Duration::from_secs(self.app.orchestrator().settings().http.heartbeat_seconds);
        tokio::select! {
            // What is in the log is sent before the service ends: it may be the run's last event.
            biased;
            changed = self.head.changed() => match changed {
                Ok(()) => Ok(None),
                Err(_) => {
                    // The events have left the store. Of a finished run they are in its file; else the store is closed.
                    self.look_again().await?;
                    Ok((!self.state.status().is_final()).then_some(Step::End))
                }
            },
            () = tokio::time::sleep(silence) => Ok(Some(Step::Send(Bytes::from_static(b"event: heartbeat\ndata: {}\n\n")))),
            () = self.pass.perhaps_lost(&self.app) => Ok(None),
            () = self.app.closed() => Ok(Some(Step::End)),
        }
    }

    async fn look_again(&mut self) -> Result<(), Problem> {
        self.state = self.app.orchestrator().state(self.state.run_id).await?;
        Ok(())
    }
}

fn snapshot(state: &RunState) -> Bytes {
    let pending = state.pending().map(|pending| pending.interaction.interaction_id);
    let data = json!({
        "status": state.status(),
        "cursor": state.head_seq,
        "pending_interaction_id": pending,
    });
    Bytes::from(format!("retry: {RETRY_MILLIS}\nevent: snapshot\ndata: {data}\n\n"))
}
