//! Locks that outlive their owner for a moment.

use std::time::Duration;

/// Tries until it works, for a moment. A process that starts another one shares its locks with it until that
/// one has become its own program, so a lock may outlive its owner by some milliseconds.
pub(super) fn with_patience<T>(attempt: impl Fn() -> Option<T>) -> Option<T> {
    (0..50).find_map(|tries| {
        if tries > 0 {
            std::thread::sleep(Duration::from_millis(10));
        }
        attempt()
    })
}
