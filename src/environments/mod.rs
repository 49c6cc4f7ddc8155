//! Python environments of skills: made once for each content, in a process of their own, and shared by all runs that need it.
//!
//! An environment is a folder `data/environments/<id>`. It counts from the moment its record is there, which is written last; a
//! folder without one is a making that was cut short. Whoever makes or removes an environment holds the folder's lock alone,
//! and whoever uses it shares the lock.

mod cache;
mod complaint;
mod installer;
mod interpreter;
mod lock;
mod make;
mod order;
mod output;
mod record;
mod variables;

pub(crate) use cache::{Environments, InUse, Totals, UnderWay};
#[cfg(any(test, fuzzing))]
pub(crate) use complaint::foreign as foreign_complaint;
pub(crate) use installer::installer_here;
pub use make::make_if_asked;
pub(crate) use order::{MAKE, Order, Wanted};
pub(crate) use variables::{of_operator as variables_of_operator, secrets};
