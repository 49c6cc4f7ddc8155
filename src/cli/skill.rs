//! `skill`: what authors need.

use std::io;
use std::path::{Path, PathBuf};

use clap::Subcommand;
use serde_json::{Value, json};

use super::failure::Failure;
use super::global::Global;
use super::terminal::{Ink, Look, one_line};
use super::{logging, output};
use crate::registry::{self, Entry, Registry};
use crate::settings::LogLevel;
use crate::skill::{Finding, Intake, Severity};

/// Longest description in a list.
const DESCRIPTION_MAX: usize = 60;

/// Checks and lists skills
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  skill-runner skill list\n  skill-runner skill lint ./skills/demo-echo")]
pub(super) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Checks a skill's folder and says all that is wrong with it
    #[command(after_help = "Example:\n  skill-runner skill lint ./skills/demo-echo")]
    Lint {
        /// The skill's folder
        dir: PathBuf,
        /// One JSON document
        #[arg(long)]
        json: bool,
    },
    /// Lists the installed skills
    #[command(after_help = "Example:\n  skill-runner skill list --skills-dir ./skills")]
    List {
        /// One JSON document
        #[arg(long)]
        json: bool,
    },
}

/// Does what the subcommand says.
pub(super) fn skill(global: &Global, args: &Args) -> Result<(), Failure> {
    logging::to_terminal(LogLevel::Warn);
    match &args.command {
        Command::Lint { dir, json } => lint(dir, *json),
        Command::List { json } => list(&global.settings(&[])?.paths.skills_dir, *json),
    }
}

fn lint(dir: &Path, as_json: bool) -> Result<(), Failure> {
    let (skill, findings) = match registry::load_dir(dir, Intake::New) {
        Ok(installed) => {
            (Some(format!("{} {}", installed.skill.id, installed.skill.version)), installed.skill.findings)
        }
        Err(findings) => (None, findings),
    };
    if as_json {
        output::json(&json!({"ok": skill.is_some(), "findings": findings}))?;
    } else {
        let look = Look::of(&io::stdout());
        for finding in &findings {
            output::line(&told(finding, look))?;
        }
        if let Some(skill) = &skill {
            output::line(&look.paint(Ink::Good, &format!("{skill} is ok")))?;
        }
    }
    if skill.is_some() { Ok(()) } else { Err(Failure::Said) }
}

fn told(finding: &Finding, look: Look) -> String {
    let grade = match finding.severity {
        Severity::Error => look.paint(Ink::Bad, "error"),
        Severity::Warning => look.paint(Ink::Caution, "warning"),
    };
    let place = match (finding.file.as_str(), finding.pointer.as_str()) {
        ("", _) => String::new(),
        (file, "") => format!(" {file}"),
        (file, pointer) => format!(" {file}#{pointer}"),
    };
    format!("{grade}{place}: {} [{}]\n  hint: {}", finding.message, finding.code, finding.hint)
}

fn list(skills_dir: &Path, as_json: bool) -> Result<(), Failure> {
    let entries = Registry::new(skills_dir).list();
    if as_json {
        return output::json(&json!({"skills": entries.iter().map(as_value).collect::<Vec<_>>()}));
    }
    if entries.is_empty() {
        eprintln!("there are no skills in {}; name another folder with --skills-dir", skills_dir.display());
    }
    let look = Look::of(&io::stdout());
    for entry in &entries {
        match entry {
            Entry::Valid(installed) => {
                let skill = &installed.skill;
                let about = one_line(&skill.description, DESCRIPTION_MAX);
                let engines = skill.effective_engines().join(",");
                output::line(&format!("{:<24} {:<10} {engines:<10} {about}", skill.id, skill.version.to_string()))?;
            }
            Entry::Invalid { folder, findings } => {
                let first = findings.first().map(|finding| finding.message.as_str()).unwrap_or_default();
                output::line(&look.paint(Ink::Bad, &format!("{folder:<24} broken: {first}")))?;
            }
        }
    }
    Ok(())
}

fn as_value(entry: &Entry) -> Value {
    match entry {
        Entry::Valid(installed) => {
            let skill = &installed.skill;
            json!({
                "id": skill.id,
                "version": skill.version.to_string(),
                "name": skill.name,
                "description": skill.description,
                "engines": skill.effective_engines(),
                "execution_modes": skill.manifest.execution_modes,
                "valid": true,
                "findings": skill.findings,
            })
        }
        Entry::Invalid { folder, findings } => json!({"id": folder, "valid": false, "findings": findings}),
    }
}
