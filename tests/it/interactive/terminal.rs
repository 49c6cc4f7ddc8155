//! The command line: `run --interactive`, `watch`, `reply`, `cancel`, `logs`, as real processes.
