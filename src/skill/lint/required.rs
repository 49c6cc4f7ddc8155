//! Files that a package must have.

use serde_json::Value;

use super::super::finding::{Finding, Report};
use super::super::package::{NoText, PackageFiles};
use crate::bounded;
use crate::domain::codes::FindingCode;

/// The text of a file that must exist.
pub(crate) fn required_text<'a>(files: &'a PackageFiles, path: &str, report: &mut Report) -> Option<&'a str> {
    let finding = match files.text(path) {
        Ok(text) => return Some(text),
        Err(NoText::Absent) => {
            Finding::error(FindingCode::FileMissing, path, format!("{path} is missing"), "add the file to the package")
        }
        Err(NoText::TooLarge) => Finding::error(
            FindingCode::FileTooLarge,
            path,
            format!("{path} is larger than 1 MiB, or the package has more than 16 MiB of such files"),
            "make it shorter",
        ),
        Err(NoText::NotUtf8) => {
            Finding::error(FindingCode::NotUtf8, path, format!("{path} is not UTF-8"), "save it as UTF-8")
        }
    };
    report.push(finding);
    None
}

/// The JSON of a file that must exist.
pub(crate) fn required_json(files: &PackageFiles, path: &str, report: &mut Report) -> Option<Value> {
    let text = required_text(files, path, report)?;
    match bounded::json::from_str(text) {
        Ok(value) => Some(value),
        Err(error) => {
            report.push(Finding::error(
                FindingCode::InvalidJson,
                path,
                format!("{path} is not JSON: {error}"),
                "correct the syntax at that line and column",
            ));
            None
        }
    }
}
