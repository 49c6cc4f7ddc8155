//! Writes the files and events of a recorded run into a store, one after the other.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::sync::Arc;

use bytes::Bytes;

use crate::cli::failure::Failure;
use crate::cli::inspect::replay::recording::Recording;
use crate::domain::event::Event;
use crate::domain::ids::Seq;
use crate::domain::run_file::RunFile;
use crate::export::EVENTS;
use crate::fcmp::{Envelope, LogHead, RawRef};
use crate::files::{self, for_each_chunk};
use crate::store::{Append, EventBatch, EventStore, IndexChange, IndexKey};
use crate::workspace::{RunPaths, create_run};

/// Plays a recording into a store and a run's folder.
pub(crate) struct Player {
    recording: Arc<Recording>,
    store: Arc<dyn EventStore>,
    paths: RunPaths,
    head: Option<LogHead>,
    /// Events that are appended together with the next one.
    held: Vec<Vec<u8>>,
}

impl Player {
    pub(crate) fn new(recording: Arc<Recording>, store: Arc<dyn EventStore>, paths: RunPaths) -> Self {
        Self { recording, store, paths, head: None, held: Vec::new() }
    }

    /// Appends one event, after the bytes it refers to. The change to a final state is held back until the terminal event:
    /// they were committed together, and a reader ends when it sees a final state.
    pub(crate) async fn play(&mut self, envelope: &Envelope, stored: Vec<u8>) -> Result<(), Failure> {
        self.files(envelope).map_err(Failure::broken("write the run's files"))?;
        let head = LogHead::after(self.head.take(), envelope, &stored);
        let head = head
            .ok_or_else(|| Failure::Broken("the recording does not begin with the first event of a run".to_owned()))?;
        let says_how = matches!(envelope.event, Some(Event::Completed(_) | Event::Failed(_)));
        let waits = head.state.status().is_final() && !says_how;
        self.head = Some(head);
        self.held.push(stored);
        if waits { Ok(()) } else { self.show().await }
    }

    /// Appends the events that were held back.
    pub(crate) async fn show(&mut self) -> Result<(), Failure> {
        let Some(head) = self.head.as_ref().filter(|_| !self.held.is_empty()) else { return Ok(()) };
        let row = serde_json::to_vec(head).map_err(Failure::broken("write the run's row"))?;
        let (run, request) = (head.state.run_id, head.state.request_id);
        let count = u32::try_from(self.held.len()).unwrap_or(u32::MAX);
        let expected_head = Seq(head.state.head_seq.0.saturating_sub(u64::from(count)));
        let index = vec![
            IndexChange::Put(IndexKey::Run(run), row.into()),
            IndexChange::Put(IndexKey::Request(request), Bytes::copy_from_slice(run.as_bytes())),
        ];
        let mut ndjson = Vec::new();
        for event in self.held.drain(..) {
            ndjson.extend_from_slice(&event);
            ndjson.push(b'\n');
        }
        let events = vec![EventBatch { first: expected_head.next(), count, ndjson: ndjson.into() }];
        self.store
            .append(Append { run, expected_head, events, index, require_absent: None, for_others: Default::default() })
            .await?;
        Ok(())
    }

    fn files(&self, envelope: &Envelope) -> io::Result<()> {
        if let Some(raw) = &envelope.raw_ref {
            self.grow(raw)?;
        }
        match &envelope.event {
            Some(Event::Started(_)) => {
                create_run(&self.paths)?;
                self.copy(RunFile::Input.name())?;
                self.copy(RunFile::Skill.name())
            }
            Some(Event::TurnStarted(_)) => self.copy(RunFile::Prompt.name()),
            Some(Event::ArtifactIndexed(artifact)) => self.copy(&artifact.path_rel),
            Some(Event::Completed(_) | Event::Failed(_)) => self.last_files(),
            Some(_) | None => Ok(()),
        }
    }

    /// Everything that is not there yet; the log itself stays in the store.
    fn last_files(&self) -> io::Result<()> {
        let files = &self.recording.contents().files;
        for listed in files.iter().filter(|listed| listed.path != EVENTS) {
            self.copy(&listed.path)?;
        }
        Ok(())
    }

    fn copy(&self, name: &str) -> io::Result<()> {
        let Some(piece) = self.recording.file(name) else { return Ok(()) };
        let path = self.paths.root.join(name);
        files::create_parent(&path)?;
        let mut file = File::create(path)?;
        piece.digest(|chunk| file.write_all(chunk)).map(drop)
    }

    /// Extends a stream to the last byte that the event refers to.
    fn grow(&self, raw: &RawRef) -> io::Result<()> {
        let log = RunFile::of_stream(raw.stream);
        let Some(piece) = self.recording.file(log.name()) else { return Ok(()) };
        let path = self.paths.file(log);
        files::create_parent(&path)?;
        let mut file = OpenOptions::new().create(true).append(true).open(path)?;
        let written = file.metadata()?.len();
        let Some(more) = raw.byte_to.checked_sub(written).filter(|_| raw.byte_to <= piece.size()) else {
            return Ok(());
        };
        for_each_chunk(piece.part(written, more).reader(), |error| error, |chunk| file.write_all(chunk))
    }
}
