//! Prints the findings about a skill: what is wrong, where, and what to do.

use std::io;

use crate::cli::failure::Failure;
use crate::cli::terminal::look::{Ink, Look, harmless_name};
use crate::cli::terminal::output;
use crate::skill::{Finding, Severity};

/// Writes findings, two lines each.
pub(crate) fn show(findings: &[Finding]) -> Result<(), Failure> {
    let look = Look::of(&io::stdout());
    findings.iter().try_for_each(|finding| output::line(&text(finding, look)))
}

fn text(finding: &Finding, look: Look) -> String {
    let grade = match finding.severity {
        Severity::Error => look.paint(Ink::Bad, "error"),
        Severity::Warning => look.paint(Ink::Caution, "warning"),
    };
    let place = match (finding.file.as_str(), finding.pointer.as_str()) {
        ("", _) => String::new(),
        (file, "") => format!(" {}", harmless_name(file)),
        (file, pointer) => format!(" {}", harmless_name(&format!("{file}#{pointer}"))),
    };
    format!("{grade}{place}: {} [{}]\n  hint: {}", finding.message, finding.code, finding.hint)
}
