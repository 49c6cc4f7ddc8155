//! The index row of a client's idempotency key.

use crate::domain::cache_key::sha256_bytes;
use crate::store::IndexKey;

/// The row, by the key's hash in hexadecimal.
pub(crate) fn idempotency_row(hash: &str) -> Option<IndexKey> {
    sha256_bytes(hash).map(IndexKey::Idempotency)
}
