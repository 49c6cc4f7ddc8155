//! A recorded run: an export that is unchanged.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use crate::cli::failure::Failure;
use crate::domain::event::EVENT_MAX;
use crate::export::{Contents, EVENTS, Export, Piece};
use crate::fcmp::{Envelope, read_envelope};

#[derive(Debug)]
pub(crate) struct Recording {
    export: Export,
    contents: Contents,
    log: Piece,
}

impl Recording {
    /// Opens an export; one with a changed byte is refused.
    pub(crate) fn open(path: &Path) -> Result<Self, Failure> {
        let reading = || format!("read {}", path.display());
        if !path.is_file() {
            return Err(Failure::Usage(format!("{} is not a file", path.display())));
        }
        let export = Export::open(path).map_err(Failure::broken(reading()))?;
        let fine = export.flaws().is_empty() && export.check_files().map_err(Failure::broken(reading()))?.is_empty();
        let (Some(contents), Some(log), true) = (export.contents().cloned(), export.file(EVENTS), fine) else {
            let path = path.display();
            let message = format!("{path} is not an unchanged export\n  `skill-runner audit {path}` shows why");
            return Err(Failure::Unusable(message));
        };
        Ok(Self { export, contents, log })
    }

    pub(crate) fn contents(&self) -> &Contents {
        &self.contents
    }

    /// A file of the run.
    pub(crate) fn file(&self, name: &str) -> Option<Piece> {
        self.export.file(name)
    }

    /// The events, each with its stored bytes.
    pub(crate) fn events(&self) -> impl Iterator<Item = Result<(Envelope, Vec<u8>), Failure>> + Send + use<> {
        let mut log = BufReader::new(self.log.reader());
        std::iter::from_fn(move || next_line(&mut log).transpose()).map(|line| {
            let line = line?;
            Ok((read_envelope(&line).map_err(Failure::broken("read an event"))?, line))
        })
    }
}

/// The next line without its end. One that is longer than an event is not read to its end.
fn next_line(log: &mut impl BufRead) -> Result<Option<Vec<u8>>, Failure> {
    let mut line = Vec::new();
    let read = log.take(EVENT_MAX).read_until(b'\n', &mut line).map_err(Failure::broken("read the events"))?;
    if line.last() == Some(&b'\n') {
        line.pop();
    } else if read as u64 == EVENT_MAX {
        return Err(Failure::Broken(format!("read the events: a line has more than {EVENT_MAX} bytes")));
    }
    Ok((read > 0).then_some(line))
}
