//! The shim's own process: it has the engine started, adopts its orphans, and kills and reaps until nothing is left.
//!
//! It is a *child subreaper*: every orphan of the engine's tree, in any session or group, becomes its child. It signals only
//! children that it has not reaped yet, so a pid can never mean another process. When the service asks for it, or the control
//! socket is closed because the service is gone, it kills until no child is left.

use crate::children::kill_children;
use crate::engine::{self, Prepared, Refusal};
use crate::first_process::{self, FirstProcess};
use crate::order;
use crate::sys::{self, Fd, Waited, network};
use crate::wire::{LEASE, NAME, Report, Request};

/// How long killed children may take before the shim looks again for new ones, in milliseconds.
const KILL_ROUND: u32 = 20;

/// The control socket is the shim's standard input.
const CONTROL: Fd = Fd(0);

/// Serves one engine; the exit code is read by nobody.
pub fn serve() -> ! {
    let Ok(deaths) = prepare() else { give_up() };
    let ready = match order::receive(CONTROL) {
        Ok((order, files)) => engine::prepare(order, files),
        Err(error) => Err(Refusal::Engine(error)),
    };
    match ready {
        Ok(Prepared { engine, first, ports, groups }) => {
            report_with(Report::Ready(engine), ports.files());
            ports.files().iter().copied().for_each(sys::close);
            let connected =
                Shim { engine: Some(engine), first, deaths, killing: false, killed: 0, connected: true, lease: None }
                    .run();
            if !connected {
                // The service is gone, and with it whoever would remove them.
                for folder in groups.into_iter().flatten() {
                    let _ = sys::group::remove_folder(folder);
                }
            }
            sys::exit(0)
        }
        Err(refusal) => {
            report(match refusal {
                Refusal::Engine(error) => Report::Refused(error.0),
                Refusal::Bind(error) => Report::BindRefused(error.0),
                Refusal::Sandbox(refused) => Report::SandboxRefused(refused),
            });
            give_up()
        }
    }
}

/// The end of a shim that cannot do its work.
pub fn give_up() -> ! {
    sys::exit(1)
}

/// Closes what the shim inherited and makes it the parent of every orphan. Returns a file that becomes readable when a
/// child ends.
fn prepare() -> sys::Result<Fd> {
    // Files that the service inherited from its own parent: an engine must not have them.
    sys::close_from(3);
    // The engine inherits the defaults. The shim blocks every signal: a `kill` of the whole service must not end the shim
    // before its children.
    sys::block_signals(u64::MAX);
    sys::default_signals();
    sys::adopt_orphans()?;
    sys::begin_session()?;
    sys::set_name(NAME);
    sys::deaths()
}

fn report(report: Report) {
    // A few short reports fit any socket buffer; a service that is gone reads none.
    sys::send(CONTROL, &report.encode());
}

fn report_with(report: Report, files: &[Fd]) {
    let _ = match files {
        [] => {
            sys::send(CONTROL, &report.encode());
            Ok(())
        }
        files => network::send_with_files(CONTROL, &report.encode(), files),
    };
}

struct Shim {
    /// The engine, until it is reaped.
    engine: Option<i32>,
    /// The first process of the run's pid namespace, until it is reaped; none without a sandbox.
    first: Option<FirstProcess>,
    deaths: Fd,
    killing: bool,
    killed: i32,
    connected: bool,
    /// What is left of the run's lease, in milliseconds; none if it has no such end.
    lease: Option<u32>,
}

impl Shim {
    /// Until nothing is left; whether the service is still there.
    fn run(mut self) -> bool {
        while self.reap() {
            if self.killing {
                self.kill();
            }
            self.wait();
            self.receive_requests();
        }
        report(Report::Gone(self.killed));
        self.connected
    }

    /// Reaps whoever has ended; false when no child is left.
    fn reap(&mut self) -> bool {
        loop {
            match sys::reap() {
                Waited::Reaped { pid, status } if Some(pid) == self.engine => {
                    self.engine = None;
                    report(Report::EngineEnded(status));
                    if let Some(first) = self.first {
                        first.tell(first_process::ENGINE_ENDED);
                    }
                }
                Waited::Reaped { pid, .. } if self.first.is_some_and(|first| first.pid == pid) => {
                    // With it the whole namespace is gone.
                    let killed = self.first.take().map_or(0, |first| first.killed());
                    self.killed = self.killed.saturating_add(killed);
                }
                Waited::Reaped { status, .. } => {
                    // The signal that ended a process stands in the lowest bits of its status.
                    let by_kill = status & 0x7f == sys::SIGKILL;
                    self.killed = self.killed.saturating_add(i32::from(self.killing && by_kill));
                }
                Waited::NoneEnded => return true,
                Waited::NoChild => return false,
            }
        }
    }

    /// Kills who is left. In a namespace its first process does it, which also counts them; the engine is no child of it.
    fn kill(&self) {
        match (self.first, self.engine) {
            (None, _) => kill_children(),
            (Some(first), Some(engine)) => {
                first.tell(first_process::KILL);
                sys::kill(engine, sys::SIGKILL);
            }
            (Some(first), None) => first.tell(first_process::KILL),
        }
    }

    /// Waits for a death or a request; while killing only for a moment, as new children may have been made.
    fn wait(&mut self) {
        // A closed socket is always readable, so waiting for it would not wait.
        let control = if self.connected { CONTROL } else { Fd(-1) };
        let round = self.killing.then_some(KILL_ROUND);
        // Time counts while the shim waits, which is nearly always.
        let waits = match (round, self.lease) {
            (Some(round), _) => Some(round),
            (None, lease) => lease,
        };
        let left = sys::wait_readable([self.deaths, control], waits);
        if round.is_none() && self.lease.is_some() {
            self.lease = left;
            self.killing |= left == Some(0);
        }
        // The content does not matter: once it is read, the file is unreadable until the next death.
        let _ = sys::read(self.deaths, &mut [0; 1024]);
    }

    fn receive_requests(&mut self) {
        if !self.connected {
            return;
        }
        let mut requests = [0; 16];
        match sys::receive(CONTROL, &mut requests) {
            Ok(0) => {
                self.connected = false;
                self.killing = true;
            }
            Ok(n) => requests.iter().take(n).for_each(|request| self.carry_out(*request)),
            Err(_) => {}
        }
    }

    fn carry_out(&mut self, request: u8) {
        if request & LEASE != 0 {
            self.lease = Some(u32::from(request & !LEASE) * 1000);
        } else if request == Request::Kill as u8 {
            self.killing = true;
        } else if request == Request::Interrupt as u8
            && let Some(engine) = self.engine
        {
            sys::kill(engine, sys::SIGINT);
        }
    }
}
