//! What a skill or a request may set of qwen's settings.

use crate::engine::config::{Key, Takes};

pub(crate) const KEYS: &[Key] = &[
    Key { path: "model.name", takes: Takes::Model, does: "which model answers; `model` of the request wins" },
    Key { path: "model.maxSessionTurns", takes: Takes::Count, does: "turns of a session" },
    Key { path: "model.sessionTokenLimit", takes: Takes::Count, does: "tokens of a session" },
    Key {
        path: "model.generationConfig.maxRetries",
        takes: Takes::Count,
        does: "how often its library sends a failed request again",
    },
    Key { path: "model.generationConfig.timeout", takes: Takes::Count, does: "milliseconds that one request may take" },
    Key {
        path: "model.generationConfig.samplingParams.temperature",
        takes: Takes::Number,
        does: "how free the model's choice of words is",
    },
    Key {
        path: "model.generationConfig.samplingParams.top_p",
        takes: Takes::Number,
        does: "how free the model's choice of words is",
    },
    Key {
        path: "model.generationConfig.samplingParams.top_k",
        takes: Takes::Count,
        does: "how free the model's choice of words is",
    },
    Key { path: "model.generationConfig.samplingParams.max_tokens", takes: Takes::Count, does: "tokens of one answer" },
];
