//! The rules: a state and a command become a decision, or a refusal.

mod cancel;
mod decision;
mod recover;
mod reply;
mod rules;
mod turn;

#[cfg(test)]
mod tests;

pub use decision::Decision;
pub use rules::decide;
