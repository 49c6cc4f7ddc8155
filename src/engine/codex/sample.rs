//! A turn as codex prints it, for tests of packages that no engine has run yet.

use serde_json::json;

/// What codex prints when it says this and ends; every such turn is of one thread.
pub(crate) fn turn(says: &str) -> String {
    let lines = [
        json!({ "type": "thread.started", "thread_id": "01a1e212-4294-7d63-8a31-bad9c2b8b85a" }),
        json!({ "type": "turn.started" }),
        json!({ "type": "item.completed", "item": { "id": "item_0", "type": "agent_message", "text": says } }),
        json!({ "type": "turn.completed", "usage": { "input_tokens": 100, "cached_input_tokens": 0, "output_tokens": 20 } }),
    ];
    lines.map(|line| format!("{line}\n")).concat()
}
