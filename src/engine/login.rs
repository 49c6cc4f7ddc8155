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

impl Login {
    /// Whether a variable of this name holds a key to log in with.
    pub(crate) fn is_key(&self, name: &str) -> bool {
        self.variables.contains(&name) || (self.other_keys && name.ends_with("_KEY"))
    }
}
