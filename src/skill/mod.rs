//! What a skill package is: manifest, package, lint, inputs and schemas, as pure values.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

pub mod agent;
pub mod artifacts;
pub(crate) mod automation;
pub(crate) mod case_fold;
pub(crate) mod changes;
mod checked;
pub mod command;
mod engines;
pub(crate) mod fields;
pub mod finding;
pub(crate) mod front_matter;
pub(crate) mod input_schema;
pub mod inputs;
pub mod lint;
pub mod manifest;
pub(crate) mod own_tests;
pub mod package;
pub(crate) mod python;
pub mod schema;
pub(crate) mod starter;
pub(crate) mod template_names;
mod unified_diff;

pub use artifacts::ArtifactRule;
pub use checked::Skill;
pub(crate) use finding::Finding;
pub use finding::Severity;
pub use lint::Intake;
pub(crate) use lint::{is_id, lint};
pub use manifest::Manifest;
pub(crate) use package::PackageFiles;
