//! The moment before a file is changed, for a simulation: a crash can come at each.

use std::cell::RefCell;
use std::io;
use std::path::Path;
use std::rc::Rc;

use super::error::Error;

/// Called before each change of a file; an error refuses the change.
pub(crate) type BeforeStep = Rc<dyn Fn(&'static str, &Path) -> io::Result<()>>;

thread_local! {
    /// What is called on this thread; nothing but in a simulation.
    static BEFORE_STEP: RefCell<Option<BeforeStep>> = const { RefCell::new(None) };
}

/// Forgets what is called, also when the work breaks off.
struct Called;

impl Drop for Called {
    fn drop(&mut self) {
        BEFORE_STEP.with_borrow_mut(|called| *called = None);
    }
}

/// Does `work` on this thread with a call before each change of a file.
pub(crate) fn stepwise<T>(before_step: BeforeStep, work: impl FnOnce() -> T) -> T {
    BEFORE_STEP.with_borrow_mut(|called| *called = Some(before_step));
    let _called = Called;
    work()
}

/// A file is about to be changed.
pub(crate) fn step(action: &'static str, path: &Path) -> Result<(), Error> {
    let called = BEFORE_STEP.with_borrow(Clone::clone);
    called.map_or(Ok(()), |called| called(action, path)).map_err(Error::on(action, path))
}
