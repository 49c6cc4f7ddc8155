//! Files that several services share, each named by the hash of its content. One that is there is never changed.

use std::sync::Arc;

use crate::settings::BlobsPlace;

mod content;
mod error;
mod folder;
mod s3;
mod shared;

pub use self::error::Error;
#[cfg(any(test, fuzzing))]
pub(crate) use self::s3::foreign;
pub use self::shared::{Blob, Blobs, Listed};

/// The shared files of a setting. A folder must be there; a server is first asked when something is wanted of it.
pub fn open(place: &BlobsPlace) -> Result<Arc<dyn Blobs>, Error> {
    Ok(match place {
        BlobsPlace::Folder(path) => Arc::new(folder::Folder::open(path)?),
        BlobsPlace::S3(place) => Arc::new(s3::S3::open(place)?),
    })
}
