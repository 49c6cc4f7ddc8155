//! Views folded from a run's state: job, pending, result.
