//! What gemini asks of Google when it is logged in there: who it is, and its model by another name.

use axum::Json;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use super::generate_content;
use super::{Act, Tool, Wire};

pub(super) const WIRE: Wire = Wire { tools, answer, refusal: generate_content::refusal };

fn tools(request: &Value) -> Vec<Tool> {
    generate_content::tools(&request["request"])
}

fn answer(request: &Value, acts: &[Act]) -> String {
    let events = generate_content::events(&request["request"], acts);
    super::data(&events.into_iter().map(|event| json!({"response": event})).collect::<Vec<_>>())
}

/// The answers around the model: the account, and what it may use.
pub(super) fn account(path: &str) -> Option<Response> {
    let body = match path {
        "/tokeninfo" => json!({"aud": "scripted", "scope": "openid", "expires_in": 3600}),
        "/oauth2/v2/userinfo" => json!({"email": "ann@example.com"}),
        "/v1internal:loadCodeAssist" => {
            json!({"currentTier": {"id": "standard-tier", "name": "scripted"}, "cloudaicompanionProject": "scripted"})
        }
        path if path.starts_with("/v1internal:") && !path.ends_with(":streamGenerateContent") => json!({}),
        _ => return None,
    };
    Some(Json(body).into_response())
}
