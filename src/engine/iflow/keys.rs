//! What a skill or a request may set of iflow's settings.

use crate::engine::config::{Key, Takes};

pub(crate) const KEYS: &[Key] =
    &[Key { path: "modelName", takes: Takes::Model, does: "which model answers; `model` of the request wins" }];
