//! The bytes that a run's engine wrote and was given, from a service or from the run's folder.

use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::cli::connect::calls::{Encoding, LogRange};
use crate::cli::connect::client::Client;
use crate::cli::connect::runs::Runs;
use crate::cli::failure::Failure;
use crate::domain::fact::Stream;
use crate::domain::ids::RunId;
use crate::domain::run_file::RunFile;
use crate::files::{LookupError, open_beneath};
use crate::workspace::RunPaths;

/// Longest text that is read whole, as in the API.
const TEXT_MAX: u64 = 8 * 1024 * 1024;

/// What a run's engine wrote.
pub(crate) enum RawOutput<'a> {
    Service(&'a Client, RunId),
    Folder(RunPaths),
}

impl<'a> RawOutput<'a> {
    pub(crate) fn of(runs: &'a Runs, run: RunId) -> Result<Self, Failure> {
        match runs {
            Runs::Service(client) => Ok(Self::Service(client, run)),
            Runs::Store(offline) => Ok(Self::Folder(offline.wait(offline.log.folder(run))?)),
        }
    }

    /// Bytes of a stream, or the first of them; none beyond its end.
    pub(crate) fn read(&self, stream: Stream, range: Range<u64>) -> Result<Vec<u8>, Failure> {
        match self {
            Self::Service(client, run) => {
                let found = client.log_range(*run, stream, &range)?;
                let Range { start, end } = range;
                let skip = usize::try_from(start.saturating_sub(found.byte_from)).unwrap_or_default();
                let bytes = bytes_of(found)?;
                let most = usize::try_from(end - start).unwrap_or(usize::MAX);
                Ok(bytes.into_iter().skip(skip).take(most).collect())
            }
            Self::Folder(paths) => read_file(paths, RunFile::of_stream(stream), range),
        }
    }

    pub(crate) fn prompt(&self) -> Result<Vec<u8>, Failure> {
        match self {
            Self::Service(client, run) => Ok(client.logs(*run)?.answer.prompt.into_bytes()),
            Self::Folder(paths) => read_file(paths, RunFile::Prompt, 0..TEXT_MAX),
        }
    }

    /// Prompt, standard output and standard error as one document.
    pub(crate) fn texts(&self) -> Result<Value, Failure> {
        match self {
            Self::Service(client, run) => Ok(client.logs(*run)?.document),
            Self::Folder(paths) => {
                let text = |file: RunFile| -> Result<String, Failure> {
                    Ok(String::from_utf8_lossy(&read_file(paths, file, 0..TEXT_MAX)?).into_owned())
                };
                Ok(json!({
                    "prompt": text(RunFile::Prompt)?, "stdout": text(RunFile::Stdout)?, "stderr": text(RunFile::Stderr)?,
                }))
            }
        }
    }
}

/// Bytes of a file in the run's folder, in which an engine may have put anything; none of a file that is not there.
fn read_file(paths: &RunPaths, file: RunFile, range: Range<u64>) -> Result<Vec<u8>, Failure> {
    let name = file.name();
    let reading = || format!("read {name} of the run");
    let opened = match open_beneath(&paths.root, Path::new(name)) {
        Ok(opened) => opened,
        Err(LookupError::NotFound) => return Ok(Vec::new()),
        Err(error) => return Err(Failure::broken(reading())(error)),
    };
    let size = opened.metadata().map_err(Failure::broken(reading()))?.len();
    let length = range.end.min(size).saturating_sub(range.start);
    let mut bytes = vec![0; usize::try_from(length).unwrap_or_default()];
    opened.read_exact_at(&mut bytes, range.start).map_err(Failure::broken(reading()))?;
    Ok(bytes)
}

fn bytes_of(range: LogRange) -> Result<Vec<u8>, Failure> {
    match range.encoding {
        Encoding::Base64 => STANDARD.decode(range.content).map_err(Failure::broken("read the service's answer")),
        Encoding::Text => Ok(range.content.into_bytes()),
    }
}
