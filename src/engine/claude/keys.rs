//! What a skill or a request may set of claude's settings.

use crate::engine::config::{Key, Takes};

pub(crate) const KEYS: &[Key] = &[
    Key { path: "model", takes: Takes::Model, does: "which model answers; `model` of the request wins" },
    Key { path: "effortLevel", takes: Takes::Word, does: "how long the model thinks" },
    Key { path: "alwaysThinkingEnabled", takes: Takes::Flag, does: "whether the model thinks before it answers" },
    Key { path: "autoCompactEnabled", takes: Takes::Flag, does: "whether a long conversation is shortened" },
    Key { path: "includeCoAuthoredBy", takes: Takes::Flag, does: "whether commits name claude as an author" },
];
