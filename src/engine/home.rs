//! What of an engine's home belongs to the operator; the rest is of one run.

/// The operator's entries of an engine's home, by paths below it. Every run has a home of its own, in which these are links;
/// sessions, transcripts, histories and logs are not among them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SharedHome {
    /// Files with a login, which the engine may refresh.
    pub(crate) logins: &'static [&'static str],
    /// Files and folders with settings, instructions and extensions.
    pub(crate) settings: &'static [&'static str],
    /// Folders with what is downloaded once; made when they are not there.
    pub(crate) caches: &'static [&'static str],
    /// What the next turn of a run needs of this one, which is the run's own; `*` stands for one folder of any name. Nothing
    /// else of what a turn leaves is there in the next: it could be a program, or settings.
    pub(crate) sessions: &'static [&'static str],
}

/// Files of a home that programs other than the engine read, for every engine.
const OF_OTHER_PROGRAMS: [&str; 4] = [".gitconfig", ".netrc", ".npmrc", ".ssh"];

impl SharedHome {
    /// Everything in it that is linked but not a login.
    pub(crate) fn links(&self) -> impl Iterator<Item = &'static str> {
        self.settings.iter().chain(self.caches).copied().chain(OF_OTHER_PROGRAMS)
    }
}
