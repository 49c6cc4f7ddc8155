//! Who may come in, where several services share a store: tokens and sessions of all of them together, and the keys that they sign with.
//!
//! Everything here is small and read often, so each service keeps a copy, and asks by one cheap question whether it is still right.

mod keys;
mod known;
mod move_in;
mod sessions;
mod tokens;

pub(crate) use keys::{KnownKey, known_keys, make_known};
pub(crate) use known::KnownRecords;
pub(crate) use move_in::move_in_tokens;
pub(crate) use sessions::{close_session, known_sessions, open_session};
pub(crate) use tokens::{
    AccessError, create_shared_token, known_tokens, list_shared_tokens, read_shared_tokens, revoke_shared_token,
};

#[cfg(test)]
fn store_for_several() -> crate::store::MemoryStore {
    crate::store::MemoryStore::for_several(Default::default(), std::sync::Arc::new(|| 0))
}
