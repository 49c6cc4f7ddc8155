//! A run's artifacts: index, manifest, bundle.

mod bundle;
mod content;
mod error;
mod index;
mod manifest;
mod proven;
mod walk;

pub use bundle::{Bundle, BundleFile, Contents, bundle};
pub(crate) use bundle::{add_to, holds};
pub use error::Error;
pub(crate) use index::index_unless;
pub use index::{Indexed, index};
pub use manifest::{Manifest, artifacts_sha256};
pub(crate) use proven::{is_proven, proven_files};
pub use walk::Refused;
pub(crate) use walk::files_below;

pub use crate::domain::artifact::ArtifactEntry;
