//! What is known about an engine when it is about to start.

use serde_json::{Map, Value};

use crate::domain::isolation::InForce;
use crate::domain::outcome::Warning;
use crate::domain::request::{Caller, Passed};
use crate::orchestrator::turn::process::Stage;

pub(crate) struct Inputs {
    pub input: Map<String, Value>,
    pub parameter: Map<String, Value>,
    /// Who the run is for.
    pub caller: Caller,
}

/// What a kind of engine adds to the common preparations.
pub(crate) struct Start {
    pub stage: Stage,
    /// Program and arguments as they may be shown.
    pub shown_argv: Vec<String>,
    pub engine_version: String,
    pub parser_version: &'static str,
    pub isolation: InForce,
    /// What the engine is told besides its prompt.
    pub passed: Passed,
    /// What a user of this engine has to be told.
    pub warnings: Vec<Warning>,
}
