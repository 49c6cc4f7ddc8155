//! Why an audit could not be carried out. What an audit finds is no error: it is in the report.

use std::io;
use std::path::PathBuf;

use crate::artifact;
use crate::export::EVENTS;

#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("{root} is not the folder of a finished run: it has no {EVENTS}")]
    NoLog { root: PathBuf },
    #[error("read {what}")]
    Read {
        what: String,
        #[source]
        source: io::Error,
    },
    #[error("read the artifacts")]
    Artifacts(#[source] artifact::Error),
}

impl Error {
    /// For `map_err`: what could not be read.
    pub(crate) fn read(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |source| Self::Read { what, source }
    }
}
