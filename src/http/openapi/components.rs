//! What operations refer to: the schemas of `schema/api`, completed by the tables they repeat, and headers and examples.

use serde_json::{Map, Value, json};

use crate::domain::codes::ErrorCode;
use crate::domain::engine::Engine;
use crate::domain::statechart::Status;
use crate::fcmp;
use crate::http::openapi::refusals;

const FILES: [&str; 5] = [
    include_str!("../../../schema/api/common.json"),
    include_str!("../../../schema/api/runs.json"),
    include_str!("../../../schema/api/skills.json"),
    include_str!("../../../schema/api/engines.json"),
    include_str!("../../../schema/api/system.json"),
];

const HEADERS: [(&str, &str, &str); 15] = [
    ("Accept-Ranges", "Ranges of bytes can be asked for.", "bytes"),
    ("Content-Disposition", "The file's name.", "attachment; filename=\"a.md\""),
    ("Content-Range", "Which bytes these are, or how many there are.", "bytes 0-4/5"),
    ("ETag", "The hash of the content, in quotes.", "\"9f86d081884c7d65\""),
    ("Deprecation", "Since when the route is old, as RFC 9745 writes it.", "@1771200000"),
    ("Link", "The route to use in its place.", "</v1/management/runs>; rel=\"successor-version\""),
    ("Location", "Where the new thing is.", "/v1/jobs/0192f0c1-2d3e-7f40-8a51-6b7c8d9e0f10"),
    ("Preference-Applied", "The wait that Prefer asked for.", "wait=30"),
    ("Retry-After", "Seconds after which to try again.", "1"),
    (
        "Set-Cookie",
        "The session of the browser: HttpOnly, SameSite=Strict, and Secure over TLS.",
        "skill_runner_session=…",
    ),
    ("Sunset", "When the route ends.", "Tue, 30 Jun 2026 23:59:59 GMT"),
    ("WWW-Authenticate", "Which credentials are needed.", "Bearer"),
    ("X-Accel-Buffering", "Proxies must not hold events back.", "no"),
    ("Cache-Control", "Nothing of it is to be kept.", "no-store"),
    ("X-Request-Id", "The id of this request in the service's log; the client's own if it sent one.", "7f3c2a"),
];

/// The components, without the responses that operations add.
pub(super) fn all() -> Value {
    json!({
        "schemas": schemas(),
        "responses": {},
        "examples": refusals::examples(),
        "headers": headers(),
        "securitySchemes": {
            "bearer": {"type": "http", "scheme": "bearer", "description": "The token of the service (SKILL_RUNNER_TOKEN), or a named one (skill-runner token new)."},
            "session": {"type": "apiKey", "in": "cookie", "name": "skill_runner_session", "description": "The session of a browser that has logged in at /ui/session. The name ends with the port of the address, if that has one."},
            "basic": {"type": "http", "scheme": "basic", "description": "The login of the user interface, where no token is set."},
        },
    })
}

fn headers() -> Value {
    let header = |(name, about, example): (&str, &str, &str)| {
        (name.to_owned(), json!({"description": about, "schema": {"type": "string"}, "example": example}))
    };
    Value::Object(HEADERS.into_iter().map(header).collect())
}

fn schemas() -> Value {
    let mut all: Map<String, Value> = Map::new();
    // The files are part of the program, and a test reads each of them.
    let files = FILES.iter().filter_map(|text| serde_json::from_str::<Map<String, Value>>(text).ok());
    all.extend(files.flatten());
    let codes = ErrorCode::ALL.iter().filter(|code| code.info().http.is_some());
    all.insert("ErrorCode".to_owned(), json!({"type": "string", "enum": codes.collect::<Vec<_>>()}));
    all.insert("RunStatus".to_owned(), json!({"type": "string", "enum": Status::ALL}));
    all.insert("Engine".to_owned(), json!({"type": "string", "enum": Engine::ALL}));
    all.insert("Event".to_owned(), event());
    let mut all = Value::Object(all);
    for engine in Engine::AGENTS {
        all["Overrides"]["properties"][format!("{engine}_config")] =
            json!({"type": ["object", "null"], "description": "Configuration for this engine; needs admin."});
    }
    all
}

/// The schema of events, which stands by itself elsewhere: its references are turned to its place in the document.
fn event() -> Value {
    let placed = fcmp::SCHEMA.replace("\"#/$defs/", "\"#/components/schemas/Event/$defs/");
    let mut event: Value = serde_json::from_str(&placed).unwrap_or_default();
    if let Some(members) = event.as_object_mut() {
        members.remove("$id");
        members.remove("$schema");
    }
    event
}
