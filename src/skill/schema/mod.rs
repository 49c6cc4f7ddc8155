//! JSON Schema: draft 2020-12 unless the schema names another; references to remote schemas are refused.

mod build;
mod graph;
mod meter;
mod number;
mod pattern;
mod unique;

use std::fmt::{self, Write};
use std::sync::Arc;

use jsonschema::{PatternOptions, ValidationOptions};
use serde_json::Value;

use self::graph::Graph;
use self::meter::{Exceeded, TOLD_MAX};
use self::unique::UniqueItems;
use crate::bounded::json;

/// No list of violations is longer than this.
pub(crate) const MAX_VIOLATIONS: usize = 50;

/// Longest message and longest path, in characters: one that quotes a huge value would hide the others.
const MAX_MESSAGE_CHARS: usize = 400;

/// Most steps to check a value: a second or two of processor time at the worst.
const STEPS_MAX: u64 = 5_000_000;

/// A value that takes more steps is told only whether it is valid: the library collects all violations, each in memory.
const STEPS_TOLD_MAX: u64 = 1_000_000;

/// A value that takes no more steps than this is checked in less than a millisecond or two.
const STEPS_FEW: u64 = 10_000;

/// Violations that take no more bytes than this are collected as soon.
const TOLD_FEW: u64 = 4 * 1024 * 1024;

/// Most steps back of one match of a pattern.
const BACKTRACKS_MAX: usize = 100_000;

/// Largest compiled pattern, in bytes.
const PATTERN_MAX: usize = 4 * 1024 * 1024;

/// What a pattern may keep of its matches for the next, in bytes. Each thread that matches at the same time keeps its own.
const PATTERN_KEEPS_MAX: usize = 64 * 1024;

/// Most states of all patterns of a schema in which one is matched by backtracking: what those keep has no limit of ours.
const BACKTRACKING_STATES_MAX: u64 = 5_000;

pub(crate) use crate::domain::event::ValidationError as Violation;

/// A value that is no usable JSON Schema.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a usable JSON Schema: at {path:?}: {message}")]
pub(crate) struct NotASchema {
    /// The place in the schema, as a JSON pointer.
    pub(crate) path: String,
    /// What is wrong there.
    pub(crate) message: String,
}

/// A value whose check would take too long, or lead too deep.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TooCostly {
    #[error("checking it against the schema takes more than {STEPS_MAX} steps")]
    Steps,
    #[error("checking it against the schema leads too deep")]
    Depth,
}

impl From<TooCostly> for Violation {
    fn from(costly: TooCostly) -> Self {
        Self { path: String::new(), message: costly.to_string() }
    }
}

/// A compiled schema; cheap to clone.
#[derive(Debug, Clone)]
pub struct Validator(Arc<Compiled>);

#[derive(Debug)]
struct Compiled {
    graph: Graph,
    validator: jsonschema::Validator,
}

impl Validator {
    /// Compiles a schema. `format` is asserted only where the schema's draft says so.
    pub(crate) fn new(schema: &Value) -> Result<Self, NotASchema> {
        let graph =
            build::graph(schema).map_err(|message| NotASchema { path: String::new(), message: shortened(&message) })?;
        let linear = PatternOptions::regex().size_limit(PATTERN_MAX).dfa_size_limit(PATTERN_KEEPS_MAX);
        if !graph.backtracks
            && let Ok(validator) = options().with_pattern_options(linear).build(schema)
        {
            return Ok(Self(Arc::new(Compiled { graph, validator })));
        }
        let backtracking = PatternOptions::fancy_regex().backtrack_limit(BACKTRACKS_MAX).size_limit(PATTERN_MAX);
        let validator = options().with_pattern_options(backtracking).build(schema);
        let validator = validator
            .map_err(|error| NotASchema { path: error.instance_path().as_str().into(), message: shortened(&error) })?;
        if graph.states > BACKTRACKING_STATES_MAX {
            let message = "its patterns are too many or too large for a schema with lookaround or back references";
            return Err(NotASchema { path: String::new(), message: message.into() });
        }
        Ok(Self(Arc::new(Compiled { graph, validator })))
    }

    /// Most steps to check several values of which one is looked for.
    pub(crate) const ALL_STEPS_MAX: u64 = 2 * STEPS_MAX;

    /// The places where the value breaks the schema, at most `MAX_VIOLATIONS`.
    pub fn errors(&self, value: &Value) -> Result<Vec<Violation>, TooCostly> {
        self.errors_within(value, &mut STEPS_MAX.clone())
    }

    /// The same, for one of several values that have so many steps together.
    pub(crate) fn errors_within(&self, value: &Value, left: &mut u64) -> Result<Vec<Violation>, TooCostly> {
        let cost = meter::measure(&self.0.graph, value, STEPS_MAX.min(*left)).map_err(|exceeded| match exceeded {
            Exceeded::Steps => TooCostly::Steps,
            Exceeded::Depth => TooCostly::Depth,
        })?;
        *left -= cost.steps;
        let validator = &self.0.validator;
        if cost.steps > STEPS_TOLD_MAX || cost.told >= TOLD_MAX {
            let message = "it breaks the schema; a value so large is not searched for the places".into();
            let told = Violation { path: String::new(), message };
            return Ok(if validator.is_valid(value) { Vec::new() } else { vec![told] });
        }
        let errors = validator.iter_errors(value).take(MAX_VIOLATIONS);
        Ok(errors
            .map(|error| Violation { path: shortened(error.instance_path()), message: shortened(&error) })
            .collect())
    }

    /// Whether a value is checked so soon that nobody is held up.
    pub(crate) fn is_quick(&self, value: &Value) -> bool {
        meter::measure(&self.0.graph, value, STEPS_FEW).is_ok_and(|cost| cost.told <= TOLD_FEW)
    }
}

/// How schemas of others are compiled: nothing is fetched, and what the library does without a bound is done here.
fn options() -> ValidationOptions<'static> {
    jsonschema::options()
        .offline()
        .with_content_media_type("application/json", |text| json::from_str::<Value>(text).is_ok())
        .with_keyword("uniqueItems", |_, asked, _| Ok(Box::new(UniqueItems::new(asked))))
}

/// The beginning of a message. Whatever it quotes, no more of it is made than is kept.
fn shortened(message: &impl fmt::Display) -> String {
    let mut beginning = Beginning { text: String::new(), left: MAX_MESSAGE_CHARS };
    // It fails when there is no room left.
    if write!(beginning, "{message}").is_err() {
        beginning.text.push('…');
    }
    beginning.text
}

struct Beginning {
    text: String,
    left: usize,
}

impl Write for Beginning {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        for character in part.chars() {
            self.left = self.left.checked_sub(1).ok_or(fmt::Error)?;
            self.text.push(character);
        }
        Ok(())
    }
}

#[cfg(test)]
mod cost_tests;
#[cfg(test)]
mod tests;
