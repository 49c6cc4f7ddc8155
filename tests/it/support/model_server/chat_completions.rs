//! Chat Completions, as opencode and qwen speak it.

use serde_json::{Value, json};

use super::{Act, INPUT_TOKENS, OUTPUT_TOKENS, Tool, Wire, data, openai_refusal, pieces, tool, unique};

pub(super) const WIRE: Wire = Wire { tools, answer, refusal: openai_refusal };

fn tools(request: &Value) -> Vec<Tool> {
    let offered = request["tools"].as_array().into_iter().flatten();
    offered.filter_map(|entry| tool(&entry["function"]["name"], &entry["function"]["parameters"])).collect()
}

fn answer(request: &Value, acts: &[Act]) -> String {
    let id = unique("chatcmpl-");
    let chunk = |choices: Value| {
        json!({
            "id": id, "object": "chat.completion.chunk", "created": 0, "model": request["model"], "choices": choices,
        })
    };
    let delta = |delta: Value, end: Value| chunk(json!([{"index": 0, "delta": delta, "finish_reason": end}]));
    let mut events = vec![delta(json!({"role": "assistant", "content": ""}), Value::Null)];
    for act in acts {
        match act {
            Act::Say(text) => {
                events.extend(pieces(text).into_iter().map(|piece| delta(json!({"content": piece}), Value::Null)));
            }
            Act::Call { tool, arguments } => {
                let function = json!({"name": tool, "arguments": arguments.to_string()});
                let call = json!({"index": 0, "id": unique("call_"), "type": "function", "function": function});
                events.push(delta(json!({"tool_calls": [call]}), Value::Null));
            }
        }
    }
    let end = if acts.iter().any(Act::is_call) { "tool_calls" } else { "stop" };
    events.push(delta(json!({}), json!(end)));
    let mut last = chunk(json!([]));
    last["usage"] = json!({
        "prompt_tokens": INPUT_TOKENS, "completion_tokens": OUTPUT_TOKENS, "total_tokens": INPUT_TOKENS + OUTPUT_TOKENS,
    });
    events.push(last);
    data(&events) + "data: [DONE]\n\n"
}
