//! The access of an open event stream: it ends when the token or the session behind it does.

use std::future::pending;
use std::time::Duration;

use tokio::sync::watch;
use tracing::debug;

use crate::domain::causes::chain;
use crate::domain::time::Timestamp;
use crate::http::state::app::App;
use crate::http::state::credential::Credential;
use crate::http::state::in_force::InForce;
use crate::http::state::wanted::Wanted;

/// How often tokens and sessions are looked at while streams are open.
const LOOK: Duration = Duration::from_secs(1);

/// What a stream is open by; nothing if it cannot be lost.
#[derive(Debug)]
pub(crate) struct Pass(Option<Lease>);

#[derive(Debug)]
struct Lease {
    credential: Credential,
    changes: watch::Receiver<()>,
    in_force: InForce,
}

impl Pass {
    pub(crate) fn new(app: &App, credential: Credential) -> Self {
        if !credential.can_be_lost() {
            return Self(None);
        }
        // Listen first: a change between the two would otherwise be missed.
        let listening = app.access_changes().listen(app.access());
        if listening.first {
            tokio::spawn(look_while_needed(app.clone()));
        }
        let in_force = credential.in_force(app.access(), app.orchestrator().now());
        Self(Some(Lease { credential, changes: listening.changes, in_force }))
    }

    /// Whether the access was taken back, or its time is over.
    pub(crate) fn is_lost(&mut self, app: &App) -> bool {
        let Some(lease) = &mut self.0 else { return false };
        let now = app.orchestrator().now();
        if lease.changes.has_changed().unwrap_or(true) {
            lease.changes.mark_unchanged();
            lease.in_force = lease.credential.in_force(app.access(), now);
        }
        match lease.in_force {
            InForce::Until(end) => end <= now,
            InForce::UntilRevoked => false,
            InForce::No => true,
        }
    }

    /// Completes when the access may be lost: ask [`Pass::is_lost`] then.
    pub(crate) async fn perhaps_lost(&mut self, app: &App) {
        let Some(lease) = &mut self.0 else { return pending().await };
        let in_force = lease.in_force;
        let over = async {
            match in_force {
                InForce::Until(end) => tokio::time::sleep(time_until(end, app.orchestrator().now())).await,
                InForce::UntilRevoked => pending().await,
                InForce::No => {}
            }
        };
        tokio::select! {
            _ = lease.changes.changed() => lease.changes.mark_changed(),
            () = over => {}
        }
    }
}

/// A millisecond more, so that the end has been reached when it is over.
fn time_until(end: Timestamp, now: Timestamp) -> Duration {
    let micros = end.as_micros().saturating_sub(now.as_micros());
    Duration::from_micros(u64::try_from(micros).unwrap_or_default()) + Duration::from_millis(1)
}

async fn look_while_needed(app: App) {
    loop {
        tokio::select! {
            () = tokio::time::sleep(LOOK) => {}
            () = app.access().perhaps_changed() => {}
            () = app.closed() => return,
        }
        if let Err(error) = app.access().look(Wanted::Sessions).await {
            debug!(error = %chain(&error), "tokens and sessions could not be looked at; trying again");
        }
        if !app.access_changes().look(app.access()) {
            return;
        }
    }
}
