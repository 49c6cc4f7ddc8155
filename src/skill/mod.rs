//! What a skill package is: manifest, package, lint, inputs and schemas, as pure values.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

pub mod agent;
pub mod artifacts;
pub mod command;
pub mod finding;
pub mod front_matter;
pub mod inputs;
pub mod lint;
pub mod manifest;
pub mod package;
pub mod schema;
mod schema_cost;
pub mod starter;

use serde_json::Value;

pub use artifacts::ArtifactRule;
pub use finding::{Finding, Severity};
pub use front_matter::FrontMatter;
pub use lint::{Intake, is_id, lint};
pub use manifest::Manifest;
pub use package::PackageFiles;

use inputs::FileField;
use manifest::EntrypointKind;
use schema::Validator;

/// The engines that run prompts, in the order in which they are tried.
pub const PROMPT_ENGINES: [&str; 6] = ["codex", "gemini", "opencode", "iflow", "claude", "qwen"];

/// The engine of script skills.
pub const SCRIPT_ENGINE: &str = "script";

/// How long a script may run when its manifest does not say.
pub const SCRIPT_TIMEOUT_SECONDS: u64 = 300;

/// A package that passed the lint: everything a run needs to know about it.
#[derive(Debug, Clone)]
pub struct Skill {
    /// The folder's name, the manifest's id and the front matter's name.
    pub id: String,
    /// The manifest's version.
    pub version: semver::Version,
    /// The title for people: the manifest's `name`, else the id.
    pub name: String,
    /// What the skill does, from the front matter.
    pub description: String,
    /// `assets/runner.json`.
    pub manifest: Manifest,
    /// The head of `SKILL.md`.
    pub front_matter: FrontMatter,
    /// What a run takes.
    pub input_schema: Value,
    /// What can be set.
    pub parameter_schema: Value,
    /// What a result must be.
    pub output_schema: Value,
    /// The instructions: `SKILL.md` after its front matter.
    pub body: String,
    /// sha256, in hex, over the sorted paths and contents of the package.
    pub fingerprint: String,
    /// The lint's warnings.
    pub findings: Vec<Finding>,
    checks: Checks,
}

/// The schemas, compiled once when the package is read.
#[derive(Debug, Clone)]
struct Checks {
    inline_input: Validator,
    parameter: Validator,
    output: Validator,
}

impl Skill {
    /// The engines this skill can run on, best first: `script` alone for scripts, never `script` for the others.
    pub fn effective_engines(&self) -> Vec<String> {
        effective_engines(
            self.manifest.entrypoint.kind,
            self.manifest.engines.as_deref(),
            &self.manifest.unsupported_engines,
        )
    }

    /// The artifacts a run has to leave: the manifest's, else those that the output schema names.
    pub fn artifact_contract(&self) -> Vec<ArtifactRule> {
        artifacts::contract(&self.manifest.artifacts, &self.output_schema)
    }

    /// The skill's own time limit; none means that the runner's applies.
    pub fn timeout_seconds(&self) -> Option<u64> {
        match (self.manifest.automation.timeout_sec, self.manifest.entrypoint.kind) {
            (Some(seconds), _) => Some(seconds),
            (None, EntrypointKind::Script) => Some(SCRIPT_TIMEOUT_SECONDS),
            (None, EntrypointKind::Prompt | EntrypointKind::Hybrid) => None,
        }
    }

    /// The inputs that are uploaded as files.
    pub fn file_fields(&self) -> Vec<FileField> {
        inputs::file_fields(&self.input_schema)
    }

    /// The output schema, compiled.
    pub fn output_validator(&self) -> &Validator {
        &self.checks.output
    }
}

fn effective_engines(kind: EntrypointKind, engines: Option<&[String]>, unsupported: &[String]) -> Vec<String> {
    let wanted: Vec<String> = match (kind, engines) {
        (EntrypointKind::Script, _) => vec![SCRIPT_ENGINE.into()],
        (EntrypointKind::Prompt | EntrypointKind::Hybrid, Some(named)) => {
            named.iter().filter(|engine| *engine != SCRIPT_ENGINE).cloned().collect()
        }
        (EntrypointKind::Prompt | EntrypointKind::Hybrid, None) => PROMPT_ENGINES.map(String::from).to_vec(),
    };
    wanted.into_iter().filter(|engine| !unsupported.contains(engine)).collect()
}
