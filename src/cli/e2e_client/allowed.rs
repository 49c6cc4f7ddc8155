//! The routes of the service that the pages may use through the example client, and which of them are recorded.

use axum::http::Method;

use crate::cli::e2e_client::recording::Action;

/// A request that is passed on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Allowed {
    /// What is recorded of it.
    pub(super) action: Option<Action>,
    /// The run it is about, as the path names it.
    pub(super) run: Option<String>,
}

/// What this request is; none if it is not passed on. Nothing that installs, removes or changes the service is among them.
pub(super) fn allowed(method: &Method, path: &str) -> Option<Allowed> {
    let parts: Vec<&str> = path.strip_prefix("/v1/")?.split('/').collect();
    if !parts.iter().all(|part| is_plain(part)) {
        return None;
    }
    let is_get = *method == Method::GET || *method == Method::HEAD;
    match parts.as_slice() {
        ["jobs" | "skill-packages", "check"] if *method == Method::POST => Some(Allowed { action: None, run: None }),
        ["jobs" | "temp-skill-runs", id, rest @ ..] if is_id(id) => of_run(is_get, method, id, rest),
        _ if is_get => is_read(&parts).then_some(Allowed { action: None, run: None }),
        ["jobs" | "temp-skill-runs"] if *method == Method::POST => {
            Some(Allowed { action: Some(Action::Create), run: None })
        }
        _ => None,
    }
}

/// A request about one run.
fn of_run(is_get: bool, method: &Method, id: &str, rest: &[&str]) -> Option<Allowed> {
    let action = match rest {
        ["result"] if is_get => Some(Action::ResultRead),
        []
        | ["artifacts", ..]
        | ["audit" | "bundle" | "events" | "explain" | "export" | "logs"]
        | ["events", "history"]
        | ["explain", "cache"]
        | ["interaction", "pending"]
        | ["logs", "range"]
            if is_get =>
        {
            None
        }
        ["rerun"] if *method == Method::POST => Some(Action::Create),
        ["upload"] if *method == Method::POST => Some(Action::Upload),
        ["interaction", "reply"] if *method == Method::POST => Some(Action::Reply),
        ["cancel"] if *method == Method::POST => None,
        _ => return None,
    };
    Some(Allowed { action, run: Some(id.to_owned()) })
}

fn is_read(parts: &[&str]) -> bool {
    match parts {
        ["jobs" | "skills" | "engines"] | ["management", "skills" | "engines" | "runs"] => true,
        ["skills", id] | ["engines", id, "models"] | ["management", "skills" | "runs", id] => is_id(id),
        ["management", "skills", id, "file"] | ["management", "runs", id, "files" | "file"] => is_id(id),
        _ => false,
    }
}

/// Names of skills, engines and runs need no other letters.
fn is_id(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
}

/// Whether a part of a path is a name and no step elsewhere, however it is written.
fn is_plain(part: &str) -> bool {
    let decoded = percent_encoding::percent_decode_str(part).collect::<Vec<u8>>();
    !part.is_empty()
        && !matches!(decoded.as_slice(), b"." | b"..")
        && !decoded.iter().any(|byte| b"/\\".contains(byte) || byte.is_ascii_control())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "0192f0c1-2d3e-7f40-8a51-6b7c8d9e0f11";

    #[test]
    fn what_the_pages_need_is_passed_on_and_what_changes_the_service_is_not() {
        let action = |method: Method, path: &str| allowed(&method, &path.replace("ID", ID)).map(|found| found.action);
        for path in ["jobs", "skills", "engines", "engines/codex/models", "management/skills/demo-echo", "jobs/ID"] {
            assert_eq!(action(Method::GET, &format!("/v1/{path}")), Some(None), "{path}");
        }
        for path in ["jobs/ID/events", "jobs/ID/artifacts/artifacts/a%20b.md", "temp-skill-runs/ID/logs/range"] {
            assert_eq!(action(Method::GET, &format!("/v1/{path}")), Some(None), "{path}");
        }
        for (method, path, recorded) in [
            (Method::POST, "/v1/jobs", Action::Create),
            (Method::POST, "/v1/temp-skill-runs", Action::Create),
            (Method::POST, "/v1/jobs/ID/rerun", Action::Create),
            (Method::POST, "/v1/temp-skill-runs/ID/upload", Action::Upload),
            (Method::POST, "/v1/jobs/ID/interaction/reply", Action::Reply),
            (Method::GET, "/v1/jobs/ID/result", Action::ResultRead),
        ] {
            assert_eq!(action(method, path), Some(Some(recorded)), "{path}");
        }
        for path in ["/v1/jobs/ID/cancel", "/v1/jobs/check", "/v1/skill-packages/check"] {
            assert_eq!(action(Method::POST, path), Some(None), "{path}");
        }
        for (method, path) in [
            (Method::DELETE, "/v1/jobs/ID"),
            (Method::POST, "/v1/skill-packages/install"),
            (Method::POST, "/v1/engines/upgrades"),
            (Method::POST, "/v1/backups"),
            (Method::POST, "/v1/jobs/cleanup"),
            (Method::POST, "/v1/jobs/ID/events/ticket"),
            (Method::POST, "/v1/skills/demo-echo/rollback"),
            (Method::POST, "/v1/jobs/ID/result"),
            (Method::GET, "/v1/management/settings"),
            (Method::GET, "/v1/system"),
            (Method::GET, "/metrics"),
            (Method::GET, "/ui/session"),
            (Method::GET, "/v1/jobs/ID/artifacts/../../../management/settings"),
            (Method::GET, "/v1/jobs/ID/artifacts/%2e%2e/x"),
            (Method::GET, "/v1/jobs/ID/artifacts/%2E%2e%2fx"),
            (Method::GET, "/v1/jobs/ID/artifacts/a%5cb"),
            (Method::GET, "/v1//jobs"),
            (Method::GET, "/v1/skills/a%2fb"),
            (Method::OPTIONS, "/v1/jobs"),
            (Method::PUT, "/v1/jobs"),
        ] {
            assert_eq!(action(method.clone(), path), None, "{method} {path}");
        }
        let run = allowed(&Method::GET, &format!("/v1/jobs/{ID}/result")).and_then(|found| found.run);
        assert_eq!(run.as_deref(), Some(ID));
    }
}
