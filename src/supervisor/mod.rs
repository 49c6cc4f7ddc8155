//! Engine processes: spawn, read, stop, and leave nothing behind.
