//! Whether a sealed log is what was logged: its hash chain must end as the run's row says.

use std::fs::Metadata;
use std::io::{self, ErrorKind};
use std::path::Path;

use crate::fcmp::{ChainHasher, LogHead};
use crate::files::{for_each_chunk, open_regular};
use crate::orchestrator::log::checked::{Checked, SMALL};

/// What is wrong with a sealed log.
#[derive(Debug)]
pub(crate) enum Flaw {
    /// It is not what was logged.
    Damaged(String),
    /// It could not be read.
    Io(io::Error),
}

/// Check the sealed log of a finished run. A long one that is still as it was when it was last checked is not read. Blocks.
pub(crate) fn check_sealed(path: &Path, head: &LogHead, checked: &Checked) -> Result<(), Flaw> {
    let file = match open_regular(path) {
        Ok(file) => file,
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::InvalidInput) => {
            return Err(Flaw::Damaged(error.source.to_string()));
        }
        Err(error) => return Err(Flaw::Io(error.into())),
    };
    let found: Metadata = file.metadata().map_err(Flaw::Io)?;
    if found.len() > SMALL && checked.is_unchanged(path, &found) {
        return Ok(());
    }
    let mut hasher = ChainHasher::new(head.state.run_id);
    let expected = head.state.head_seq.0;
    let read = for_each_chunk(&file, Some, |chunk| {
        hasher.push(chunk);
        // Whatever follows is not read, however much it is.
        if hasher.is_beyond(expected) { Err(None) } else { Ok(()) }
    });
    if let Err(Some(error)) = read {
        return Err(Flaw::Io(error));
    }
    let events = hasher.events();
    if read.is_ok() && hasher.finish().is_some_and(|chain| chain == head.chain) {
        if found.len() > SMALL {
            checked.put(path, &found);
        }
        return Ok(());
    }
    Err(Flaw::Damaged(match found.len() {
        0 => format!("it is empty, and should have {expected} events"),
        _ if events > expected => format!("it has more than the {expected} events that were recorded"),
        _ if read.is_ok() && events != expected => format!("it has {events} events, and should have {expected}"),
        _ => "its events are not those that were recorded".to_owned(),
    }))
}
