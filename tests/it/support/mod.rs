//! What several tests need: servers, clients, the log checker.
