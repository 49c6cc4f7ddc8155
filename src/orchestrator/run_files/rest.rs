//! A run that goes on: its files as one shared archive, and the folders made of it on another node.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tempfile::NamedTempFile;
use tracing::warn;

use super::{Along, Held, Mark, Row, RunFiles, Sources, patiently};
use crate::blobs::Blob;
use crate::domain::ids::RunId;
use crate::domain::state::RunState;
use crate::domain::statechart::Status;
use crate::engine;
use crate::files;
use crate::orchestrator::error::Error;
use crate::workspace::{self, Most, PackError, Packed, What};

/// Most files and bytes of a run that goes on.
const MOST: Most = Most { entries: 100_000, bytes: 4 << 30 };

const RUN: &str = "run";
const REQUEST: &str = "request";
const HOME: &str = "home";
const SKILL: &str = "skill";

impl RunFiles {
    /// Puts the files of a run that comes to rest, and the skill that it shares; what the append is to carry. `leave_out` is a file
    /// of the request that nobody needs any more.
    pub(crate) async fn at_rest(
        &self,
        state: &RunState,
        skill: Option<PathBuf>,
        leave_out: Option<&'static str>,
    ) -> Result<Along, Error> {
        let Some(blobs) = &self.blobs else { return Ok(Along::default()) };
        let run = state.run_id;
        let (paths, request) = (self.layout.run(run), self.layout.request(state.request_id));
        let sessions = engine::adapter_named(&state.engine).map_or(&[][..], |adapter| adapter.home.sessions);
        let tmp = self.layout.tmp();
        let pack = move || {
            let folders = [
                Packed { name: RUN, folder: &paths.root, what: What::AllBut(None) },
                Packed { name: REQUEST, folder: &request, what: What::AllBut(leave_out) },
                Packed { name: HOME, folder: &paths.home, what: What::FilesBelow(sessions) },
            ];
            let files = archive(run, &tmp, &folders)?;
            let copy = skill
                .map(|copy| archive(run, &tmp, &[Packed { name: SKILL, folder: &copy, what: What::AllBut(None) }]));
            Ok::<_, Error>((files, copy.transpose()?))
        };
        let (files, skill) = self.blocking.run("pack the run's files", pack).await??;
        let put_after = self.store.removals().await?;
        let mut sources = Sources { blobs: blobs.clone(), files: Vec::new(), temporary: Vec::new() };
        let mut put = Vec::new();
        for archive in [Some(files), skill].into_iter().flatten() {
            let blob = patiently(|| blobs.put_file(archive.path())).await?;
            sources.files.push((archive.path().to_owned(), blob));
            sources.temporary.push(archive);
            put.push(blob);
        }
        let (Some(files), skill) = (put.first().copied(), put.get(1).copied()) else { return Ok(Along::default()) };
        let row = Row { files: Some(files), skill, end: None, sealed: None };
        let hashes = [Some(files), skill].into_iter().flatten().map(|blob| blob.sha256).collect();
        let (rows, mark) = (vec![row.put(run)?], Some(Mark::rest(&files)));
        Ok(Along { rows, files: hashes, put_after, sources: Some(Arc::new(sources)), mark })
    }

    /// Makes the folders of a run that goes on what they were when it came to rest, for a process that changes them now. Where
    /// this process works on the run already, or the run's turn began on this disk, they stay as they are.
    pub(crate) async fn take(self: &Arc<Self>, state: &RunState) -> Result<Held, Error> {
        let run = state.run_id;
        if !self.are_shared() {
            return Ok(Held::nothing(run));
        }
        let _alone = self.lock(run).await;
        if self.held().contains(&run) {
            return Ok(Held::nothing(run));
        }
        if let Some(files) = self.row(run).await?.and_then(|row| row.files) {
            let mark = self.mark(run).await?;
            let running = state.status() == Status::Running;
            let here = if running { Mark::turn(state.turns, &files) } else { Mark::rest(&files) };
            let is_here = mark.as_ref() == Some(&here);
            if !is_here {
                self.restore(state, &files).await?;
            }
            // The mark is set before a turn begins: this service may have died then, and another one begun the turn.
            if running || !is_here {
                self.extend_raw(run).await?;
            }
            let turn = if running { state.turns } else { state.turns.saturating_add(1) };
            self.set_mark(run, Some(Mark::turn(turn, &files))).await?;
        }
        self.held().insert(run);
        Ok(Held::of(self.clone(), run))
    }

    /// The same for somebody who reads: while another service works on the run, its output so far is added.
    pub(crate) async fn look(&self, state: &RunState) -> Result<(), Error> {
        let run = state.run_id;
        if !self.are_shared() || self.held().contains(&run) {
            return Ok(());
        }
        let _alone = self.lock(run).await;
        let Some(files) = self.row(run).await?.and_then(|row| row.files) else { return Ok(()) };
        if self.held().contains(&run) {
            return Ok(());
        }
        let mark = self.mark(run).await?;
        if mark.as_ref() == Some(&Mark::turn(state.turns, &files)) && state.status() == Status::Running {
            // It ran here before this process was started, and is about to be recovered.
            return Ok(());
        }
        if mark.as_ref() != Some(&Mark::rest(&files)) {
            self.restore(state, &files).await?;
            self.set_mark(run, Some(Mark::rest(&files))).await?;
        }
        if state.turns > 0 { self.extend_raw(run).await } else { Ok(()) }
    }

    /// The archive of the skill that a run shares with others.
    pub(crate) async fn shared_skill(&self, run: RunId) -> Result<Option<Blob>, Error> {
        if !self.are_shared() {
            return Ok(None);
        }
        Ok(self.row(run).await?.and_then(|row| row.skill))
    }

    /// Fetches the archive of a skill.
    pub(crate) async fn fetch_skill(&self, skill: Blob) -> Result<NamedTempFile, Error> {
        self.fetch_archive(&skill).await
    }

    async fn restore(&self, state: &RunState, files: &Blob) -> Result<(), Error> {
        let archive = self.fetch_archive(files).await?;
        let paths = self.layout.run(state.run_id);
        let request = self.layout.request(state.request_id);
        let (tmp, run) = (self.layout.tmp(), state.run_id);
        let restore = move || {
            let unpacked = tempfile::Builder::new()
                .prefix("restoring-")
                .tempdir_in(&tmp)
                .map_err(Error::io(format!("create a folder in {}", tmp.display())))?;
            open(archive.path(), unpacked.path()).map_err(|error| broken(run, error))?;
            files::sync_file_system(unpacked.path())?;
            for (name, place) in [(REQUEST, &request), (HOME, &paths.home), (RUN, &paths.root)] {
                files::remove_tree(place)?;
                let made = unpacked.path().join(name);
                if made.symlink_metadata().is_ok() {
                    files::create_parent(place)?;
                    files::rename(&made, place)?;
                }
            }
            Ok(())
        };
        self.blocking.run("restore the run's files", restore).await?
    }

    async fn fetch_archive(&self, blob: &Blob) -> Result<NamedTempFile, Error> {
        self.has_room_for(blob.size)?;
        let tmp = self.layout.tmp();
        let file = self.blocking.run("fetch the run's files", move || temporary(&tmp)).await??;
        if let Some(blobs) = &self.blobs {
            let path = file.path().to_owned();
            patiently(|| blobs.fetch(blob, &path)).await?;
        }
        Ok(file)
    }
}

/// Unpacks the copy of a skill to this path, where nothing is. Blocks.
pub(crate) fn unpack_skill(archive: &Path, to: &Path) -> Result<(), files::Error> {
    let parent = to.parent().unwrap_or(to);
    let unpacked = tempfile::Builder::new()
        .prefix(".unpacking-")
        .tempdir_in(parent)
        .map_err(files::Error::on("create a folder in", parent))?;
    open(archive, unpacked.path()).map_err(files::Error::on("unpack a skill to", to))?;
    files::rename(&unpacked.path().join(SKILL), to)
}

fn open(archive: &Path, to: &Path) -> std::io::Result<()> {
    workspace::unpack(&File::open(archive)?, to, MOST)
}

fn broken(run: RunId, error: std::io::Error) -> Error {
    match error.kind() {
        std::io::ErrorKind::InvalidData | std::io::ErrorKind::UnexpectedEof => {
            Error::Corrupt { run: run.to_string(), message: format!("the archive of its files: {error}") }
        }
        _ => Error::io("unpack the run's files")(error),
    }
}

fn archive(run: RunId, tmp: &Path, folders: &[Packed<'_>]) -> Result<NamedTempFile, Error> {
    let mut file = temporary(tmp)?;
    let mut writer = BufWriter::with_capacity(256 * 1024, file.as_file_mut());
    let left_out = workspace::pack(folders, MOST, &mut writer).map_err(|error| match error {
        PackError::TooMuch(reason) => Error::FilesTooLarge { reason },
        PackError::Io(error) => error.into(),
    })?;
    writer.flush().map_err(Error::io("pack the run's files"))?;
    drop(writer);
    if let Some((path, reason)) = &left_out.first {
        let (count, path) = (left_out.count, path.display());
        warn!(run.id = %run, count, %path, reason, "some files of a run are not shared with other services");
    }
    Ok(file)
}

fn temporary(tmp: &Path) -> Result<NamedTempFile, Error> {
    files::create_folder(tmp)?;
    let made = tempfile::Builder::new().prefix("archive-").tempfile_in(tmp);
    made.map_err(Error::io(format!("create a file in {}", tmp.display())))
}
