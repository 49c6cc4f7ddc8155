//! `skill versions`, `skill rollback` and `skill uninstall`: the versions of a skill, and which one is in place.

use std::io;

use serde_json::json;

use crate::cli::connect::data_folder;
use crate::cli::failure::Failure;
use crate::cli::terminal::look::{Ink, Look};
use crate::cli::terminal::{output, table};
use crate::domain::codes::ErrorCode;
use crate::domain::similar::most_like;
use crate::orchestrator::{Change, change_here};
use crate::registry::{Done, KeptVersion, Registry, builtin, name_of, short};
use crate::settings::Settings;
use crate::workspace::Layout;

pub(crate) fn versions(settings: &Settings, name: &str, as_json: bool) -> Result<(), Failure> {
    let registry = registry(settings);
    let versions = registry.versions(name).map_err(Failure::broken("read the archive"))?;
    if versions.is_empty() {
        return told(Err(unknown(&registry, settings, name)), as_json);
    }
    if as_json {
        return output::json(&json!({"skill_id": name, "versions": versions}));
    }
    let mut rows = vec![["VERSION", "STATE", "SINCE", "FINGERPRINT"].map(str::to_owned).to_vec()];
    rows.extend(versions.iter().map(row));
    output::line(&table::lines(&rows, table::columns()).join("\n"))
}

fn row(kept: &KeptVersion) -> Vec<String> {
    let state = match (kept.current, &kept.version) {
        (true, Some(_)) => "current",
        (false, Some(_)) => "archived",
        (true, None) => "current, broken",
        (false, None) => "archived, broken",
    };
    // To the second, without the letters between.
    let since: String = kept.since.to_string().chars().take(19).collect();
    vec![
        kept.version.clone().unwrap_or_else(|| "?".into()),
        state.into(),
        format!("{} UTC", since.replace('T', " ")),
        kept.fingerprint.as_deref().map(short).unwrap_or_default(),
    ]
}

pub(crate) fn rollback(settings: &Settings, name: &str, version: &str, as_json: bool) -> Result<(), Failure> {
    let before = registry(settings).lookup(name).ok();
    let done = told(change(settings, name, &Change::Rollback { to: version.to_owned() }), as_json)?;
    if as_json {
        return output::json(
            &json!({"ok": true, "skill_id": done.skill_id, "version": done.version, "action": done.action}),
        );
    }
    let archived = before.map(|before| format!("; {} is in the archive", before.skill.version)).unwrap_or_default();
    let message = format!("{name} {} is in place again{archived}", done.version.unwrap_or_default());
    output::line(&Look::of(&io::stdout()).paint(Ink::Good, &message))
}

pub(crate) fn uninstall(settings: &Settings, name: &str, as_json: bool) -> Result<(), Failure> {
    let before = registry(settings).lookup(name).ok();
    let done = told(change(settings, name, &Change::Uninstall), as_json)?;
    if as_json {
        return output::json(
            &json!({"ok": true, "skill_id": done.skill_id, "version": done.version, "action": done.action}),
        );
    }
    let message = match (&done.version, before) {
        (Some(version), Some(before)) => format!(
            "{name} {version} is uninstalled; to bring it back:\n  skill-runner skill rollback {name} {}",
            name_of(&before.skill)
        ),
        _ => format!("{name} is uninstalled; it was broken, and its folder is now in .invalid"),
    };
    output::line(&Look::of(&io::stdout()).paint(Ink::Good, &message))
}

/// Refuses to change one machine's skills where several services share theirs.
pub(crate) fn not_shared(settings: &Settings) -> Result<(), Failure> {
    if !data_folder::is_shared(settings) {
        return Ok(());
    }
    let message = "several services share their skills, since store and blobs are set: change them through one of the services, \
         as docs/skills.md says under Install one";
    Err(Failure::Usage(message.to_owned()))
}

fn change(settings: &Settings, name: &str, change: &Change) -> Result<Done, Failure> {
    not_shared(settings)?;
    let layout = Layout::new(&settings.paths.data_dir);
    let registry = registry(settings);
    if !registry.knows(name) {
        return Err(unknown(&registry, settings, name));
    }
    Ok(change_here(&registry, &settings.paths.skills_dir, &layout, name, change)?)
}

pub(crate) fn registry(settings: &Settings) -> Registry {
    Registry::new(&settings.paths.skills_dir).with_agents(&settings.paths.agents_dir)
}

/// The failure of a skill that is not there.
pub(crate) fn unknown(registry: &Registry, settings: &Settings, name: &str) -> Failure {
    not_there(settings, name, registry.similar(name))
}

/// The same where a demo skill of the program would do.
pub(crate) fn unknown_everywhere(registry: &Registry, settings: &Settings, name: &str) -> Failure {
    let own = || most_like(name, builtin::ids().into_iter().map(str::to_owned));
    not_there(settings, name, registry.similar(name).or_else(own))
}

fn not_there(settings: &Settings, name: &str, meant: Option<String>) -> Failure {
    let meant = meant.map(|meant| format!("; did you mean {meant:?}?")).unwrap_or_default();
    let message = format!(
        "no skill {name:?} is installed in {}{meant}\n  see `skill-runner skill list`, or name another --skills-dir",
        settings.paths.skills_dir.display()
    );
    Failure::refused(ErrorCode::SkillNotFound, message)
}

/// With --json, a failure is printed as JSON, too.
pub(crate) fn told<T>(done: Result<T, Failure>, as_json: bool) -> Result<T, Failure> {
    if let Err(failure) = &done
        && let Some(document) = failure.to_json().filter(|_| as_json)
    {
        output::json(&document)?;
    }
    done
}
