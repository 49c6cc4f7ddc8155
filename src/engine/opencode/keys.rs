//! What a skill or a request may set of opencode's configuration.

use crate::engine::config::{Key, Takes};

pub(crate) const KEYS: &[Key] = &[
    Key { path: "model", takes: Takes::Model, does: "which model answers; `model` of the request wins" },
    Key { path: "small_model", takes: Takes::Model, does: "which model writes titles and summaries" },
    Key { path: "agent.build.temperature", takes: Takes::Number, does: "how free the model's choice of words is" },
    Key { path: "agent.build.top_p", takes: Takes::Number, does: "how free the model's choice of words is" },
    Key { path: "agent.build.steps", takes: Takes::Count, does: "requests to the model in one turn" },
    Key { path: "compaction.auto", takes: Takes::Flag, does: "whether a long conversation is shortened" },
    Key {
        path: "compaction.prune",
        takes: Takes::Flag,
        does: "whether old output of tools is left out of a long conversation",
    },
];
