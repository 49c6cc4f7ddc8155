//! An engine's own structured output: how its model hands over the result, and which schemas it takes.

use serde_json::Value;

use super::adapter::Adapter;
use crate::domain::request::ExecutionMode;

/// The structured output of an engine that has it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Structured {
    /// The tool by which the model hands over the result; without one, its last message is held to the schema.
    pub(crate) tool: Option<&'static str>,
    /// The schema as the engine takes it; none when it would refuse it.
    pub(crate) schema: fn(&Value) -> Option<Value>,
}

impl Adapter {
    /// The schema that the engine itself is given. A turn that may ask has none: the engine would have to answer in the
    /// schema and could not ask its question.
    pub(crate) fn native_schema(&self, mode: ExecutionMode, schema: &Value) -> Option<Value> {
        match mode {
            ExecutionMode::Auto => self.structured.and_then(|structured| (structured.schema)(schema)),
            ExecutionMode::Interactive => None,
        }
    }

    /// The tool by which the model hands over a result of this schema, where there is one.
    pub(crate) fn result_tool(&self, mode: ExecutionMode, schema: &Value) -> Option<&'static str> {
        self.native_schema(mode, schema).and(self.structured).and_then(|structured| structured.tool)
    }
}
