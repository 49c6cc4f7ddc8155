//! From an engine's raw output to a validated result: candidate, validation, the normalization ladder.
