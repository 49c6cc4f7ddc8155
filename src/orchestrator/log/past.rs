//! A run as its log had it after one event: its state, its artifacts, and how far its streams went.

use std::collections::BTreeMap;

use crate::domain::artifact::ArtifactEntry;
use crate::domain::event::Event;
use crate::domain::fact::Stream;
use crate::domain::ids::{RunId, Seq};
use crate::domain::state::RunState;
use crate::orchestrator::error::Error;
use crate::orchestrator::log::run_log::RunLog;

/// A run after one of its events.
#[derive(Debug)]
pub(crate) struct Past {
    pub(crate) state: RunState,
    /// Those that were indexed by then.
    pub(crate) artifacts: Vec<ArtifactEntry>,
    /// Bytes of each stream that were logged by then.
    streams: BTreeMap<&'static str, u64>,
}

impl Past {
    pub(crate) fn bytes_of(&self, stream: Stream) -> u64 {
        self.streams.get(stream.as_str()).copied().unwrap_or(0)
    }
}

impl RunLog {
    /// The run as it was after one event.
    pub(crate) async fn past(&self, run: RunId, seq: Seq) -> Result<Past, Error> {
        let head = self.head(run).await?.state.head_seq;
        if seq > head || seq == Seq::START {
            return Err(Error::SeqOutOfRange { seq, head });
        }
        let (mut artifacts, mut streams) = (Vec::new(), BTreeMap::new());
        let folded = self.fold_with(run, seq, |envelope| {
            if let Some(Event::ArtifactIndexed(artifact)) = &envelope.event {
                artifacts.push((**artifact).clone());
            }
            if let Some(raw) = &envelope.raw_ref {
                streams.insert(raw.stream.as_str(), raw.byte_to);
            }
        });
        let state = folded.await?.state;
        Ok(Past { state, artifacts, streams })
    }
}
