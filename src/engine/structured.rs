//! An engine's own structured output: how its model hands over the result, and which schemas it takes.

use serde_json::Value;

/// The structured output of an engine that has it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Structured {
    /// The tool by which the model hands over the result; without one, its last message is held to the schema.
    pub(crate) tool: Option<&'static str>,
    /// The schema as the engine takes it; none when it would refuse it.
    pub(crate) schema: fn(&Value) -> Option<Value>,
}
