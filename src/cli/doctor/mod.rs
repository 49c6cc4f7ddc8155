//! `doctor`: everything a support person would check, with the fix for each finding.

mod engines;
mod folders;
mod machine;

use std::io;

use serde::Serialize;
use serde_json::json;

use super::failure::Failure;
use super::global::Global;
use super::service_address::running_service;
use super::terminal::{Ink, Look, harmless};
use super::{logging, output};
use crate::settings::LogLevel;

/// Checks the machine, the configuration and the data, and says how to repair what is wrong
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  skill-runner doctor --data-dir /var/lib/skill-runner")]
pub(super) struct Args {
    /// One JSON document
    #[arg(long)]
    json: bool,
}

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Grade {
    /// As it should be.
    Ok,
    /// Something will not work that may not be needed.
    Warning,
    /// Runs will fail or the service will not start.
    Broken,
}

/// What a check found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Finding {
    /// What was checked.
    check: String,
    grade: Grade,
    /// What was found.
    message: String,
    /// What to do about it.
    fix: Option<String>,
}

impl Finding {
    fn ok(check: &str, message: impl Into<String>) -> Self {
        Self { check: check.to_owned(), grade: Grade::Ok, message: message.into(), fix: None }
    }

    fn warning(check: &str, message: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { check: check.to_owned(), grade: Grade::Warning, message: message.into(), fix: Some(fix.into()) }
    }

    fn broken(check: &str, message: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { check: check.to_owned(), grade: Grade::Broken, message: message.into(), fix: Some(fix.into()) }
    }
}

/// Checks everything.
pub(super) fn doctor(global: &Global, args: &Args) -> Result<(), Failure> {
    logging::to_terminal(LogLevel::Error);
    let mut findings = Vec::new();
    match global.settings(&[]) {
        Ok(settings) => {
            findings.push(Finding::ok("configuration", "every setting is understood"));
            let service = running_service(&settings);
            findings.extend(folders::check(&settings, service.as_ref()));
            findings.extend(machine::check(&settings, service.as_ref()));
            findings.extend(engines::check(&settings));
        }
        // The rest hangs on the settings; without them there is nothing to look at.
        Err(Failure::Configuration(problems)) => {
            let wrong = |problem: &crate::settings::Problem| {
                let fix = format!("correct {} in {}", problem.key, problem.place);
                Finding::broken("configuration", problem.to_string(), fix)
            };
            findings.extend(problems.iter().map(wrong));
        }
        Err(other) => return Err(other),
    }
    tell(&findings, args.json)?;
    let is_broken = findings.iter().any(|finding| finding.grade == Grade::Broken);
    if is_broken { Err(Failure::Said) } else { Ok(()) }
}

fn tell(findings: &[Finding], as_json: bool) -> Result<(), Failure> {
    let count = |grade: Grade| findings.iter().filter(|finding| finding.grade == grade).count();
    let (broken, warnings) = (count(Grade::Broken), count(Grade::Warning));
    if as_json {
        return output::json(&json!({"ok": broken == 0, "broken": broken, "warnings": warnings, "findings": findings}));
    }
    let look = Look::of(&io::stdout());
    for finding in findings {
        let grade = match finding.grade {
            Grade::Ok => look.paint(Ink::Good, "ok     "),
            Grade::Warning => look.paint(Ink::Caution, "warning"),
            Grade::Broken => look.paint(Ink::Bad, "broken "),
        };
        output::line(&format!("{grade} {}: {}", finding.check, harmless(&finding.message)))?;
        if let Some(fix) = &finding.fix {
            output::line(&format!("        fix: {}", harmless(fix)))?;
        }
    }
    output::line(&match (broken, warnings) {
        (0, 0) => "all is well".to_owned(),
        (0, warnings) => format!("nothing is broken; warnings: {warnings}"),
        (broken, warnings) => format!("broken: {broken}; warnings: {warnings}"),
    })
}
