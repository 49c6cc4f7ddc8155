//! The routes that the former pages took their data from: the answers of the management API, with a note that they end.

use axum::extract::{FromRequestParts, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderName, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use tracing::warn;

use crate::http::answer::problem::Problem;
use crate::http::feeds;
use crate::http::management::{self, files};
use crate::http::request::query::Query;
use crate::http::request::run_in_path::RunInPath;
use crate::http::server::grant::Granted;
use crate::http::server::origin::wants_page;
use crate::http::state::app::App;
use crate::http::ui::pages;
use crate::settings::LegacyMode;

/// When the management API took their place: 2026-02-16, as RFC 9745 writes it.
const DEPRECATED: &str = "@1771200000";
const DEPRECATION: HeaderName = HeaderName::from_static("deprecation");
const SUNSET: HeaderName = HeaderName::from_static("sunset");

/// That a route ends, and what to use in its place. The extraction refuses the request if it has ended.
pub(crate) struct Notice {
    successor: String,
    /// The headers that tell of it; none if nothing is told.
    sunset: Option<String>,
}

impl FromRequestParts<App> for Notice {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Problem> {
        let settings = &app.orchestrator().settings().legacy_ui_api;
        let successor = successor(parts.uri.path());
        let sunset = match settings.mode {
            LegacyMode::Gone => return Err(Problem::LegacyRoute { successor }),
            LegacyMode::Warn => {
                warn!(successor, "an old route of the user interface was used; it will end");
                Some(http_date(&settings.sunset))
            }
            LegacyMode::Allow => None,
        };
        Ok(Self { successor, sunset })
    }
}

impl Notice {
    /// The answer, with the headers that tell of the end.
    fn on(self, answer: impl IntoResponse) -> Response {
        let mut answer = answer.into_response();
        if let Some(sunset) = self.sunset {
            let link = format!("<{}>; rel=\"successor-version\"", self.successor);
            let told = [(DEPRECATION, DEPRECATED.to_owned()), (SUNSET, sunset), (header::LINK, link)];
            let told = told.map(|(name, value)| (name, HeaderValue::from_str(&value)));
            answer.headers_mut().extend(told.into_iter().filter_map(|(name, value)| Some((name, value.ok()?))));
        }
        answer
    }
}

/// The end of a day, as HTTP writes it.
fn http_date(day: &str) -> String {
    let day: Option<jiff::civil::Date> = day.parse().ok();
    day.map_or_else(String::new, |day| day.strftime("%a, %d %b %Y 23:59:59 GMT").to_string())
}

/// The route that has the same data.
fn successor(path: &str) -> String {
    let below = path.strip_prefix("/ui/").unwrap_or(path);
    if let Some(list) = below.strip_suffix("/table") {
        format!("/v1/management/{list}")
    } else if let Some(run) = below.strip_suffix("/view") {
        format!("/v1/management/{run}/file")
    } else {
        let run = below.trim_start_matches("runs/").trim_end_matches("/logs/tail");
        format!("/v1/jobs/{run}/logs")
    }
}

/// A skill may be named `table`: whoever opens this address in a browser wants its page.
pub(crate) async fn skills(app: State<App>, granted: Granted, request: Request) -> Result<Response, Problem> {
    if wants_page(request.headers()) {
        return pages::shell(app, granted, request).await;
    }
    let (mut parts, _) = request.into_parts();
    let notice = Notice::from_request_parts(&mut parts, &app).await?;
    Ok(notice.on(management::skills::all(app).await?))
}

pub(crate) async fn engines(notice: Notice, app: State<App>) -> Result<Response, Problem> {
    Ok(notice.on(management::engines::all(app).await?))
}

pub(crate) async fn runs(notice: Notice, app: State<App>, query: Query) -> Result<Response, Problem> {
    Ok(notice.on(management::runs::list(app, query).await?))
}

pub(crate) async fn file(notice: Notice, app: State<App>, run: RunInPath, query: Query) -> Result<Response, Problem> {
    Ok(notice.on(files::one(app, run, query).await?))
}

pub(crate) async fn logs(notice: Notice, app: State<App>, run: RunInPath, query: Query) -> Result<Response, Problem> {
    Ok(notice.on(feeds::logs::whole(app, run, query).await?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_old_route_has_a_successor() {
        for (old, new) in [
            ("/ui/skills/table", "/v1/management/skills"),
            ("/ui/engines/table", "/v1/management/engines"),
            ("/ui/runs/table", "/v1/management/runs"),
            ("/ui/runs/7f/view", "/v1/management/runs/7f/file"),
            ("/ui/runs/7f/logs/tail", "/v1/jobs/7f/logs"),
        ] {
            assert_eq!(successor(old), new);
        }
    }
}
