//! `streamGenerateContent`, as gemini speaks it.

use serde_json::{Value, json};

use super::{Act, INPUT_TOKENS, OUTPUT_TOKENS, Tool, Wire, data, pieces, tool, unique};

pub(super) const WIRE: Wire = Wire { tools, answer, refusal };

pub(super) fn tools(request: &Value) -> Vec<Tool> {
    let groups = request["tools"].as_array().into_iter().flatten();
    let declared = groups.flat_map(|group| group["functionDeclarations"].as_array().into_iter().flatten());
    let schema = |entry: &Value| match &entry["parametersJsonSchema"] {
        Value::Null => entry["parameters"].clone(),
        schema => schema.clone(),
    };
    declared.filter_map(|entry| tool(&entry["name"], &schema(entry))).collect()
}

fn answer(request: &Value, acts: &[Act]) -> String {
    data(&events(request, acts))
}

pub(super) fn events(_: &Value, acts: &[Act]) -> Vec<Value> {
    let id = unique("g");
    let candidate = |part: Value| {
        json!({
            "candidates": [{"content": {"role": "model", "parts": [part]}, "index": 0}],
            "modelVersion": "scripted", "responseId": id,
        })
    };
    let of_act = |act: &Act| -> Vec<Value> {
        match act {
            Act::Say(text) => pieces(text).into_iter().map(|piece| candidate(json!({"text": piece}))).collect(),
            Act::Call { tool, arguments } => {
                vec![candidate(json!({"functionCall": {"name": tool, "args": arguments}}))]
            }
        }
    };
    let mut events: Vec<Value> = acts.iter().flat_map(of_act).collect();
    let mut last = candidate(json!({"text": ""}));
    last["candidates"][0]["finishReason"] = json!("STOP");
    last["usageMetadata"] = json!({
        "promptTokenCount": INPUT_TOKENS, "candidatesTokenCount": OUTPUT_TOKENS,
        "totalTokenCount": INPUT_TOKENS + OUTPUT_TOKENS,
    });
    events.push(last);
    events
}

pub(super) fn refusal(status: u16, message: &str) -> Value {
    let kind = match status {
        401 => "UNAUTHENTICATED",
        429 => "RESOURCE_EXHAUSTED",
        _ => "INTERNAL",
    };
    json!({"error": {"code": status, "message": message, "status": kind}})
}
