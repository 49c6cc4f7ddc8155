//! Which files of a run's folder may be shown: one rule for previews, lists, bundles and exports.

use crate::domain::engine::Engine;
use crate::domain::run_file::{RunFile, RunFolder};
use crate::engine;

/// Files that are shown, besides those in [`FOLDERS`] and the run's copy of its skill.
const FILES: [RunFile; 13] = [
    RunFile::Skill,
    RunFile::Input,
    RunFile::Manifest,
    RunFile::Stdout,
    RunFile::Stderr,
    RunFile::Pty,
    RunFile::Prompt,
    RunFile::Events,
    RunFile::EventsIndex,
    RunFile::Bundle,
    RunFile::DebugBundle,
    RunFile::BundleManifest,
    RunFile::DebugBundleManifest,
];

/// Folders that are shown with all their files.
const FOLDERS: [RunFolder; 4] = [RunFolder::Uploads, RunFolder::Artifacts, RunFolder::Result, RunFolder::Raw];

/// Why a file of a run's folder is not shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Hidden {
    #[error("the configuration of an engine may hold secrets")]
    EngineConfig,
    #[error(
        "only the files that a run is known by are shown: input, uploads, skill, logs, raw output, result, artifacts"
    )]
    NoFileOfTheRun,
}

/// Whether the file at this path of a run's folder may be shown. Everything that is not named here is hidden: an engine, and
/// the programs it starts, may leave a secret in any file of their own.
pub(crate) fn check_shown(path: &str) -> Result<(), Hidden> {
    let in_folder = FOLDERS.iter().any(|folder| folder.strip(path).is_some());
    if in_folder || FILES.iter().any(|file| file.name() == path) {
        return Ok(());
    }
    match in_skill_copy(path) {
        Some(of_skill) if !is_engine_config(of_skill) => Ok(()),
        Some(_) => Err(Hidden::EngineConfig),
        None if path.starts_with('.') || path == RunFile::EngineConfig.name() => Err(Hidden::EngineConfig),
        None => Err(Hidden::NoFileOfTheRun),
    }
}

/// Whether a file of a skill's package may be shown.
pub(crate) fn check_shown_of_skill(path: &str) -> Result<(), Hidden> {
    if is_engine_config(path) { Err(Hidden::EngineConfig) } else { Ok(()) }
}

/// Whether a file below this folder may be shown, so that a list has to name the folder.
pub(crate) fn may_lead_to_shown(folder: &str) -> bool {
    let is_above = |path: &str| path.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'));
    RunFolder::ALL.iter().any(|shown| shown.name() == folder)
        || FOLDERS.iter().any(|shown| shown.strip(folder).is_some())
        || skills_folders().any(|skills| skills == folder || is_above(&skills) || below(&skills, folder).is_some())
}

/// Whether a file of a run's folder is in the run's copy of its skill.
pub(crate) fn is_in_skill_copy(path: &str) -> bool {
    in_skill_copy(path).is_some()
}

/// The path in the skill's package of a file in a run's copy of it.
fn in_skill_copy(path: &str) -> Option<&str> {
    let in_skills = skills_folders().find_map(|folder| below(&folder, path))?;
    in_skills.split_once('/').map(|(_skill, of_skill)| of_skill)
}

fn skills_folders() -> impl Iterator<Item = std::borrow::Cow<'static, str>> {
    Engine::ALL.iter().map(|engine| engine::skills_folder(engine.as_str()))
}

/// The file of a package in which its author may configure an engine.
fn is_engine_config(of_skill: &str) -> bool {
    engine::adapters().any(|adapter| adapter.config.skill_file == of_skill)
}

fn below<'a>(folder: &str, path: &'a str) -> Option<&'a str> {
    path.strip_prefix(folder)?.strip_prefix('/')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_run_is_known_by_is_shown() {
        for path in [
            "skill.json",
            "input.json",
            "manifest.json",
            "uploads/paper",
            "uploads/.hidden",
            "artifacts/a/b.md",
            "result/result.json",
            "raw/engine_output.txt",
            "logs/stdout.txt",
            "logs/events.jsonl",
            "bundle/run_bundle.zip",
            ".codex/skills/pdf/SKILL.md",
            ".script/skills/pdf/scripts/run.py",
        ] {
            assert_eq!(check_shown(path), Ok(()), "{path}");
        }
    }

    #[test]
    fn folders_of_engines_and_files_of_no_kind_are_hidden() {
        for (path, reason) in [
            (".claude/settings.json", Hidden::EngineConfig),
            (".claude/settings.local.json", Hidden::EngineConfig),
            (".codex/config.toml", Hidden::EngineConfig),
            (".codex/skills/config.toml", Hidden::EngineConfig),
            (".codex/skills/pdf/assets/codex_config.toml", Hidden::EngineConfig),
            (".gemini/tmp/deep/session.json", Hidden::EngineConfig),
            (".env", Hidden::EngineConfig),
            (".mcp.json", Hidden::EngineConfig),
            (".aside-1-raw", Hidden::EngineConfig),
            ("logs/engine_config.json", Hidden::EngineConfig),
            ("opencode.json", Hidden::NoFileOfTheRun),
            ("logs/other.txt", Hidden::NoFileOfTheRun),
            ("bundle/old.zip", Hidden::NoFileOfTheRun),
            ("artifacts", Hidden::NoFileOfTheRun),
            ("artifactsx/a", Hidden::NoFileOfTheRun),
            ("notes.md", Hidden::NoFileOfTheRun),
            ("", Hidden::NoFileOfTheRun),
        ] {
            assert_eq!(check_shown(path), Err(reason), "{path}");
        }
    }

    #[test]
    fn every_file_an_engine_is_configured_by_is_hidden() {
        for adapter in engine::adapters() {
            let folder = format!(".{}", adapter.name());
            assert_eq!(check_shown(&format!("{folder}/settings.json")), Err(Hidden::EngineConfig));
            let of_skill = format!("{}/s/{}", adapter.skills_folder, adapter.config.skill_file);
            assert_eq!(check_shown(&of_skill), Err(Hidden::EngineConfig));
        }
    }

    #[test]
    fn a_list_names_the_folders_on_the_way_to_what_is_shown() {
        for folder in
            ["artifacts", "artifacts/deep", "logs", "bundle", ".codex", ".codex/skills", ".codex/skills/pdf/a"]
        {
            assert!(may_lead_to_shown(folder), "{folder}");
        }
        for folder in [".codex/sessions", ".cod", ".git", "logs/deep", "work", ".codex/skillsx", ""] {
            assert!(!may_lead_to_shown(folder), "{folder}");
        }
    }
}
