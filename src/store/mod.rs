//! The event store: its trait, the group-committing writer, sled and memory back ends, sealed logs.
