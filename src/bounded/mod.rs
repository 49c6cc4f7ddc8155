//! Readers of text that others wrote, each with a bound on length, nesting and time.
//!
//! What a library bounds itself needs nothing here: toml refuses deep values and takes time in proportion to its input, and so does
//! serde_json, once the names that it reserves are refused. `docs/security.md` lists every parser with its limits.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

pub(crate) mod glob;
pub(crate) mod harmless;
pub(crate) mod host;
pub(crate) mod json;
pub(crate) mod object;
pub(crate) mod plain_names;
pub(crate) mod template;
pub(crate) mod utf8;
pub(crate) mod whole;
pub(crate) mod yaml;
