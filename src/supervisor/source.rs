//! Where a stream of an engine is read from: a pipe, or a file that is followed.

use std::io::{self, PipeReader};
use std::os::fd::OwnedFd;
use std::path::Path;

use tokio::net::unix::pipe;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use super::follower::Follower;
use super::output::StreamTotals;
use super::recorder::Recorder;
use super::spool::Spool;
use super::tee::Tee;
use crate::engine::Streams;

#[derive(Debug)]
pub(crate) enum Source {
    Pipe(PipeReader),
    File(Spool),
}

impl Source {
    /// Makes one, with the end for the engine; a file on the file system of `folder`.
    pub(crate) fn open(streams: Streams, folder: &Path) -> io::Result<(Source, OwnedFd)> {
        match streams {
            Streams::Pipes => io::pipe().map(|(reader, engines_end)| (Source::Pipe(reader), engines_end.into())),
            Streams::Files => {
                Spool::create(folder).map(|(spool, engines_end)| (Source::File(spool), engines_end.into()))
            }
        }
    }

    /// Starts the task that reads it to its end.
    pub(crate) fn read(
        self,
        recorder: Recorder,
        tree_gone: watch::Receiver<bool>,
        still_open: mpsc::Sender<()>,
    ) -> io::Result<JoinHandle<StreamTotals>> {
        match self {
            Source::Pipe(pipe) => {
                let pipe = pipe::Receiver::from_owned_fd(OwnedFd::from(pipe))?;
                Ok(tokio::spawn(Tee { pipe, recorder, tree_gone, still_open }.run()))
            }
            Source::File(spool) => Ok(tokio::spawn(Follower { spool, recorder, tree_gone, still_open }.run())),
        }
    }
}
