//! What the service and the renderer tell each other.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The name under which this program renders a template.
pub(super) const NAME: &str = "skill-runner-renderer";

/// The first byte of an answer; the prompt or the reason follows.
pub(super) const RENDERED: u8 = b'+';
pub(super) const FAILED: u8 = b'-';

#[derive(Serialize, Deserialize)]
pub(super) struct Request<'a> {
    pub(super) template: Cow<'a, str>,
    pub(super) values: Cow<'a, Value>,
}
