//! Runs in motion: queue, actors, recovery.
