//! Anthropic Messages, as claude speaks it.

use serde_json::{Value, json};

use super::{Act, INPUT_TOKENS, OUTPUT_TOKENS, Tool, Wire, pieces, tool, typed, unique};

pub(super) const WIRE: Wire = Wire { tools, answer, refusal };

fn tools(request: &Value) -> Vec<Tool> {
    let offered = request["tools"].as_array().into_iter().flatten();
    offered.filter_map(|entry| tool(&entry["name"], &entry["input_schema"])).collect()
}

fn answer(request: &Value, act: &Act) -> String {
    let delta = |delta: Value| json!({"type": "content_block_delta", "index": 0, "delta": delta});
    let (block, deltas, stop): (Value, Vec<Value>, &str) = match act {
        Act::Say(text) => {
            let piece = |piece| delta(json!({"type": "text_delta", "text": piece}));
            (json!({"type": "text", "text": ""}), pieces(text).into_iter().map(piece).collect(), "end_turn")
        }
        Act::Call { tool, arguments } => {
            let whole = delta(json!({"type": "input_json_delta", "partial_json": arguments.to_string()}));
            (json!({"type": "tool_use", "id": unique("toolu_"), "name": tool, "input": {}}), vec![whole], "tool_use")
        }
    };
    let message = json!({
        "id": unique("msg_"), "type": "message", "role": "assistant", "model": request["model"], "content": [],
        "stop_reason": null, "stop_sequence": null, "usage": {"input_tokens": INPUT_TOKENS, "output_tokens": 1},
    });
    let mut events = vec![
        json!({"type": "message_start", "message": message}),
        json!({"type": "content_block_start", "index": 0, "content_block": block}),
    ];
    events.extend(deltas);
    events.push(json!({"type": "content_block_stop", "index": 0}));
    events.push(json!({
        "type": "message_delta", "delta": {"stop_reason": stop, "stop_sequence": null},
        "usage": {"output_tokens": OUTPUT_TOKENS},
    }));
    events.push(json!({"type": "message_stop"}));
    typed(&events)
}

fn refusal(status: u16, message: &str) -> Value {
    let kind = match status {
        401 => "authentication_error",
        429 => "rate_limit_error",
        _ => "api_error",
    };
    json!({"type": "error", "error": {"type": kind, "message": message}})
}
