//! The handles by which engines name their sessions.

/// The form of an engine's session handles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HandleKind {
    /// A UUID; events call it `kind`.
    Uuid { kind: &'static str },
    /// A prefix, then letters, digits, `-` and `_`; events call it `kind`.
    Prefixed { kind: &'static str, prefix: &'static str },
}

impl HandleKind {
    /// The name of the handle in events.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Uuid { kind } | Self::Prefixed { kind, .. } => kind,
        }
    }

    /// Whether a text can be a handle. Nothing else may reach the engine: it might read it as a flag, or silently begin
    /// a new session.
    pub(crate) fn accepts(self, handle: &str) -> bool {
        match self {
            Self::Uuid { .. } => handle.len() == 36 && uuid::Uuid::try_parse(handle).is_ok(),
            Self::Prefixed { prefix, .. } => {
                let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
                handle.len() <= 200
                    && handle.strip_prefix(prefix).is_some_and(|id| !id.is_empty() && id.chars().all(plain))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_plain_handle_of_its_kind_is_accepted() {
        let uuid = HandleKind::Uuid { kind: "thread_id" };
        assert!(uuid.accepts("01a1e212-7b08-7880-8338-1569b3c6ebe6"));
        for bad in
            ["", "nonsense", "--last", "01a1e2127b0878808338156 9b3c6ebe6", "{01a1e212-7b08-7880-8338-1569b3c6ebe6}"]
        {
            assert!(!uuid.accepts(bad), "{bad}");
        }
        let prefixed = HandleKind::Prefixed { kind: "session_id", prefix: "ses_" };
        assert!(prefixed.accepts("ses_e1de75a6effep7iqUy2Mjd4Wi7"));
        for bad in ["", "ses_", "ses_a b", "x", "-s", "ses_/../x"] {
            assert!(!prefixed.accepts(bad), "{bad}");
        }
    }
}
