//! The kinds of bodies that requests and answers have, and how schemas are referred to.

use serde_json::{Value, json};

/// The body that a route takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Takes {
    Nothing,
    /// JSON of this schema.
    Json(&'static str),
    /// The same, or no body at all.
    JsonOrNothing(&'static str),
    /// A multipart form of this schema.
    Form(&'static str),
}

/// The body of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Content {
    Nothing,
    /// JSON of this schema.
    Json(&'static str),
    /// JSON of this schema, or the events one per line.
    JsonOrLines(&'static str),
    /// JSON of this schema, or a page of the user interface.
    JsonOrPage(&'static str),
    Events,
    /// Bytes of this media type.
    File(&'static str),
    Page,
}

/// A reference to a schema of the components.
pub(super) fn reference(schema: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{schema}")})
}
