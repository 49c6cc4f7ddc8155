//! Typed settings: defaults, then file, then environment, then flags, each value with its source.
