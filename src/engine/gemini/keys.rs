//! What a skill or a request may set of gemini's settings.

use crate::engine::config::{Key, Takes};

pub(crate) const KEYS: &[Key] = &[
    Key { path: "model.name", takes: Takes::Model, does: "which model answers; `model` of the request wins" },
    Key { path: "model.maxSessionTurns", takes: Takes::Count, does: "turns of a session" },
    Key {
        path: "model.compressionThreshold",
        takes: Takes::Number,
        does: "share of the context at which a conversation is shortened",
    },
    Key { path: "general.maxAttempts", takes: Takes::Count, does: "how often a failed request is sent" },
    Key {
        path: "tools.truncateToolOutputThreshold",
        takes: Takes::Count,
        does: "characters of a tool's output that the model reads",
    },
];
