//! The service as the first process of a container: a small process stands in its place.
//!
//! The first process of a pid namespace inherits everybody's orphans and has to reap them. The service must not: it would take
//! the exit statuses of its own children from those who wait for them. So it goes on as the child of a process that reaps,
//! passes signals on, and ends as the service does.

use std::io;
use std::mem::MaybeUninit;

use rustix::process::{Pid, Signal, WaitOptions, getpid, kill_process, setpgid, wait};
use rustix::termios::{isatty, tcsetpgrp};

/// To be called first in `main`, while there is one thread: in the first process of a pid namespace it returns in a child.
pub fn leave_first_process() {
    if getpid() != Pid::INIT {
        return;
    }
    // Kept for later, also those that come before the service has its handlers.
    let before = block_every_signal();
    // SAFETY: there is no other thread whose locks the child could miss.
    match unsafe { libc::fork() } {
        0 => be_the_service(&before),
        // Without a child the service works, too; orphans then stay unreaped.
        -1 => unblock(&before),
        service => reap_until_it_ends(service),
    }
}

fn be_the_service(signals: &libc::sigset_t) {
    // What is typed at a terminal goes to the service alone, and not a second time through the first process.
    if setpgid(None, None).is_ok() && isatty(rustix::stdio::stdin()) {
        // Every signal is blocked still, so the kernel does not stop this process for it.
        let _ = tcsetpgrp(rustix::stdio::stdin(), getpid());
    }
    unblock(signals);
}

/// Ends this process with the service.
fn reap_until_it_ends(service: i32) {
    loop {
        match next_signal() {
            Ok(libc::SIGCHLD) => {
                while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
                    if pid.as_raw_nonzero().get() == service {
                        let by_signal = status.terminating_signal().map(|signal| 128 + signal);
                        std::process::exit(status.exit_status().or(by_signal).unwrap_or(1));
                    }
                }
            }
            Ok(signal) => {
                // The service is a child that is not reaped yet, so its pid cannot mean another process.
                if let (Some(service), Some(signal)) = (Pid::from_raw(service), Signal::from_named_raw(signal)) {
                    let _ = kill_process(service, signal);
                }
            }
            Err(_) => {}
        }
    }
}

fn every_signal() -> libc::sigset_t {
    let mut every = MaybeUninit::uninit();
    // SAFETY: sigfillset initialises the set.
    unsafe {
        libc::sigfillset(every.as_mut_ptr());
        every.assume_init()
    }
}

/// The signals that were blocked before.
fn block_every_signal() -> libc::sigset_t {
    let mut before = every_signal();
    // SAFETY: both sets are initialised.
    unsafe { libc::sigprocmask(libc::SIG_SETMASK, &every_signal(), &raw mut before) };
    before
}

fn unblock(before: &libc::sigset_t) {
    // SAFETY: the set is initialised.
    unsafe { libc::sigprocmask(libc::SIG_SETMASK, std::ptr::from_ref(before), std::ptr::null_mut()) };
}

fn next_signal() -> io::Result<i32> {
    let mut signal = 0;
    // SAFETY: the set is initialised, and the number is written.
    match unsafe { libc::sigwait(&every_signal(), &raw mut signal) } {
        0 => Ok(signal),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}
