//! The system calls by which a program changes files: watched, held back and made to fail.
//!
//! A filter in the kernel (seccomp with user notification) stops every such call of the threads under it, and of the threads
//! and processes they start, until a thread of the test has judged it. So the program is the real one, unchanged, and the
//! order of its calls is known. It needs no privilege, but a kernel that has it and a container that allows it.

mod decode;
mod filter;

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::Timespec;
use rustix::io::Errno;

use super::LONG;
use filter::{Notice, answer, next_notice};

/// What a call does to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Deed {
    Create,
    Write,
    /// A copy asks to share the blocks of its source. Where that is refused, the bytes are written.
    Share,
    Cut,
    Sync,
    SyncFileSystem,
    Rename,
    /// Two names change places at once.
    Exchange,
    Link,
    Folder,
    Remove,
}

/// A call that changes files below the watched folder.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileCall {
    pub deed: Deed,
    /// Relative to the watched folder.
    pub path: String,
    /// The new name of a rename or link.
    pub to: Option<String>,
}

impl FileCall {
    /// The same for every run: ids and random names are left out.
    pub fn plain(&self) -> FileCall {
        FileCall { deed: self.deed, path: decode::plain(&self.path), to: self.to.as_deref().map(decode::plain) }
    }
}

/// What becomes of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Judgement {
    Pass,
    Fail(Errno),
    /// It waits for [`Watch::release`].
    Hold,
}

type Judge = Box<dyn FnMut(&FileCall) -> Judgement + Send>;

struct State {
    judge: Judge,
    calls: Vec<FileCall>,
    held: Vec<Notice>,
}

struct Shared {
    root: PathBuf,
    listener: OwnedFd,
    /// Calls of other processes pass: engines have files of their own.
    process: u32,
    state: Mutex<State>,
    changed: Condvar,
    over: AtomicBool,
}

/// Watches until it is dropped; then calls pass, and what is held goes on.
pub struct Watch {
    shared: Arc<Shared>,
    judging: Option<JoinHandle<()>>,
}

impl Watch {
    /// Does `work` on a thread whose calls on files below `root` are watched, with those of all threads it starts. `None`, and a
    /// word about it, where the kernel does not allow that. The watch comes last, so that it is dropped first: what waits for a
    /// held call could not end before.
    pub fn thread<T: Send + 'static>(root: &Path, work: impl FnOnce() -> T + Send + 'static) -> Option<(T, Watch)> {
        let (sender, installed) = std::sync::mpsc::channel();
        let worker = std::thread::spawn(move || {
            let listener = filter::install();
            let refused = listener.is_err();
            sender.send(listener).unwrap();
            (!refused).then(work)
        });
        let watch = Self::begin(root, installed.recv().unwrap(), std::process::id())?;
        Some((worker.join().unwrap()?, watch))
    }

    /// Starts a program whose calls on files below `root` are watched.
    pub fn spawn(root: &Path, command: &mut Command) -> Option<(Watch, Child)> {
        let (ours, theirs) = UnixStream::pair().unwrap();
        // SAFETY: the closure makes system calls alone, and allocates nothing.
        unsafe { command.pre_exec(move || filter::send(theirs.as_fd(), filter::install()?)) };
        let child = match command.spawn() {
            Ok(child) => child,
            Err(error) => {
                not_run(&error);
                return None;
            }
        };
        let listener = filter::receive(ours.as_fd());
        Some((Self::begin(root, listener, child.id())?, child))
    }

    fn begin(root: &Path, listener: io::Result<OwnedFd>, process: u32) -> Option<Watch> {
        let listener = listener.inspect_err(not_run).ok()?;
        let state = State { judge: Box::new(|_| Judgement::Pass), calls: Vec::new(), held: Vec::new() };
        let root = root.canonicalize().unwrap();
        let (state, changed, over) = (Mutex::new(state), Condvar::new(), AtomicBool::new(false));
        let shared = Arc::new(Shared { root, listener, process, state, changed, over });
        let judging = std::thread::spawn({
            let shared = shared.clone();
            move || shared.judge_all()
        });
        Some(Watch { shared, judging: Some(judging) })
    }

    /// From now on calls are judged so.
    pub fn judge(&self, judge: impl FnMut(&FileCall) -> Judgement + Send + 'static) {
        self.shared.state().judge = Box::new(judge);
    }

    /// From now on calls pass.
    pub fn let_pass(&self) {
        self.judge(|_| Judgement::Pass);
    }

    /// The calls since the last time, in their order.
    pub fn take(&self) -> Vec<FileCall> {
        std::mem::take(&mut self.shared.state().calls)
    }

    /// The same, as soon as there are any.
    pub fn take_some(&self) -> Vec<FileCall> {
        let limit = Instant::now() + LONG;
        let mut state = self.shared.state();
        while state.calls.is_empty() {
            assert!(Instant::now() < limit, "no call came");
            state = self.shared.changed.wait_timeout(state, LONG).unwrap().0;
        }
        std::mem::take(&mut state.calls)
    }

    /// Waits until a call is held.
    pub fn until_held(&self) {
        let limit = Instant::now() + LONG;
        let mut state = self.shared.state();
        while state.held.is_empty() {
            assert!(Instant::now() < limit, "no call was held");
            state = self.shared.changed.wait_timeout(state, LONG).unwrap().0;
        }
    }

    /// Lets go on what is held, and holds nothing more.
    pub fn release(&self) {
        let mut state = self.shared.state();
        state.judge = Box::new(|_| Judgement::Pass);
        for notice in std::mem::take(&mut state.held) {
            answer(&self.shared.listener, &notice, None);
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.release();
        // The judge goes on until nobody is under the filter: a call without a judge would never return.
        self.shared.over.store(true, Ordering::Relaxed);
        drop(self.judging.take());
    }
}

fn not_run(reason: &io::Error) {
    super::left_out::tell("watching system calls needs seccomp with user notification", &reason.to_string());
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn judge_all(&self) {
        loop {
            let mut polled = [PollFd::new(&self.listener, PollFlags::IN)];
            match poll(&mut polled, Some(&Timespec { tv_sec: 60, tv_nsec: 0 })) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(_) => return,
            }
            let events = polled[0].revents();
            if events.contains(PollFlags::IN) {
                // None when the caller has died meanwhile.
                if let Some(notice) = next_notice(&self.listener) {
                    self.judge(notice);
                }
            } else if events.intersects(PollFlags::HUP | PollFlags::ERR) {
                // Nobody is left under the filter.
                return;
            }
        }
    }

    fn judge(&self, notice: Notice) {
        let call =
            if self.over.load(Ordering::Relaxed) { None } else { decode::call(&notice, self.process, &self.root) };
        let Some(call) = call else { return answer(&self.listener, &notice, None) };
        let mut state = self.state();
        let judgement = (state.judge)(&call);
        state.calls.push(call);
        self.changed.notify_all();
        match judgement {
            Judgement::Pass => answer(&self.listener, &notice, None),
            Judgement::Fail(errno) => answer(&self.listener, &notice, Some(errno)),
            Judgement::Hold => state.held.push(notice),
        }
    }
}
