//! The REST API over the orchestrator.
