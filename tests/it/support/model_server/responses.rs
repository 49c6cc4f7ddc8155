//! OpenAI Responses, as codex speaks it.

use serde_json::{Value, json};

use super::{Act, INPUT_TOKENS, OUTPUT_TOKENS, Tool, Wire, openai_refusal, pieces, tool, typed, unique};

pub(super) const WIRE: Wire = Wire { tools, answer, refusal: openai_refusal };

fn tools(request: &Value) -> Vec<Tool> {
    let mut found = Vec::new();
    collect(&request["tools"], &mut found);
    found
}

/// Tools may stand in groups.
fn collect(list: &Value, found: &mut Vec<Tool>) {
    for entry in list.as_array().into_iter().flatten() {
        match entry["type"].as_str() {
            Some("namespace") => collect(&entry["tools"], found),
            _ => found.extend(tool(&entry["name"], &entry["parameters"])),
        }
    }
}

/// The call that waits for a command which codex went on without, if the last thing it tells is of one.
pub(super) fn waits_on(request: &Value) -> Option<Act> {
    let told = request["input"].as_array()?.last()?["output"].as_str()?;
    let (_, rest) = told.split_once("Process running with session ID ")?;
    let session: u64 = rest.lines().next()?.trim().parse().ok()?;
    let arguments = json!({"session_id": session, "chars": "", "yield_time_ms": 300_000});
    Some(Act::Call { tool: "write_stdin".to_owned(), arguments })
}

fn answer(request: &Value, acts: &[Act]) -> String {
    let response = |status: &str, output: Value| {
        json!({
            "id": unique("resp_"), "object": "response", "created_at": 0, "model": request["model"],
            "status": status, "output": output,
            "usage": {
                "input_tokens": INPUT_TOKENS, "input_tokens_details": {"cached_tokens": 0},
                "output_tokens": OUTPUT_TOKENS, "output_tokens_details": {"reasoning_tokens": 0},
                "total_tokens": INPUT_TOKENS + OUTPUT_TOKENS,
            },
        })
    };
    let mut events = vec![json!({"type": "response.created", "response": response("in_progress", json!([]))})];
    let mut output = Vec::new();
    for (index, act) in acts.iter().enumerate() {
        let (begun, mut parts, done) = match act {
            Act::Say(text) => message(text),
            Act::Call { tool, arguments: Value::String(text) } => call_with_text(tool, text),
            Act::Call { tool, arguments } => call(tool, arguments),
        };
        parts.iter_mut().for_each(|part| part["output_index"] = json!(index));
        events.push(json!({"type": "response.output_item.added", "output_index": index, "item": begun}));
        events.extend(parts);
        events.push(json!({"type": "response.output_item.done", "output_index": index, "item": done.clone()}));
        output.push(done);
    }
    events.push(json!({"type": "response.completed", "response": response("completed", json!(output))}));
    typed(&events)
}

fn message(text: &str) -> (Value, Vec<Value>, Value) {
    let id = unique("msg_");
    let item = |status: &str, content: Value| json!({"type": "message", "id": id, "role": "assistant", "status": status, "content": content});
    let part = |text: &str| json!({"type": "output_text", "text": text, "annotations": []});
    let about = |kind: &str| json!({"type": kind, "item_id": id, "output_index": 0, "content_index": 0});
    let with = |kind: &str, key: &str, value: Value| {
        let mut event = about(kind);
        event[key] = value;
        event
    };
    let mut events = vec![with("response.content_part.added", "part", part(""))];
    events.extend(pieces(text).into_iter().map(|piece| with("response.output_text.delta", "delta", json!(piece))));
    events.push(with("response.output_text.done", "text", json!(text)));
    (item("in_progress", json!([])), events, item("completed", json!([part(text)])))
}

/// A call of a tool that takes any text.
fn call_with_text(tool: &str, text: &str) -> (Value, Vec<Value>, Value) {
    let (id, call_id) = (unique("ctc_"), unique("call_"));
    let item = |status: &str, input: &str| {
        json!({
            "type": "custom_tool_call", "id": id, "call_id": call_id, "name": tool, "input": input, "status": status,
        })
    };
    (item("in_progress", ""), Vec::new(), item("completed", text))
}

fn call(tool: &str, arguments: &Value) -> (Value, Vec<Value>, Value) {
    let (id, call_id) = (unique("fc_"), unique("call_"));
    let item = |status: &str, arguments: &str| {
        json!({
            "type": "function_call", "id": id, "call_id": call_id, "name": tool,
            "arguments": arguments, "status": status,
        })
    };
    let arguments = arguments.to_string();
    let done = json!({
        "type": "response.function_call_arguments.done", "item_id": id, "output_index": 0, "arguments": arguments,
    });
    (item("in_progress", ""), vec![done], item("completed", &arguments))
}
