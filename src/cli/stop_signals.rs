//! SIGTERM, SIGINT and SIGHUP: the first one asks for an orderly end, the second ends at once.

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::cli::failure::Failure;

/// Receives SIGTERM, SIGINT and, unless it was ignored from the start (`nohup`), SIGHUP.
pub(crate) struct Stop {
    terminate: Signal,
    interrupt: Signal,
    hangup: Option<Signal>,
}

impl Stop {
    /// From now on the signals are caught.
    pub(crate) fn listen() -> Result<Self, Failure> {
        let listen = |kind| signal(kind).map_err(Failure::broken("listen for signals"));
        let hangup = if ignores_hangup() { None } else { Some(listen(SignalKind::hangup())?) };
        let (terminate, interrupt) = (listen(SignalKind::terminate())?, listen(SignalKind::interrupt())?);
        Ok(Self { terminate, interrupt, hangup })
    }

    /// Waits for the next one; its name.
    pub(crate) async fn next(&mut self) -> &'static str {
        let hung_up = async {
            match &mut self.hangup {
                Some(hangup) => _ = hangup.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
            () = hung_up => "SIGHUP",
        }
    }
}

fn ignores_hangup() -> bool {
    // SAFETY: all zeros are a valid value of this plain struct, and the call only writes to it.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        libc::sigaction(libc::SIGHUP, std::ptr::null(), &raw mut action) == 0 && action.sa_sigaction == libc::SIG_IGN
    }
}
