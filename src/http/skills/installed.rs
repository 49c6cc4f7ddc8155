//! `GET /v1/skills`: the installed skills, and the folders that are not valid skills.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use crate::http::answer::problem::Problem;
use crate::http::request::path_params::path_params;
use crate::http::state::app::App;
use crate::http::state::task::blocking;
use crate::orchestrator::Error;
use crate::registry::{Entry, Installed, NotUsable};
use crate::skill::{Finding, Skill};

pub(crate) async fn all(State(app): State<App>) -> Result<Response, Problem> {
    listed(
        &app,
        |installed| summary(&installed.skill),
        |folder, findings| json!({"folder": folder, "findings": findings}),
    )
    .await
}

/// The skills as they are told, and the folders that are not valid skills. Written on another thread: it may be long.
pub(crate) async fn listed(
    app: &App,
    told: impl Fn(&Installed) -> Value + Send + 'static,
    told_invalid: impl Fn(String, Vec<Finding>) -> Value + Send + 'static,
) -> Result<Response, Problem> {
    let orchestrator = app.orchestrator().clone();
    orchestrator.skills_now().await?;
    let made = blocking(move || {
        let (mut skills, mut invalid) = (Vec::new(), Vec::new());
        for entry in orchestrator.registry().list().map_err(Error::from)? {
            match entry {
                Entry::Valid(installed) => skills.push(told(&installed)),
                Entry::Invalid { folder, findings } => invalid.push(told_invalid(folder, findings)),
            }
        }
        Ok::<_, Error>(Json(json!({"skills": skills, "invalid": invalid})).into_response())
    });
    app.room().make(made).await
}

pub(crate) async fn one(State(app): State<App>, mut parts: Parts) -> Result<Response, Problem> {
    let id = path_params(&mut parts).await?.remove("id").unwrap_or_default();
    let found = found(&app, id).await?;
    let told = move || Ok::<_, Problem>(Json(whole(&found.skill)).into_response());
    app.room().make(blocking(told)).await
}

/// The installed skill of this id.
pub(crate) async fn found(app: &App, id: String) -> Result<Arc<Installed>, Problem> {
    let orchestrator = app.orchestrator().clone();
    orchestrator.skills_now().await?;
    blocking(move || {
        let shown = id.chars().take(64).collect();
        match orchestrator.registry().lookup(&id) {
            Ok(installed) => Ok(installed),
            Err(NotUsable::NotFound) => Err(orchestrator.no_such_skill(&id).into()),
            Err(NotUsable::Invalid { findings }) => Err(Problem::SkillInvalid { id: shown, findings }),
            Err(NotUsable::Unread(shortage)) => Err(Error::from(shortage).into()),
        }
    })
    .await
}

pub(crate) fn summary(skill: &Skill) -> Value {
    json!({
        "id": skill.id,
        "version": skill.version.to_string(),
        "name": skill.name,
        "description": skill.description,
        "type": skill.manifest.entrypoint.kind,
        "engines": skill.effective_engines(),
        "execution_modes": skill.manifest.execution_modes,
        "warnings": skill.findings,
    })
}

pub(crate) fn whole(skill: &Skill) -> Value {
    let files = skill.file_fields().into_iter().map(|field| json!({"name": field.name, "required": field.required}));
    let files: Vec<Value> = files.collect();
    let mut answer = summary(skill);
    if let Some(answer) = answer.as_object_mut() {
        answer.extend([
            ("fingerprint".to_owned(), json!(skill.fingerprint)),
            ("entrypoint".to_owned(), json!(skill.manifest.entrypoint)),
            ("runtime".to_owned(), json!(skill.manifest.runtime)),
            ("unsupported_engines".to_owned(), json!(skill.manifest.unsupported_engines)),
            ("max_attempt".to_owned(), json!(skill.manifest.max_attempt)),
            ("timeout_seconds".to_owned(), json!(skill.timeout_seconds())),
            ("front_matter".to_owned(), json!(skill.front_matter)),
            ("file_inputs".to_owned(), json!(files)),
            ("artifacts".to_owned(), json!(skill.artifact_contract())),
            (
                "schemas".to_owned(),
                json!({
                    "input": skill.input_schema,
                    "parameter": skill.parameter_schema,
                    "output": skill.output_schema,
                }),
            ),
        ]);
    }
    answer
}
