//! What of tokens, sessions and tickets a request goes by.

/// What has to be looked at for a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Wanted {
    Nothing,
    Tokens,
    /// Tokens as well: a session may be that of one.
    Sessions,
    /// Both of them as well.
    Tickets,
}
