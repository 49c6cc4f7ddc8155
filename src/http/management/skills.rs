//! `GET /v1/management/skills`: the installed skills with their health; one of them with its readme, files and schemas.

use axum::Json;
use axum::extract::State;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use crate::http::answer::problem::Problem;
use crate::http::request::path_params::path_params;
use crate::http::skills::installed;
use crate::http::state::app::App;
use crate::http::state::task::blocking;
use crate::registry::Installed;
use crate::skill::Skill;

pub(crate) async fn all(State(app): State<App>) -> Result<Response, Problem> {
    let valid = |found: &Installed| {
        let skill = &found.skill;
        with(installed::summary(skill), found, [("unsupported_engines", unsupported(skill))])
    };
    let invalid = |folder, findings| json!({"folder": folder, "health": "invalid", "findings": findings});
    installed::listed(&app, valid, invalid).await
}

pub(crate) async fn one(State(app): State<App>, parts: Parts) -> Result<Response, Problem> {
    let (found, isolating) = (asked(&app, parts).await?, app.clone());
    let told = move || {
        let skill = &found.skill;
        let more = [
            ("readme", json!(skill.body)),
            ("files", json!(found.files)),
            ("automation", json!(skill.manifest.automation)),
            ("models", json!(skill.manifest.models)),
            ("isolation", json!(isolating.orchestrator().isolation_of(skill))),
        ];
        Ok::<_, Problem>(Json(with(installed::whole(skill), &found, more)).into_response())
    };
    // Few at once: schemas and readme may be long.
    app.room().make(blocking(told)).await
}

pub(crate) async fn schemas(State(app): State<App>, parts: Parts) -> Result<Response, Problem> {
    let found = asked(&app, parts).await?;
    let told = move || {
        let skill = &found.skill;
        let told = json!({
            "skill_id": skill.id,
            "input": skill.input_schema,
            "parameter": skill.parameter_schema,
            "output": skill.output_schema,
        });
        Ok::<_, Problem>(Json(told).into_response())
    };
    // Few at once: schemas and readme may be long.
    app.room().make(blocking(told)).await
}

async fn asked(app: &App, mut parts: Parts) -> Result<std::sync::Arc<Installed>, Problem> {
    installed::found(app, path_params(&mut parts).await?.remove("id").unwrap_or_default()).await
}

fn unsupported(skill: &Skill) -> Value {
    json!(skill.manifest.unsupported_engines)
}

/// What the routes of skills answer, and what front ends need besides.
fn with<const N: usize>(mut answer: Value, installed: &Installed, more: [(&str, Value); N]) -> Value {
    let skill = &installed.skill;
    let health = if skill.findings.is_empty() { "ok" } else { "warning" };
    if let Some(answer) = answer.as_object_mut() {
        answer.insert("effective_engines".to_owned(), json!(skill.effective_engines()));
        answer.insert("health".to_owned(), json!(health));
        answer.extend(more.map(|(name, value)| (name.to_owned(), value)));
    }
    answer
}
