//! The files and folders with a fixed name in a run's folder.

use super::fact::Stream;

/// A file with a fixed name in a run's folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunFile {
    /// The skill as it was when the run began.
    Skill,
    /// Inline inputs, parameters and options.
    Input,
    /// The list of the run's artifacts.
    Manifest,
    /// The final result; before the end of the run perhaps the data that the skill wrote.
    Result,
    /// The steps of validation.
    Validation,
    /// The engine's output as text.
    EngineOutput,
    /// The engine's output, where it is one JSON document.
    EngineOutputJson,
    /// [`RunFile::Result`] as the skill wrote it.
    SkillResult,
    /// [`RunFile::Result`] as the skill's normalizer wrote it.
    NormalizerResult,
    /// [`RunFile::Result`] as the skill's fallback wrote it.
    FallbackResult,
    /// [`RunFile::Result`] as the engine wrote it when it was asked to repair its output.
    RepairResult,
    /// The output of the script that follows an engine.
    ScriptOutput,
    /// The same, where it is one JSON document.
    ScriptOutputJson,
    /// The engine's answer to a request to repair its output.
    RepairOutput,
    /// The output schema, for programs that are given its path.
    OutputSchema,
    /// Every byte of the engine's standard output.
    Stdout,
    /// Every byte of the engine's standard error.
    Stderr,
    /// Every byte of the engine's terminal.
    Pty,
    Prompt,
    /// The engine's configuration, without secrets.
    EngineConfig,
    /// The event log of a finished run.
    Events,
    /// Where each event begins in [`RunFile::Events`].
    EventsIndex,
    /// The zip of result and artifacts.
    Bundle,
    /// The zip of the whole folder.
    DebugBundle,
    /// The list of the files in [`RunFile::Bundle`].
    BundleManifest,
    /// The list of the files in [`RunFile::DebugBundle`].
    DebugBundleManifest,
}

impl RunFile {
    pub(crate) const ALL: [Self; 26] = [
        Self::Skill,
        Self::Input,
        Self::Manifest,
        Self::Result,
        Self::Validation,
        Self::EngineOutput,
        Self::EngineOutputJson,
        Self::SkillResult,
        Self::NormalizerResult,
        Self::FallbackResult,
        Self::RepairResult,
        Self::ScriptOutput,
        Self::ScriptOutputJson,
        Self::RepairOutput,
        Self::OutputSchema,
        Self::Stdout,
        Self::Stderr,
        Self::Pty,
        Self::Prompt,
        Self::EngineConfig,
        Self::Events,
        Self::EventsIndex,
        Self::Bundle,
        Self::DebugBundle,
        Self::BundleManifest,
        Self::DebugBundleManifest,
    ];

    /// The file that keeps a stream's bytes.
    pub(crate) fn of_stream(stream: Stream) -> Self {
        match stream {
            Stream::Stdout => Self::Stdout,
            Stream::Stderr => Self::Stderr,
            Stream::Pty => Self::Pty,
        }
    }

    /// The bundle that clients of a run get.
    pub fn bundle(debug: bool) -> Self {
        if debug { Self::DebugBundle } else { Self::Bundle }
    }

    /// The list of the files in [`RunFile::bundle`].
    pub(crate) fn bundle_manifest(debug: bool) -> Self {
        if debug { Self::DebugBundleManifest } else { Self::BundleManifest }
    }

    /// Its path in the run's folder.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Skill => "skill.json",
            Self::Input => "input.json",
            Self::Manifest => "manifest.json",
            Self::Result => "result/result.json",
            Self::Validation => "result/validation.json",
            Self::EngineOutput => "raw/engine_output.txt",
            Self::EngineOutputJson => "raw/engine_output.json",
            Self::SkillResult => "raw/skill_result.json",
            Self::NormalizerResult => "raw/skill_result.N1.json",
            Self::FallbackResult => "raw/skill_result.N2.json",
            Self::RepairResult => "raw/skill_result.N3.json",
            Self::ScriptOutput => "raw/script_output.txt",
            Self::ScriptOutputJson => "raw/script_output.json",
            Self::RepairOutput => "raw/repair_output.txt",
            Self::OutputSchema => "raw/output.schema.json",
            Self::Stdout => "logs/stdout.txt",
            Self::Stderr => "logs/stderr.txt",
            Self::Pty => "logs/pty.txt",
            Self::Prompt => "logs/prompt.txt",
            Self::EngineConfig => "logs/engine_config.json",
            Self::Events => "logs/events.jsonl",
            Self::EventsIndex => "logs/events.idx",
            Self::Bundle => "bundle/run_bundle.zip",
            Self::DebugBundle => "bundle/run_bundle_debug.zip",
            Self::BundleManifest => "bundle/manifest.json",
            Self::DebugBundleManifest => "bundle/manifest_debug.json",
        }
    }
}

/// A folder with a fixed name in a run's folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunFolder {
    /// Uploaded files, one per file field of the skill.
    Uploads,
    /// The files that the skill produced.
    Artifacts,
    /// The result and how it was validated.
    Result,
    Raw,
    Logs,
    Bundles,
}

impl RunFolder {
    pub const ALL: [Self; 6] = [Self::Uploads, Self::Artifacts, Self::Result, Self::Raw, Self::Logs, Self::Bundles];

    /// Its path in the run's folder.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Uploads => "uploads",
            Self::Artifacts => "artifacts",
            Self::Result => "result",
            Self::Raw => "raw",
            Self::Logs => "logs",
            Self::Bundles => "bundle",
        }
    }

    /// What follows the folder's name in a path of the run's folder; none for a path that is not below this folder.
    pub(crate) fn strip(self, path: &str) -> Option<&str> {
        path.strip_prefix(self.name())?.strip_prefix('/')
    }

    /// The path in the run's folder of a file below this folder.
    pub(crate) fn join(self, path: &str) -> String {
        format!("{}/{path}", self.name())
    }
}
