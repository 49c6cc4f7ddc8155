//! A package as a stranger sends it: unpacked into a folder of the caller's, and read by every rule for new packages.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::domain::codes::FindingCode;
use crate::files;
use crate::orchestrator::error::Error;
use crate::registry;
use crate::registry::Installed;
use crate::skill::{Finding, Intake};
use crate::workspace::{Archive, UploadError, UploadLimits};

/// Most names that a finding lists.
const NAMED_MAX: usize = 5;

/// A package that is not taken.
#[derive(Debug, thiserror::Error)]
pub enum PackageRefused {
    /// The zip itself is at fault, or could not be unpacked.
    #[error(transparent)]
    Zip(#[from] UploadError),
    /// The zip is fine, what is in it is not.
    #[error("the package breaks {} rules; correct what the findings name", findings.len())]
    Package {
        /// All that is wrong with it.
        findings: Vec<Finding>,
    },
}

impl From<PackageRefused> for Error {
    fn from(refused: PackageRefused) -> Self {
        match refused {
            PackageRefused::Zip(error) => error.into(),
            PackageRefused::Package { findings } => Error::PackageInvalid { findings },
        }
    }
}

/// Unpacks the zip of a package into an empty folder of the caller's, who removes it when this fails, and reads the
/// package by the rules for new ones. The skill's own folder is the `dir` of the answer, one level below `into`.
pub(crate) fn unpack_package(zip: &Path, into: &Path, limits: &UploadLimits) -> Result<Installed, PackageRefused> {
    let folder = unpack(zip, into, limits)?;
    let folder = folder.map_err(|finding| PackageRefused::Package { findings: vec![finding] })?;
    registry::load_dir(&folder, Intake::New).map_err(|why| match why.shortage(&folder) {
        Some(error) => PackageRefused::Zip(UploadError::Io(error)),
        None => PackageRefused::Package { findings: why.findings() },
    })
}

/// Unpacks the zip of a package; the one folder at its top, or the finding that there is no such folder. What tools
/// leave behind, `.git` above all, is removed.
pub(crate) fn unpack(zip: &Path, into: &Path, limits: &UploadLimits) -> Result<Result<PathBuf, Finding>, UploadError> {
    let archive = Archive::open(zip, limits)?;
    let names: Vec<String> = archive.names().map(str::to_owned).collect();
    // Also when there is no such folder: what is wrong with the zip's contents comes before what is wrong with the package.
    archive.unpack(into)?;
    let folder = match top_folder(&names) {
        Ok(folder) => into.join(folder),
        Err(finding) => return Ok(Err(finding)),
    };
    for path in names.iter().filter_map(|name| not_packaged(name)).collect::<BTreeSet<_>>() {
        files::remove_tree(&into.join(path))?;
    }
    Ok(Ok(folder))
}

/// The first folder on the way to this entry that is no part of a package.
fn not_packaged(name: &str) -> Option<&str> {
    let mut end = 0;
    for part in name.split('/') {
        end += part.len();
        if registry::NOT_PACKAGED.contains(&part) {
            return Some(&name[..end]);
        }
        end += 1;
    }
    None
}

fn top_folder(names: &[String]) -> Result<&str, Finding> {
    let tops: BTreeSet<&str> = names.iter().map(|name| name.split('/').next().unwrap_or_default()).collect();
    let (message, hint) = match tops.iter().copied().collect::<Vec<_>>().as_slice() {
        [] => ("the zip is empty".to_owned(), "zip the skill's folder"),
        [top] if names.iter().any(|name| name.len() > top.len()) => return Ok(top),
        [top] => (format!("the zip holds the file {top:?} instead of a folder"), "zip the skill's folder itself"),
        many => {
            let named: Vec<String> = many.iter().take(NAMED_MAX).map(|name| format!("{name:?}")).collect();
            let more = if many.len() > NAMED_MAX { " and more" } else { "" };
            let message = format!("the zip holds {}{more} at its top instead of one folder", named.join(", "));
            (message, "zip the skill's folder itself, and nothing beside it")
        }
    };
    Err(Finding::error(FindingCode::TopLevelInvalid, "", message, hint))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write;

    use zip::ZipWriter;
    use zip::write::SimpleFileOptions;

    use super::*;

    const RUNNER: &str = r#"{"id":"demo","version":"1.0.0","execution_modes":["auto"],"schemas":{},
        "entrypoint":{"type":"script","script":{"command":"sh scripts/run.sh"}}}"#;
    const GOOD: [(&str, &str); 4] = [
        ("demo/SKILL.md", "---\nname: demo\ndescription: A test.\n---\nBody"),
        ("demo/assets/runner.json", RUNNER),
        ("demo/assets/output.schema.json", r#"{"type":"object"}"#),
        ("demo/scripts/run.sh", "true"),
    ];

    fn unpacked(files: &[(&str, &str)]) -> Result<Vec<String>, PackageRefused> {
        let place = tempfile::tempdir().unwrap();
        let (zip, into) = (place.path().join("p.zip"), place.path().join("into"));
        let mut writer = ZipWriter::new(fs::File::create(&zip).unwrap());
        for (name, text) in files {
            if name.ends_with('/') {
                writer.add_directory(*name, SimpleFileOptions::default()).unwrap();
                continue;
            }
            writer.start_file(*name, SimpleFileOptions::default()).unwrap();
            writer.write_all(text.as_bytes()).unwrap();
        }
        writer.finish().unwrap();
        fs::create_dir(&into).unwrap();
        let installed = unpack_package(&zip, &into, &UploadLimits::default())?;
        assert_eq!(installed.dir, into.canonicalize().unwrap().join("demo"));
        let left: Vec<_> = fs::read_dir(&installed.dir).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert!(!left.iter().any(|name| name == ".git"), "{left:?}");
        Ok(installed.files)
    }

    fn codes(files: &[(&str, &str)]) -> Vec<&'static str> {
        match unpacked(files) {
            Err(PackageRefused::Package { findings }) => findings.iter().map(|finding| finding.code.as_str()).collect(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_package_is_unpacked_without_what_tools_left_in_it() {
        let files = ["SKILL.md", "assets/output.schema.json", "assets/runner.json", "scripts/run.sh"];
        assert_eq!(unpacked(&GOOD).unwrap(), files);
        let more = [("demo/.git/HEAD", "x"), ("demo/.git/objects/a", "x"), ("demo/scripts/__pycache__/run.pyc", "x")];
        assert_eq!(unpacked(&[&GOOD[..], &more].concat()).unwrap(), files);
        assert_eq!(unpacked(&[&GOOD[..], &[("demo/.git", "gitdir: elsewhere")]].concat()).unwrap(), files);
    }

    #[test]
    fn a_zip_without_one_folder_at_its_top_is_no_package() {
        assert_eq!(codes(&[]), ["TOP_LEVEL_INVALID"]);
        assert_eq!(codes(&[("SKILL.md", "x")]), ["TOP_LEVEL_INVALID"]);
        assert_eq!(codes(&[&GOOD[..], &[("README.md", "x")]].concat()), ["TOP_LEVEL_INVALID"]);
        assert_eq!(codes(&[("demo/", "")]), ["FILE_MISSING", "FILE_MISSING"]);
    }

    #[test]
    fn what_is_at_the_top_of_a_zip_is_named_and_of_many_that_there_are_more() {
        let told = |count: usize| {
            let names: Vec<String> = (1..=count).map(|n| n.to_string()).collect();
            top_folder(&names).unwrap_err().message
        };
        let five = "the zip holds \"1\", \"2\", \"3\", \"4\", \"5\"";
        assert_eq!(told(5), format!("{five} at its top instead of one folder"));
        assert_eq!(told(6), format!("{five} and more at its top instead of one folder"));
    }
}
