//! Where shared files are.

use std::fmt;
use std::path::{Path, PathBuf};

use super::reader::Reader;
use super::s3::{self, Bucket, S3Keys, S3Place};

/// Places for the files that several services share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BlobsPlace {
    /// A folder that each of them reaches by this path.
    Folder(PathBuf),
    /// A bucket of an object store.
    S3(S3Place),
}

/// The place as it is named, before it is known how to reach it.
enum Named {
    Folder(PathBuf),
    Bucket(Bucket),
}

/// The setting `blobs`, with those that say how a bucket is reached.
pub(super) fn read(from: &mut Reader) -> Option<BlobsPlace> {
    let named = from.optional("blobs", |text| Named::parse(text).map(Some));
    let access = s3::read(from);
    match named? {
        Named::Folder(path) => Some(BlobsPlace::Folder(path)),
        Named::Bucket(bucket) => s3::complete(from, bucket, access).map(BlobsPlace::S3),
    }
}

impl BlobsPlace {
    /// The folder, where it is one.
    pub(crate) fn folder(&self) -> Option<&Path> {
        match self {
            Self::Folder(folder) => Some(folder),
            Self::S3(_) => None,
        }
    }

    /// The file with the keys, where there is one.
    pub(crate) fn keys_file(&self) -> Option<&Path> {
        match self {
            Self::S3(S3Place { keys: S3Keys::File(path), .. }) => Some(path),
            Self::S3(_) | Self::Folder(_) => None,
        }
    }

    /// The URL of a bucket.
    #[cfg(any(test, fuzzing))]
    pub(crate) fn url(&self) -> Option<String> {
        match self {
            Self::Folder(_) => None,
            Self::S3(place) => {
                let (scheme, host, path) = place.url();
                Some(format!("{scheme}://{host}{path}"))
            }
        }
    }
}

impl Named {
    fn parse(text: &str) -> Result<Self, String> {
        if text.starts_with('/') && !text.contains('\0') {
            return Ok(Named::Folder(PathBuf::from(text)));
        }
        match text.strip_prefix(s3::SCHEME) {
            Some(rest) => Bucket::parse(rest).map(Named::Bucket),
            // The value is not part of the message: it may hold a password.
            None => Err("must be the path of a folder, beginning with /, or s3://BUCKET/PREFIX".to_owned()),
        }
    }
}

impl fmt::Display for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Named::Folder(path) => write!(f, "{}", path.display()),
            Named::Bucket(bucket) => bucket.fmt(f),
        }
    }
}
