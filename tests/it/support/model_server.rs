//! A model of few words on loopback: it speaks every engine's API and says what a test has scripted.

mod anthropic;
mod chat_completions;
mod code_assist;
mod generate_content;
mod responses;

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Map, Value, json};
use tokio::runtime::Runtime;

/// What each answer is said to have cost.
pub const INPUT_TOKENS: u64 = 100;
/// See [`INPUT_TOKENS`].
pub const OUTPUT_TOKENS: u64 = 20;
/// Pieces in which text is streamed, in characters; a long text has this many pieces at most.
const PIECE: usize = 20;
const PIECES_MAX: usize = 500;

/// One answer of the model.
#[derive(Debug, Clone)]
pub enum Reply {
    /// The result: through the engine's tool for structured output where it offers one, else as text.
    Result(Value),
    /// Plain words.
    Say(&'static str),
    /// A command for the engine's shell.
    Shell(String),
    /// Words, and a command for the engine's shell in the same answer.
    SayAndShell(&'static str, String),
    /// A call of this tool, whether it was offered or not. Arguments that are a text are those of a tool without a schema.
    Call(&'static str, Value),
    /// An HTTP error. It is never used up, for engines ask again.
    Refuse(u16),
    /// Too many requests; whoever asks is to wait so many seconds. It is never used up.
    RefuseFor(u64),
    /// Words that break off: the connection is closed in the middle of the answer. It is never used up.
    BreakOff(&'static str),
}

/// The server; it stops when it is dropped.
pub struct ModelServer {
    pub address: SocketAddr,
    script: Arc<Mutex<Script>>,
    runtime: Option<Runtime>,
}

#[derive(Default)]
struct Script {
    replies: Vec<Reply>,
    next: usize,
    requests: Vec<Value>,
    /// The model that each of the requests names.
    models: Vec<String>,
}

/// What the model does in one answer, in no engine's language yet.
enum Act {
    Say(String),
    Call { tool: String, arguments: Value },
}

/// A tool that an engine offers: its name and the properties of its arguments.
struct Tool {
    name: String,
    properties: Map<String, Value>,
}

/// One engine's language.
struct Wire {
    tools: fn(&Value) -> Vec<Tool>,
    answer: fn(&Value, &[Act]) -> String,
    /// The body that goes with an HTTP error.
    refusal: fn(u16, &str) -> Value,
}

impl ModelServer {
    pub fn start() -> ModelServer {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        let script = Arc::new(Mutex::new(Script::default()));
        let router = Router::new().fallback(answer).layer(DefaultBodyLimit::disable()).with_state(script.clone());
        runtime.spawn(async move { axum::serve(listener, router).await });
        ModelServer { address, script, runtime: Some(runtime) }
    }

    /// Say these from now on, and forget every request so far.
    pub fn script(&self, replies: &[Reply]) {
        *self.script.lock().unwrap() = Script { replies: replies.to_vec(), ..Script::default() };
    }

    /// The bodies of the requests since the script was given. Those that offer no tools, such as for a title, are not counted.
    pub fn requests(&self) -> Vec<Value> {
        self.script.lock().unwrap().requests.clone()
    }

    /// Whether the first of these requests offers a tool of this name, or of this kind.
    pub fn offers(&self, tool: &str) -> bool {
        let first = self.requests()[0].to_string();
        first.contains(&format!("\"name\":\"{tool}\"")) || first.contains(&format!("\"type\":\"{tool}\""))
    }

    /// The models that the same requests name.
    pub fn models(&self) -> Vec<String> {
        self.script.lock().unwrap().models.clone()
    }
}

impl Drop for ModelServer {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_timeout(Duration::from_secs(1));
        }
    }
}

async fn answer(State(script): State<Arc<Mutex<Script>>>, uri: Uri, body: Bytes) -> Response {
    if let Some(answer) = code_assist::account(uri.path()) {
        return answer;
    }
    let Some(wire) = wire(uri.path()) else {
        return (StatusCode::NOT_FOUND, "there is only a model here").into_response();
    };
    let body: Value = match serde_json::from_slice(&body) {
        Ok(body) => body,
        Err(error) => return (StatusCode::BAD_REQUEST, error.to_string()).into_response(),
    };
    // A command is over before the script goes on, however busy the machine is.
    if let Some(act) = responses::waits_on(&body) {
        return stream((wire.answer)(&body, &[act]));
    }
    let tools = (wire.tools)(&body);
    let reply = script.lock().unwrap().reply(&tools, &body, &model_named(&uri, &body));
    let acts = match reply {
        Reply::Refuse(status) => return refuse(&wire, status, 1),
        Reply::RefuseFor(seconds) => return refuse(&wire, 429, seconds),
        Reply::BreakOff(words) => return break_off((wire.answer)(&body, &[Act::Say(words.to_owned())])),
        Reply::Say(words) => vec![Act::Say(words.to_owned())],
        Reply::Result(result) => vec![result_act(&tools, result)],
        Reply::Shell(command) => shell_act(&tools, &command).into_iter().collect(),
        Reply::Call(tool, arguments) => vec![Act::Call { tool: tool.to_owned(), arguments }],
        Reply::SayAndShell(words, command) => {
            std::iter::once(Act::Say(words.to_owned())).chain(shell_act(&tools, &command)).collect()
        }
    };
    match acts.as_slice() {
        [] => (StatusCode::BAD_REQUEST, "the engine offers no shell").into_response(),
        acts => stream((wire.answer)(&body, acts)),
    }
}

/// The model that a request names, in its body or in its path.
fn model_named(uri: &Uri, body: &Value) -> String {
    let in_path = || uri.path().rsplit('/').next().and_then(|last| last.split(':').next()).unwrap_or_default();
    body["model"].as_str().unwrap_or_else(in_path).to_owned()
}

/// The first half of an answer, behind which the connection is closed.
fn break_off(events: String) -> Response {
    let half = events.floor_char_boundary(events.len() / 2);
    let pieces = [Ok(Bytes::from(events[..half].to_owned())), Err(std::io::Error::other("broken off"))];
    let body = axum::body::Body::from_stream(tokio_stream::iter(pieces));
    ([(header::CONTENT_TYPE, "text/event-stream")], body).into_response()
}

impl Act {
    fn is_call(&self) -> bool {
        matches!(self, Act::Call { .. })
    }
}

impl Script {
    fn reply(&mut self, tools: &[Tool], request: &Value, model: &str) -> Reply {
        let scripted = self.replies.get(self.next).cloned();
        if let Some(refusal @ (Reply::Refuse(_) | Reply::RefuseFor(_) | Reply::BreakOff(_))) = scripted {
            self.requests.push(request.clone());
            self.models.push(model.to_owned());
            return refusal;
        }
        if tools.is_empty() {
            return Reply::Say("A title");
        }
        self.requests.push(request.clone());
        self.models.push(model.to_owned());
        self.next += 1;
        scripted.unwrap_or(Reply::Say("The script is over."))
    }
}

fn wire(path: &str) -> Option<Wire> {
    if path.ends_with("/responses") {
        Some(responses::WIRE)
    } else if path.ends_with("/chat/completions") {
        Some(chat_completions::WIRE)
    } else if path == "/v1internal:streamGenerateContent" {
        Some(code_assist::WIRE)
    } else if path.ends_with(":streamGenerateContent") {
        Some(generate_content::WIRE)
    } else if path.ends_with("/messages") {
        Some(anthropic::WIRE)
    } else {
        None
    }
}

fn stream(events: String) -> Response {
    ([(header::CONTENT_TYPE, "text/event-stream")], events).into_response()
}

/// An HTTP error that asks to wait so many seconds.
fn refuse(wire: &Wire, status: u16, seconds: u64) -> Response {
    let words = match status {
        401 => "Incorrect API key provided",
        429 => "Rate limit reached",
        _ => "Something is broken here",
    };
    // Engines that wait before they ask again mostly wait as long as they are told to; a test need not wait long.
    let milliseconds = if seconds == 1 { 50 } else { seconds * 1000 };
    let headers = [
        ("content-type", "application/json".to_owned()),
        ("retry-after", seconds.to_string()),
        ("retry-after-ms", milliseconds.to_string()),
    ];
    (StatusCode::from_u16(status).unwrap(), headers, (wire.refusal)(status, words).to_string()).into_response()
}

fn result_act(tools: &[Tool], result: Value) -> Act {
    let structured = |tool: &&Tool| ["StructuredOutput", "structured_output"].contains(&tool.name.as_str());
    match tools.iter().find(structured) {
        Some(tool) => Act::Call { tool: tool.name.clone(), arguments: result },
        None => Act::Say(result.to_string()),
    }
}

/// A call of the engine's shell, whatever the engine names it and its arguments.
fn shell_act(tools: &[Tool], command: &str) -> Option<Act> {
    const SHELLS: [&str; 6] = ["exec_command", "shell_command", "shell", "run_shell_command", "bash", "Bash"];
    let tool = SHELLS.iter().find_map(|name| tools.iter().find(|tool| tool.name == *name))?;
    let mut arguments = json!({});
    for (key, property) in &tool.properties {
        match key.as_str() {
            "command" if property["type"] == "array" => arguments[key] = json!(["bash", "-c", command]),
            "command" | "cmd" => arguments[key] = json!(command),
            "description" => arguments[key] = json!("a scripted command"),
            "is_background" => arguments[key] = json!(false),
            // The most that codex allows: it asks its model again when a command takes longer. Usually it waits for 10 s,
            // which a busy machine may need to start the sandbox alone.
            "yield_time_ms" => arguments[key] = json!(30_000),
            _ => {}
        }
    }
    Some(Act::Call { tool: tool.name.clone(), arguments })
}

fn tool(name: &Value, schema: &Value) -> Option<Tool> {
    let properties = schema["properties"].as_object().cloned().unwrap_or_default();
    Some(Tool { name: name.as_str()?.to_owned(), properties })
}

/// A text in pieces.
fn pieces(text: &str) -> Vec<String> {
    let characters: Vec<char> = text.chars().collect();
    characters.chunks(PIECE.max(characters.len() / PIECES_MAX)).map(|piece| piece.iter().collect()).collect()
}

/// Events without names.
fn data(values: &[Value]) -> String {
    values.iter().map(|value| format!("data: {value}\n\n")).collect()
}

/// Events named by their type.
fn typed(values: &[Value]) -> String {
    let name = |value: &Value| value["type"].as_str().unwrap().to_owned();
    values.iter().map(|value| format!("event: {}\ndata: {value}\n\n", name(value))).collect()
}

/// An identifier that was not used before.
fn unique(prefix: &str) -> String {
    format!("{prefix}{}", uuid::Uuid::now_v7().simple())
}

/// Errors as OpenAI words them.
fn openai_refusal(status: u16, message: &str) -> Value {
    let kind = match status {
        401 => "invalid_api_key",
        429 => "rate_limit_exceeded",
        _ => "server_error",
    };
    json!({"error": {"message": message, "type": kind, "param": null, "code": kind}})
}
