//! What an engine can log in with.

/// The ways to log an engine in; one of them is enough.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Login {
    /// Environment variables with a key or token.
    pub(crate) variables: &'static [&'static str],
    /// Whether its providers are configured, so that a key of any name may be the right one.
    pub(crate) other_keys: bool,
    /// The file in the engine's home that a login by hand leaves.
    pub(crate) file: &'static str,
    /// The command that logs in by hand; `{home}` stands for the engine's home.
    pub(crate) command: Option<&'static str>,
}
