//! `at_seq`: a run as it was after one of its events.

use crate::domain::ids::Seq;
use crate::http::answer::problem::Problem;
use crate::http::request::query::Query;
use crate::http::request::run_in_path::RunInPath;
use crate::http::state::app::App;
use crate::orchestrator::Past;

/// The run after the event that the query names; none if it names none, and the run as it is is meant.
pub(crate) async fn past(app: &App, asked: &RunInPath, mut query: Query) -> Result<Option<Past>, Problem> {
    let at_seq = query.whole("at_seq")?;
    query.finish()?;
    match at_seq {
        Some(seq) => Ok(Some(app.orchestrator().log().past(asked.run(), Seq(seq)).await?)),
        None => Ok(None),
    }
}
