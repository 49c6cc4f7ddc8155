//! Wakes open event streams when tokens or sessions have changed. One look each second serves all of them.

use std::sync::{Mutex, PoisonError};

use tokio::sync::watch;

use crate::http::state::access_list::{AccessList, AccessMark};

#[derive(Debug, Default)]
pub(crate) struct AccessChanges {
    changed: watch::Sender<()>,
    looking: Mutex<Looking>,
}

/// Whether somebody looks at tokens and sessions, which another process changes.
#[derive(Debug, Default, PartialEq, Eq)]
enum Looking {
    /// No stream is open.
    #[default]
    No,
    /// What they were at the last look.
    Saw(AccessMark),
}

/// A stream that is told of changes.
#[derive(Debug)]
pub(crate) struct Listening {
    pub(crate) changes: watch::Receiver<()>,
    /// Nobody looks yet: whoever listens first has to see to it that [`AccessChanges::look`] is called.
    pub(crate) first: bool,
}

impl AccessChanges {
    /// Every stream has to see whether it is still allowed.
    pub(crate) fn tell(&self) {
        self.changed.send_replace(());
    }

    pub(crate) fn listen(&self, access: &AccessList) -> Listening {
        let mut looking = self.looking.lock().unwrap_or_else(PoisonError::into_inner);
        let changes = self.changed.subscribe();
        let first = *looking == Looking::No;
        if first {
            *looking = Looking::Saw(access.mark());
        }
        Listening { changes, first }
    }

    /// Looks whether the tokens have changed, and tells the streams; whether there is anybody to look for.
    pub(crate) fn look(&self, access: &AccessList) -> bool {
        let mut looking = self.looking.lock().unwrap_or_else(PoisonError::into_inner);
        if self.changed.receiver_count() == 0 {
            *looking = Looking::No;
            return false;
        }
        let now = Looking::Saw(access.mark());
        if *looking != now {
            *looking = now;
            self.tell();
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::time::Timestamp;
    use crate::workspace::{Layout, Scope, create_token, revoke_token};

    #[test]
    fn listeners_are_told_of_each_change_and_nobody_looks_when_none_is_there() {
        let folder = tempfile::tempdir().unwrap();
        let layout = Layout::new(folder.path());
        let (changes, tokens) = (AccessChanges::default(), AccessList::of_folder(&layout));
        assert!(!changes.look(&tokens), "there is nobody to look for");
        let (mut one, mut other) = (changes.listen(&tokens), changes.listen(&tokens));
        assert!(one.first && !other.first);
        assert!(changes.look(&tokens) && !one.changes.has_changed().unwrap(), "nothing has changed");
        create_token(&layout, "ann", Scope::Read, Timestamp::from_micros(1), None).unwrap();
        assert!(changes.look(&tokens));
        for listener in [&mut one, &mut other] {
            assert!(listener.changes.has_changed().unwrap());
            listener.changes.mark_unchanged();
        }
        assert!(changes.look(&tokens) && !one.changes.has_changed().unwrap(), "told once");
        revoke_token(&layout, "ann").unwrap();
        changes.look(&tokens);
        assert!(one.changes.has_changed().unwrap());
        drop((one, other));
        assert!(!changes.look(&tokens));
        assert!(changes.listen(&tokens).first);
    }
}
