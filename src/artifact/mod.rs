//! A run's artifacts: index, manifest, bundle.

mod bundle;
mod content;
mod error;
mod index;
mod manifest;
mod walk;

pub use bundle::{Bundle, BundleFile, Contents, bundle};
pub use error::Error;
pub use index::{Indexed, index};
pub(crate) use manifest::manifest_json;
pub use manifest::{artifacts_sha256, write_manifest};
pub use walk::Refused;
pub(crate) use walk::files_below;

pub use crate::domain::artifact::ArtifactEntry;
