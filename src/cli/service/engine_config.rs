//! `config --engine`: what an engine is configured with before any skill or request, and who set each value.

use std::path::Path;

use serde_json::{Value, json};

use crate::cli::failure::Failure;
use crate::cli::terminal::output;
use crate::domain::engine::Engine;
use crate::engine::config::{Sourced, sources};
use crate::engine::{self, Adapter};
use crate::installed_engines::operator_config;
use crate::settings::Settings;

/// Parts of a key's last word that tell of a secret.
const SECRET_WORDS: [&str; 6] = ["key", "token", "secret", "password", "authorization", "credential"];

pub(super) fn show(settings: &Settings, name: &str, as_json: bool) -> Result<(), Failure> {
    let adapter = engine::adapter_named(name).ok_or_else(|| {
        let engines = Engine::names(Engine::AGENTS);
        Failure::Usage(format!("there is no agent CLI {name:?} to configure; it may be {engines}"))
    })?;
    let configs_dir = &settings.paths.configs_dir;
    let operator =
        operator_config::read(configs_dir, adapter).map_err(|invalid| Failure::Usage(invalid.to_string()))?;
    let home = settings.paths.agent_home.join(name).join(adapter.config.operator_file);
    let found = sources(&adapter.config, &operator);
    if as_json {
        return output::json(&as_document(adapter, configs_dir, &home, &found));
    }
    let width =
        |text: fn(&Sourced) -> String| found.iter().map(|it| text(it).chars().count()).max().unwrap_or_default();
    let (keys, values) = (width(|it| it.key.clone()), width(shown));
    for it in &found {
        let enforced = if it.enforced { ", enforced" } else { "" };
        output::line(&format!("{:<keys$}  {:<values$}  {}{enforced}", it.key, shown(it), it.source))?;
    }
    output::line("")?;
    output::line("From the lowest layer to the highest:")?;
    let [default, above] = operator_config::places(configs_dir, adapter).map(|path| tell(&path));
    output::line(&format!("  {} (read by {name} itself)", tell(&home)))?;
    output::line("  built in")?;
    output::line(&format!("  {default}"))?;
    output::line("  the skill, then the request: the keys that docs/engines lists")?;
    output::line(&format!("  {above}"))?;
    output::line("  built in, enforced")
}

fn as_document(adapter: &Adapter, configs_dir: &Path, home: &Path, found: &[Sourced]) -> Value {
    let file = |path: &Path| json!({"path": path, "exists": path.exists()});
    let [default, enforced] = operator_config::places(configs_dir, adapter);
    let values: Vec<Value> = found
        .iter()
        .map(|it| json!({"key": it.key, "value": value(it), "source": it.source, "enforced": it.enforced}))
        .collect();
    json!({
        "engine": adapter.name(),
        "files": {"home": file(home), "default": file(&default), "enforced": file(&enforced)},
        "values": values,
    })
}

fn tell(path: &Path) -> String {
    let there = if path.exists() { "" } else { ": does not exist" };
    format!("{}{there}", path.display())
}

/// A value, unless its key tells that it is a secret.
fn value(it: &Sourced) -> Value {
    let last = it.key.rsplit('.').next().unwrap_or_default().to_lowercase();
    let is_secret = it.value.is_string() && SECRET_WORDS.iter().any(|word| last.contains(word));
    // The name of a variable is none.
    if is_secret && last != "env_key" { "********".into() } else { it.value.clone() }
}

fn shown(it: &Sourced) -> String {
    match value(it) {
        Value::String(text) => text,
        other => other.to_string(),
    }
}
