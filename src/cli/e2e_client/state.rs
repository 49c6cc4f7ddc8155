//! What all requests to the example client share.

use std::path::PathBuf;
use std::sync::Arc;

use tokio::sync::Semaphore;

use crate::cli::connect::client::Client;
use crate::cli::e2e_client::recordings::Recordings;
use crate::settings::Secret;

/// Most requests that are with the service at the same time, event streams among them.
const PLACES: usize = 64;

pub(crate) struct Shared {
    /// The way to the service; it has the token.
    pub(super) service: Client,
    /// What opens the data; none where there is no token, and other users of the machine cannot connect.
    pub(super) key: Option<String>,
    pub(super) recordings: Arc<Recordings>,
    pub(super) places: Arc<Semaphore>,
}

impl Shared {
    pub(super) fn new(service: Client, token: Option<Secret>, key: Option<String>, folder: PathBuf) -> Self {
        let recordings = Arc::new(Recordings::new(folder, service.base().to_owned(), token));
        Self { service, key, recordings, places: Arc::new(Semaphore::new(PLACES)) }
    }
}
