//! The files of a skill, what differs between two of its versions, and what an installation of a package would change.

use axum::Json;
use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use crate::http::answer::problem::Problem;
use crate::http::management::preview::previewed;
use crate::http::request::multipart::receive_zip;
use crate::http::request::path_params::path_params;
use crate::http::request::query::Query;
use crate::http::skills::installed;
use crate::http::state::app::App;
use crate::http::state::task::blocking;
use crate::orchestrator::Error;
use crate::projection::check_shown_of_skill;
use crate::registry::{Installed, compare};

/// A file of the package in place, or of another version.
pub(crate) async fn file(State(app): State<App>, mut parts: Parts, mut query: Query) -> Result<Json<Value>, Problem> {
    let path = query.text("path").ok_or_else(|| Problem::invalid("path", "is required"))?;
    let version = query.text("version");
    query.finish()?;
    let id = path_params(&mut parts).await?.remove("id").unwrap_or_default();
    bring(&app, &id, version.is_some()).await?;
    blocking(move || {
        let package = package(&app, &id, version.as_deref())?;
        check_shown_of_skill(&path).map_err(|reason| Problem::RunFileHidden { path: path.clone(), reason })?;
        let refused = |source| Problem::RunFile { path: path.clone(), source };
        let (size, preview) = package.preview(&path).map_err(refused)?;
        let mut shown = previewed(size, &preview);
        shown["skill_id"] = json!(id);
        shown["version"] = json!(package.skill.version.to_string());
        shown["path"] = json!(path);
        Ok::<_, Problem>(Json(shown))
    })
    .await
}

/// The files that differ between two versions; the later one is the one in place if none is named.
pub(crate) async fn changes(State(app): State<App>, mut parts: Parts, mut query: Query) -> Result<Response, Problem> {
    let from = query.text("from").ok_or_else(|| Problem::invalid("from", "is required"))?;
    let to = query.text("to");
    query.finish()?;
    let id = path_params(&mut parts).await?.remove("id").unwrap_or_default();
    bring(&app, &id, true).await?;
    let comparing = app.clone();
    let told = blocking(move || {
        let look = || {
            let before = package(&comparing, &id, Some(&from))?;
            Ok([Some(before), Some(package(&comparing, &id, to.as_deref())?)])
        };
        let failed = |error| Problem::from(Error::io("compare the packages")(std::io::Error::other(error)));
        let (packages, changes) = compare(look, failed)?;
        let [before, after] = packages.map(|package| package.as_deref().map(named));
        let told = json!({"skill_id": id, "from": before, "to": after, "changes": changes});
        // Written here: it may be long.
        Ok::<_, Problem>(Json(told).into_response())
    });
    let told = told.await?;
    app.room().make(async { Ok(told) }).await
}

/// What an installation of the package would do. Nothing is installed.
pub(crate) async fn check(State(app): State<App>, query: Query, request: Request) -> Result<Response, Problem> {
    query.finish()?;
    let zip = receive_zip(&app, request).await?;
    let checked = app.orchestrator().check_package(zip.path().to_path_buf()).await;
    zip.remove().await;
    let checked = checked?;
    let told = move || {
        let mut answer = json!(checked.told);
        answer["skill"] = checked.package.as_ref().map_or(Value::Null, |package| {
            // As much as a form needs that runs it without an installation.
            let mut skill = installed::whole(&package.skill);
            skill["effective_engines"] = json!(package.skill.effective_engines());
            skill["automation"] = json!(package.skill.manifest.automation);
            skill["models"] = json!(package.skill.manifest.models);
            skill
        });
        answer["replaces"] = checked.replaces.as_deref().map_or(Value::Null, |replaced| {
            let mut skill = named(replaced);
            skill["automation"] = json!(replaced.skill.manifest.automation);
            skill
        });
        answer["refused"] = json!(checked.refused);
        // Written here: it may be long.
        Ok::<_, Problem>(Json(answer).into_response())
    };
    let answer = blocking(told).await?;
    app.room().make(async { Ok(answer) }).await
}

fn named(package: &Installed) -> Value {
    json!({"version": package.skill.version.to_string(), "fingerprint": package.skill.fingerprint})
}

/// Has the skills, and this one's archived versions if they are asked for, brought up to date.
async fn bring(app: &App, id: &str, archived: bool) -> Result<(), Problem> {
    let orchestrator = app.orchestrator();
    if archived {
        orchestrator.skills_with_archive(id).await?
    } else {
        orchestrator.skills_now().await?
    };
    Ok(())
}

fn package(app: &App, id: &str, version: Option<&str>) -> Result<std::sync::Arc<Installed>, Problem> {
    let orchestrator = app.orchestrator();
    let found = orchestrator.registry().package(id, version).map_err(Error::from)?;
    found.ok_or_else(|| match version {
        Some(version) if orchestrator.registry().knows(id) => Problem::SkillVersionNotFound {
            id: id.chars().take(64).collect(),
            version: version.chars().take(64).collect(),
        },
        Some(_) | None => orchestrator.no_such_skill(id).into(),
    })
}
