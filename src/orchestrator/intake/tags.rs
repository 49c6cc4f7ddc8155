//! Labels, metadata, context and priority of a request: what a client finds a run by, what it keeps with it, who it is for, and how urgent it is.

use serde_json::Value;

use crate::domain::codes::ErrorCode;
use crate::domain::event::ValidationError;
use crate::domain::fair_queue::PRIORITIES;
use crate::orchestrator::error::Error;
use crate::orchestrator::intake::request::CreateRequest;

/// Most labels of a run, and most characters of their names and values. They are in the run's row, which is written with
/// every event.
const LABELS_MAX: usize = 16;
const LABEL_NAME_MAX: usize = 64;
const LABEL_VALUE_MAX: usize = 128;

/// Most bytes of a run's metadata, as JSON.
const METADATA_MAX: usize = 16 * 1024;

/// Most characters of a user's or an agent's id.
const ID_MAX: usize = 128;

/// Whether labels, metadata and context may be kept, and whether there is such a priority.
pub(super) fn check_tags(request: &CreateRequest) -> Result<(), Error> {
    let mut details = Vec::new();
    let mut wrong = |path: String, message: String| details.push(ValidationError { path, message });
    if request.labels.as_ref().is_some_and(|labels| labels.len() > LABELS_MAX) {
        wrong("/labels".into(), format!("must not have more than {LABELS_MAX} labels"));
    }
    // Of too many labels it is not told what is wrong with each: that would be many times what was sent.
    for (name, value) in request.labels.iter().filter(|labels| labels.len() <= LABELS_MAX).flatten() {
        let path = format!("/labels/{}", name.replace('~', "~0").replace('/', "~1"));
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | '/');
        if name.is_empty() || name.len() > LABEL_NAME_MAX || !name.chars().all(plain) {
            wrong(
                path.clone(),
                format!("the name of a label must be 1 to {LABEL_NAME_MAX} of a-z, A-Z, 0-9 and . _ - /"),
            );
        }
        if value.chars().count() > LABEL_VALUE_MAX || value.chars().any(char::is_control) {
            wrong(
                path,
                format!(
                    "the value of a label must have at most {LABEL_VALUE_MAX} characters and no control characters"
                ),
            );
        }
    }
    if let Some(metadata) = &request.metadata
        && Value::Object(metadata.clone()).to_string().len() > METADATA_MAX
    {
        wrong("/metadata".into(), format!("must not be longer than {METADATA_MAX} bytes of JSON"));
    }
    let context = request.context.as_ref();
    let ids = context.map(|context| [("user_id", &context.user_id), ("agent_id", &context.agent_id)]);
    for (name, id) in ids.into_iter().flatten() {
        let fits = |id: &String| (1..=ID_MAX).contains(&id.chars().count()) && !id.chars().any(char::is_control);
        if id.as_ref().is_some_and(|id| !fits(id)) {
            wrong(format!("/context/{name}"), format!("must have 1 to {ID_MAX} characters and no control characters"));
        }
    }
    if request.priority.is_some_and(|priority| !PRIORITIES.contains(&priority)) {
        let (least, most) = (PRIORITIES.start(), PRIORITIES.end());
        wrong("/priority".into(), format!("must be a whole number from {least} to {most}"));
    }
    match details.first() {
        None => Ok(()),
        Some(first) => {
            let message = format!("{}: {}", first.path.trim_start_matches('/'), first.message);
            Err(Error::Rejected { code: ErrorCode::InvalidRequest, message, details })
        }
    }
}
