//! One layer of an engine's configuration: whether it can be used, and how it lies over others.

use serde_json::Value;

use super::keys::{self, RefusedKey};
use super::kind::{Format, Kind};
use crate::domain::codes::ErrorCode;
use crate::domain::outcome::RunError;

/// Deepest nesting that is merged; nothing an engine reads is nested that far.
const DEPTH_MAX: usize = 32;

/// A layer that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Invalid {
    #[error("the configuration from {layer} cannot be used: {reason}")]
    Unusable { layer: String, reason: String },
    #[error("{layer} may not set these keys of the engine's configuration so: {}", keys::list(refused))]
    Refused { layer: &'static str, refused: Vec<RefusedKey> },
}

impl From<Invalid> for RunError {
    fn from(invalid: Invalid) -> Self {
        let message = invalid.to_string();
        match invalid {
            Invalid::Unusable { layer, .. } => {
                RunError::new(ErrorCode::EngineConfigInvalid, message).with("layer", layer)
            }
            Invalid::Refused { layer, refused } => {
                let named: Vec<String> = refused.iter().map(RefusedKey::shown).collect();
                RunError::new(ErrorCode::EngineConfigRefused, message).with("layer", layer).with("keys", named)
            }
        }
    }
}

/// Why a layer cannot be merged, whoever wrote it.
pub(super) fn check_form(layer: &Value, kind: &Kind) -> Result<(), &'static str> {
    if !layer.is_object() {
        return Err("it must be an object of keys and values");
    }
    if depth(layer) > DEPTH_MAX {
        return Err("it is nested too deeply");
    }
    if kind.format == Format::Toml && has_null(layer) {
        return Err("it holds a null, which TOML does not have; leave the key out");
    }
    Ok(())
}

fn depth(value: &Value) -> usize {
    match value {
        Value::Object(entries) => 1 + entries.values().map(depth).max().unwrap_or(0),
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
    }
}

fn has_null(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(entries) => entries.values().any(has_null),
        Value::Array(items) => items.iter().any(has_null),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

/// Objects are merged key by key; everything else is replaced.
pub(crate) fn lay_over(below: &mut Value, above: Value) {
    match (below, above) {
        (Value::Object(below), Value::Object(above)) => {
            for (key, value) in above {
                match below.get_mut(&key) {
                    Some(under) => lay_over(under, value),
                    None => {
                        below.insert(key, value);
                    }
                }
            }
        }
        (below, above) => *below = above,
    }
}
