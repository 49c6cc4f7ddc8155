//! The way that an input took through a parser, as a number.

use std::hash::{DefaultHasher, Hash, Hasher};

/// The way something took, as a number.
pub(super) fn way(of: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    hasher.finish()
}

/// How long something is, coarsely: 0, 1, 2, 3…4, 5…8, ….
pub(super) fn about(length: usize) -> u32 {
    (length + 1).next_power_of_two().trailing_zeros()
}
