//! The secrets an engine is known to have, so that they can be masked where it prints them.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use serde_json::Value;

use super::installed::InstalledEngines;
use crate::bounded;
use crate::engine::{Adapter, secret};
use crate::files;

/// Longest file that is searched.
const FILE_MAX: u64 = 1024 * 1024;
/// How deep a folder of settings is searched: extensions may be large, and their files are not the operator's.
const DEPTH: usize = 2;
/// Most secrets; what comes after them is not masked.
const SECRETS_MAX: usize = 200;

impl InstalledEngines {
    /// Keys among the variables that are passed to an engine, its logins, and keys in what the operator configured. Blocks.
    pub(crate) fn secrets(&self, adapter: &Adapter, passed: &[(String, String)]) -> Vec<String> {
        let is_secret = |name: &str| adapter.login.is_key(name) || secret::names_a_secret(name);
        let variables = passed.iter().filter(|(name, _)| is_secret(name));
        let mut found: BTreeSet<String> = variables.map(|(_, value)| value.clone()).collect();
        found.retain(|value| secret::can_be_a_secret(value));
        let home = self.home(adapter);
        for path in adapter.home.logins.iter().chain(adapter.home.settings) {
            found.extend(secrets_of(&home.join(path), DEPTH));
        }
        found.into_iter().take(SECRETS_MAX).collect()
    }
}

/// The secrets in a file of settings; in a folder, in those that lie in it.
fn secrets_of(path: &Path, depth: usize) -> Vec<String> {
    let Ok(found) = fs::metadata(path) else { return Vec::new() };
    if found.is_dir() {
        let Some(depth) = depth.checked_sub(1) else { return Vec::new() };
        let entries = fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path());
        return entries.filter(|entry| is_settings(entry)).flat_map(|entry| secrets_of(&entry, depth)).collect();
    }
    if !found.is_file() || found.len() > FILE_MAX {
        return Vec::new();
    }
    let Some(text) = files::read_followed(path).ok().and_then(|bytes| String::from_utf8(bytes).ok()) else {
        return Vec::new();
    };
    let json = || bounded::json::from_str::<Value>(&text).ok();
    let toml = || toml::from_str::<toml::Table>(&text).ok().and_then(|table| serde_json::to_value(table).ok());
    match json().or_else(toml) {
        Some(value) => secret::secrets_in(&value),
        None => secret::secrets_in_assignments(&text),
    }
}

fn is_settings(path: &Path) -> bool {
    let is_one = |end: &str| ["json", "jsonc", "toml", "env"].contains(&end);
    path.is_dir() || path.extension().and_then(|end| end.to_str()).is_some_and(is_one)
}
