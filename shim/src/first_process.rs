//! The first process of a run's pid namespace: it reaps orphans, and the kernel ends the whole namespace with it.
//!
//! It does what the shim tells it by single bytes, and ends when the shim is gone, however that came.

use crate::sys::{self, Fd, Waited, isolate};

/// The engine has been reaped: end when nothing else is left.
pub(crate) const ENGINE_ENDED: u8 = b'E';
/// Kill every other process of the namespace.
pub(crate) const KILL: u8 = b'K';

/// How long killed processes may take before it looks again, in milliseconds.
const KILL_ROUND: u32 = 20;

/// The shim's side.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FirstProcess {
    pub(crate) pid: i32,
    orders: Fd,
    killed: Fd,
}

impl FirstProcess {
    /// Makes it. To be called after the shim has a new pid namespace for its children, and before any other child is made.
    pub(crate) fn start() -> sys::Result<FirstProcess> {
        let ((orders, tell), (killed, count)) = (sys::impatient_pipe()?, sys::pipe()?);
        match sys::fork()? {
            None => serve(orders, count),
            Some(pid) => {
                sys::close(orders);
                sys::close(count);
                Ok(FirstProcess { pid, orders: tell, killed })
            }
        }
    }

    pub(crate) fn tell(&self, order: u8) {
        // If it is gone, so is everybody else.
        let _ = sys::write(self.orders, &[order]);
    }

    /// To be called when it is reaped: how many processes had to be killed.
    pub(crate) fn killed(&self) -> i32 {
        let mut count = [0; 4];
        match sys::read(self.killed, &mut count) {
            Ok(4) => i32::from_ne_bytes(count),
            // It was killed itself.
            Ok(_) | Err(_) => 0,
        }
    }

    /// In another child: it must not keep the first process alive.
    pub(crate) fn close(&self) {
        sys::close(self.orders);
        sys::close(self.killed);
    }
}

fn serve(orders: Fd, count: Fd) -> ! {
    // It kills everybody it sees. Without a namespace of its own that would be the whole machine.
    if sys::own_pid() != 1 {
        sys::exit(1);
    }
    // Nothing of the shim's, such as its control socket, stays open here.
    if sys::duplicate(orders, Fd(0)).is_err() || sys::duplicate(count, Fd(1)).is_err() {
        sys::exit(1);
    }
    sys::close_from(2);
    isolate::be_opaque();
    let Ok(deaths) = sys::deaths() else { sys::exit(1) };
    let (orders, count) = (Fd(0), Fd(1));
    let (mut killing, mut engine_ended, mut killed) = (false, false, 0_i32);
    loop {
        let any_left = loop {
            match sys::reap() {
                Waited::Reaped { status, .. } => {
                    let by_kill = status & 0x7f == sys::SIGKILL;
                    killed = killed.saturating_add(i32::from(killing && by_kill));
                }
                Waited::NoneEnded => break true,
                Waited::NoChild => break false,
            }
        };
        if engine_ended && !any_left {
            let _ = sys::write(count, &killed.to_ne_bytes());
            sys::exit(0);
        }
        if killing {
            // Everybody in the namespace but this process.
            sys::kill(-1, sys::SIGKILL);
        }
        sys::wait_readable([deaths, orders], killing.then_some(KILL_ROUND));
        let _ = sys::read(deaths, &mut [0; 1024]);
        let mut told = [0; 16];
        match sys::read(orders, &mut told) {
            // The shim is gone: the kernel kills whoever is left when this process ends.
            Ok(0) => sys::exit(0),
            Ok(read) => {
                let told = told.get(..read).unwrap_or_default();
                engine_ended |= told.contains(&ENGINE_ENDED);
                killing |= told.contains(&KILL);
            }
            Err(_) => {}
        }
    }
}
