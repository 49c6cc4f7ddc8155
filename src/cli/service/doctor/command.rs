//! `doctor`: everything a support person would check, with the fix for each finding.

use std::io;

use serde_json::json;

use crate::cli::connect::service_address::running_service;
use crate::cli::failure::Failure;
use crate::cli::global::Global;
use crate::cli::logging;
use crate::cli::service::doctor::finding::{Finding, Grade};
use crate::cli::service::doctor::{engines, folders, machine, python};
use crate::cli::terminal::look::{Ink, Look, harmless};
use crate::cli::terminal::output;
use crate::cli::terminal::wrap;
use crate::domain::codes::Exit;
use crate::settings::LogLevel;

/// Checks the machine, the configuration and the data, and shows how to fix each problem
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  skill-runner doctor --data-dir /var/lib/skill-runner")]
pub(crate) struct Args {
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

pub(crate) fn doctor(global: &Global, args: &Args) -> Result<(), Failure> {
    logging::to_terminal(LogLevel::Error);
    let mut findings = Vec::new();
    match global.settings(&[]) {
        Ok(settings) => {
            findings.push(Finding::ok("configuration", "every setting is valid"));
            let service = running_service(&settings);
            findings.extend(folders::check(&settings, service.as_ref()));
            findings.extend(machine::check(&settings, service.as_ref()));
            findings.push(python::check(&settings));
            findings.extend(engines::check(&settings));
        }
        // All other checks need the settings.
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
    if is_broken { Err(Failure::Reported(Exit::Failed)) } else { Ok(()) }
}

/// What lies below a grade.
const HANG: usize = 8;

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
        wrap::line(&format!("{grade} {}: {}", finding.check, harmless(&finding.message)), HANG)?;
        if let Some(fix) = &finding.fix {
            wrap::line(&format!("{:HANG$}fix: {}", "", harmless(fix)), HANG)?;
        }
    }
    output::line(&match (broken, warnings) {
        (0, 0) => "no problems found".to_owned(),
        (0, warnings) => format!("nothing is broken; warnings: {warnings}"),
        (broken, warnings) => format!("broken: {broken}; warnings: {warnings}"),
    })
}
