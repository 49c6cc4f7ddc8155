//! What a skill or a request may set of codex's configuration.

use crate::engine::config::{Key, Takes};

pub(crate) const KEYS: &[Key] = &[
    Key { path: "model", takes: Takes::Model, does: "which model answers; `model` of the request wins" },
    Key { path: "model_reasoning_effort", takes: Takes::Word, does: "how long the model thinks" },
    Key { path: "model_reasoning_summary", takes: Takes::Word, does: "how much of its thinking is told" },
    Key { path: "model_verbosity", takes: Takes::Word, does: "how much the model writes" },
    Key { path: "model_context_window", takes: Takes::Count, does: "tokens of a conversation" },
    Key {
        path: "model_auto_compact_token_limit",
        takes: Takes::Count,
        does: "tokens at which a conversation is shortened",
    },
    Key {
        path: "tool_output_token_limit",
        takes: Takes::Count,
        does: "tokens of a command's output that the model reads",
    },
    Key { path: "hide_agent_reasoning", takes: Takes::Flag, does: "whether thinking is left out of the output" },
];
