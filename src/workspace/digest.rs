//! sha256 as lower-case hex.

use sha2::{Digest, Sha256};

/// The finished digest as 64 hex digits.
pub(super) fn hex(hasher: Sha256) -> String {
    hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The digest of these bytes.
pub(super) fn of_bytes(bytes: &[u8]) -> String {
    hex(Sha256::new_with_prefix(bytes))
}
