//! Why an upload is refused.

use std::io;
use std::path::Path;

use zip::result::ZipError;

use crate::domain::codes::ErrorCode;
use crate::files::Error;

/// An upload that was refused; nothing of it is left on the disk.
#[derive(Debug, thiserror::Error)]
pub enum UploadError {
    /// The bytes are not a readable zip.
    #[error("the upload is not a readable zip: {reason}")]
    InvalidZip {
        /// What is wrong with it.
        reason: String,
    },
    /// An entry that must not become a file.
    #[error("the zip's entry {name:?} is refused: {reason}")]
    UnsafePath { name: String, reason: &'static str },
    /// A limit was exceeded.
    #[error("the upload passes the limit {limit} of {allowed}")]
    TooLarge { limit: &'static str, allowed: u64 },
    /// Two files for one place.
    #[error("both {:?} and {:?} are the file of {field:?}; send one of them", names[0], names[1])]
    TwoForOne { field: String, names: [String; 2] },
    /// A part that is for no input of the skill.
    #[error("the skill has no file input {name:?}; {}", there_are(expected))]
    UnknownPart {
        name: String,
        /// The file inputs of the skill.
        expected: Vec<String>,
    },
    /// The runner could not read or write.
    #[error(transparent)]
    Io(#[from] Error),
}

impl UploadError {
    /// The code clients see.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::InvalidZip { .. } => ErrorCode::InvalidZip,
            Self::UnsafePath { .. } => ErrorCode::UnsafePath,
            Self::TooLarge { .. } => ErrorCode::PayloadTooLarge,
            Self::TwoForOne { .. } => ErrorCode::InvalidRequest,
            Self::UnknownPart { .. } => ErrorCode::UnknownInputKey,
            Self::Io(error) if error.kind() == io::ErrorKind::StorageFull => ErrorCode::InsufficientStorage,
            Self::Io(_) => ErrorCode::Internal,
        }
    }

    pub(crate) fn invalid(reason: impl Into<String>) -> Self {
        Self::InvalidZip { reason: reason.into() }
    }

    /// For `map_err`: what the zip reader reports about the zip at this path.
    pub(crate) fn of_zip(zip: &Path) -> impl Fn(ZipError) -> Self {
        |error| match error {
            // Only errors of the operating system have a number; the others are the zip reader's own findings.
            ZipError::Io(error) if error.raw_os_error().is_some() => Error::on("read", zip)(error).into(),
            ZipError::Io(error) => Self::invalid(error.to_string()),
            other => Self::invalid(other.to_string()),
        }
    }
}

fn there_are(fields: &[String]) -> String {
    if fields.is_empty() { "it has none".to_owned() } else { format!("it has {}", fields.join(", ")) }
}
