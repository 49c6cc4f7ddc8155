//! Anthropic Messages, as claude speaks it.

use serde_json::{Value, json};

use super::{Act, INPUT_TOKENS, OUTPUT_TOKENS, Tool, Wire, pieces, tool, typed, unique};

pub(super) const WIRE: Wire = Wire { tools, answer, refusal };

fn tools(request: &Value) -> Vec<Tool> {
    let offered = request["tools"].as_array().into_iter().flatten();
    offered.filter_map(|entry| tool(&entry["name"], &entry["input_schema"])).collect()
}

fn answer(request: &Value, acts: &[Act]) -> String {
    let stop = if acts.iter().any(Act::is_call) { "tool_use" } else { "end_turn" };
    let message = json!({
        "id": unique("msg_"), "type": "message", "role": "assistant", "model": request["model"], "content": [],
        "stop_reason": null, "stop_sequence": null, "usage": {"input_tokens": INPUT_TOKENS, "output_tokens": 1},
    });
    let mut events = vec![json!({"type": "message_start", "message": message})];
    for (index, act) in acts.iter().enumerate() {
        let (block, deltas) = block(index, act);
        events.push(json!({"type": "content_block_start", "index": index, "content_block": block}));
        events.extend(deltas);
        events.push(json!({"type": "content_block_stop", "index": index}));
    }
    events.push(json!({
        "type": "message_delta", "delta": {"stop_reason": stop, "stop_sequence": null},
        "usage": {"output_tokens": OUTPUT_TOKENS},
    }));
    events.push(json!({"type": "message_stop"}));
    typed(&events)
}

/// A block of a message, and how it grows.
fn block(index: usize, act: &Act) -> (Value, Vec<Value>) {
    let delta = |delta: Value| json!({"type": "content_block_delta", "index": index, "delta": delta});
    match act {
        Act::Say(text) => {
            let piece = |piece| delta(json!({"type": "text_delta", "text": piece}));
            (json!({"type": "text", "text": ""}), pieces(text).into_iter().map(piece).collect())
        }
        Act::Call { tool, arguments } => {
            let whole = delta(json!({"type": "input_json_delta", "partial_json": arguments.to_string()}));
            (json!({"type": "tool_use", "id": unique("toolu_"), "name": tool, "input": {}}), vec![whole])
        }
    }
}

fn refusal(status: u16, message: &str) -> Value {
    let kind = match status {
        401 => "authentication_error",
        429 => "rate_limit_error",
        _ => "api_error",
    };
    json!({"type": "error", "error": {"type": kind, "message": message}})
}
