//! The operator's files for an engine's configuration: `<configs_dir>/<engine>/default.*` and `enforced.*`.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::domain::engine::Engine;
use crate::engine::{Adapter, adapters, config};
use crate::files;

/// Longest file that is read.
const LENGTH_MAX: usize = 1024 * 1024;

/// The names of the two files, without their ending.
const NAMES: [&str; 2] = ["default", "enforced"];

/// Where an engine's two files are looked for.
pub(crate) fn places(configs_dir: &Path, adapter: &Adapter) -> [PathBuf; 2] {
    let folder = configs_dir.join(adapter.name());
    NAMES.map(|name| folder.join(format!("{name}.{}", adapter.config.format.extension())))
}

/// What the operator wrote for an engine; nothing where there are no such files.
pub(crate) fn read(configs_dir: &Path, adapter: &Adapter) -> Result<config::Operator, config::Invalid> {
    let [default, enforced] = places(configs_dir, adapter);
    if let Some(other) = misnamed(&configs_dir.join(adapter.name()), adapter) {
        let extension = adapter.config.format.extension();
        let reason = format!("{} is configured by default.{extension} and enforced.{extension}", adapter.name());
        return Err(config::Invalid::Unusable { layer: shown(&other), reason });
    }
    Ok(config::Operator { default: layer(adapter, &default)?, enforced: layer(adapter, &enforced)? })
}

/// What is wrong with the files of all engines, in sentences.
pub(crate) fn problems(configs_dir: &Path) -> Vec<String> {
    let mut found: Vec<String> =
        adapters().filter_map(|adapter| read(configs_dir, adapter).err()).map(|invalid| invalid.to_string()).collect();
    let known = |name: &str| name.parse().is_ok_and(|engine: Engine| Engine::AGENTS.contains(&engine));
    let names = fs::read_dir(configs_dir).into_iter().flatten().flatten().filter(|entry| entry.path().is_dir());
    for name in names.map(|entry| entry.file_name().to_string_lossy().into_owned()) {
        if !known(&name) && !name.starts_with('.') {
            let engines = Engine::names(Engine::AGENTS);
            found.push(format!(
                "{}: there is no engine of that name; it may be {engines}",
                shown(&configs_dir.join(name))
            ));
        }
    }
    found
}

fn layer(adapter: &Adapter, path: &Path) -> Result<Option<config::OperatorLayer>, config::Invalid> {
    let invalid = |reason: String| config::Invalid::Unusable { layer: shown(path), reason };
    let bytes = match files::read_followed(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => return Err(invalid("it is no file".into())),
        Err(error) => return Err(invalid(format!("it cannot be read: {error}"))),
    };
    if bytes.len() > LENGTH_MAX {
        return Err(invalid(format!("it is longer than {LENGTH_MAX} bytes")));
    }
    let text = String::from_utf8(bytes).map_err(|_| invalid("it is not UTF-8".into()))?;
    config::OperatorLayer::read(&adapter.config, shown(path), &text).map(Some)
}

/// A file that has the name but not the format.
fn misnamed(folder: &Path, adapter: &Adapter) -> Option<PathBuf> {
    let paths = fs::read_dir(folder).ok()?.flatten().map(|entry| entry.path());
    let is_misnamed = |path: &PathBuf| {
        let stem = path.file_stem().and_then(|stem| stem.to_str());
        let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
        // An editor's copy of a file is no file of its own.
        let other = ["toml", "json", "yaml", "yml", ""].contains(&extension);
        stem.is_some_and(|stem| NAMES.contains(&stem)) && other && extension != adapter.config.format.extension()
    };
    paths.filter(is_misnamed).min()
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::adapter_named;

    #[test]
    fn files_that_cannot_be_used_are_named_with_the_reason_and_none_is_no_problem() {
        let folder = tempfile::tempdir().unwrap();
        let configs = folder.path();
        let (codex, qwen) = (adapter_named("codex").unwrap(), adapter_named("qwen").unwrap());
        assert_eq!(read(configs, codex), Ok(config::Operator::default()));
        assert_eq!(problems(configs), Vec::<String>::new());
        for name in ["codex", "qwen", "gemini", "codx"] {
            fs::create_dir_all(configs.join(name)).unwrap();
        }
        fs::write(configs.join("codex/default.toml"), "model = \"m\"").unwrap();
        fs::write(configs.join("codex/notes.md"), "words").unwrap();
        assert_eq!(read(configs, codex).unwrap().default.unwrap().file, shown(&configs.join("codex/default.toml")));
        fs::write(configs.join("codex/enforced.json"), "{}").unwrap();
        fs::write(configs.join("qwen/default.json"), "{").unwrap();
        fs::create_dir(configs.join("gemini/enforced.json")).unwrap();
        let told = problems(configs);
        let expected = [
            ("codex/enforced.json", "codex is configured by default.toml and enforced.toml"),
            ("gemini/enforced.json", "it is no file"),
            ("qwen/default.json", "it is not JSON: EOF"),
            ("codx", "there is no engine of that name"),
        ];
        assert_eq!(told.len(), expected.len(), "{told:#?}");
        for (told, (file, reason)) in told.iter().zip(expected) {
            assert!(told.contains(&shown(&configs.join(file))) && told.contains(reason), "{told}");
        }
        assert!(read(configs, qwen).is_err());
    }
}
