//! Which models an engine has: how they are named, a recorded list, and the command that lists them.

use std::path::Path;

/// How the names of an engine's models are built.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ModelNames {
    /// A name without structure.
    Plain,
    /// `name@effort`.
    WithEffort,
    /// `provider/name`.
    WithProvider,
}

/// What is known about an engine's models.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ModelCatalog {
    pub(crate) names: ModelNames,
    /// The models of the version in [`super::Install`], as the JSON of a snapshot.
    pub(crate) snapshot: Option<&'static str>,
    /// How to ask the CLI, where it lists its models without a login and without a request to a service.
    pub(crate) listing: Option<ModelListing>,
}

/// The command that lists models, one `provider/name` per line.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ModelListing {
    pub(crate) arguments: &'static [&'static str],
    /// The variables that lead the CLI to its home.
    pub(crate) home_variables: fn(home: &Path) -> Vec<(&'static str, String)>,
}
