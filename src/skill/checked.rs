//! A skill whose package passed the lint.

use std::collections::BTreeMap;

use serde_json::Value;

use super::artifacts::{self, ArtifactRule};
use super::engines::effective_engines;
use super::finding::Finding;
use super::front_matter::FrontMatter;
use super::input_schema::{FileField, file_fields, rest_field};
use super::manifest::{self, EntrypointKind, Manifest};
use super::python::PythonNeeds;
use super::schema::Validator;
use crate::domain::codes::FindingCode;
use crate::domain::engine::Engine;
use crate::engine::tools::{self, AllowedTool, NotKept};
use crate::engine::{self, Adapter};

/// How long a script may run when its manifest does not say.
const SCRIPT_TIMEOUT_SECONDS: u64 = 300;

/// A package that passed the lint: everything a run needs to know about it.
#[derive(Debug, Clone)]
pub struct Skill {
    /// The folder's name, the manifest's id and the front matter's name.
    pub id: String,
    pub version: semver::Version,
    /// The title for people: the manifest's `name`, else the id.
    pub(crate) name: String,
    /// What the skill does, from the front matter.
    pub(crate) description: String,
    /// `assets/runner.json`.
    pub manifest: Manifest,
    /// The head of `SKILL.md`.
    pub(crate) front_matter: FrontMatter,
    /// What a run takes.
    pub(crate) input_schema: Value,
    /// What can be set.
    pub(crate) parameter_schema: Value,
    /// What a result must be.
    pub(crate) output_schema: Value,
    /// The instructions: `SKILL.md` after its front matter.
    pub body: String,
    /// sha256, in hex, over the sorted paths and contents of the package.
    pub fingerprint: String,
    pub findings: Vec<Finding>,
    /// The Python packages that its commands need.
    pub(crate) python: PythonNeeds,
    pub(crate) checks: Checks,
}

/// The schemas, compiled once when the package is read.
#[derive(Debug, Clone)]
pub(crate) struct Checks {
    pub(crate) inline_input: Validator,
    pub(crate) parameter: Validator,
    pub(crate) output: Validator,
}

impl Skill {
    /// The file of the package with the configuration of an engine; it need not be there.
    pub(crate) fn config_file<'a>(&'a self, adapter: &'a Adapter) -> &'a str {
        self.manifest.engine_configs.get(&adapter.engine).map_or(adapter.config.skill_file, String::as_str)
    }

    /// The tools that a model may use; none if the skill names none, or runs on no agent CLI.
    pub(crate) fn allowed_tools(&self) -> Option<Vec<AllowedTool>> {
        tools::read(self.front_matter.allowed_tools.as_ref()).filter(|_| self.agents().next().is_some())
    }

    /// What of them is not enforced, each with the engines concerned.
    pub(crate) fn tools_not_enforced(&self) -> Vec<String> {
        let allowed = self.allowed_tools();
        let mut not_kept: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for adapter in self.agents() {
            for NotKept { asked, .. } in adapter.does_not_keep(allowed.as_deref()) {
                not_kept.entry(asked).or_default().push(adapter.name());
            }
        }
        not_kept.into_iter().map(|(asked, engines)| format!("{asked} (on {})", engines.join(", "))).collect()
    }

    /// What `automation` says that has no effect, whatever confines the run, and why.
    pub(crate) fn asked_in_vain(&self) -> Vec<(String, &str)> {
        // A list without an entry that is in force reaches nobody, as it says.
        let lists_hosts = !self.manifest.automation.allowlist.is_empty();
        let in_vain = self.findings.iter().filter(|finding| {
            let without_effect =
                finding.code == FindingCode::UnknownKey || finding.code == FindingCode::AllowlistUnused && lists_hosts;
            without_effect && finding.file == manifest::PATH && finding.pointer.starts_with("/automation/")
        });
        in_vain.map(|finding| (finding.pointer.replace('/', ".").split_off(1), finding.message.as_str())).collect()
    }

    fn agents(&self) -> impl Iterator<Item = &'static Adapter> {
        self.effective_engines().into_iter().filter_map(engine::adapter)
    }

    /// The engines this skill can run on, in the order in which they are tried.
    pub fn effective_engines(&self) -> Vec<Engine> {
        effective_engines(
            self.manifest.entrypoint.kind,
            self.manifest.entrypoint.has_prompt(),
            self.manifest.engines.as_deref(),
            &self.manifest.unsupported_engines,
        )
    }

    /// The artifacts a run has to produce: the manifest's, else those that the output schema names.
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
    pub(crate) fn file_fields(&self) -> Vec<FileField> {
        file_fields(&self.input_schema)
    }

    /// The input that takes every uploaded file that is no other input's.
    pub(crate) fn rest_field(&self) -> Option<FileField> {
        rest_field(&self.input_schema)
    }

    /// The output schema, compiled.
    pub fn output_validator(&self) -> &Validator {
        &self.checks.output
    }
}
