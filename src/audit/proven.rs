//! Compares the files of a run with the list in its manifest, and that list with the proof.

use std::collections::{BTreeMap, HashSet};

use crate::artifact::{self, Manifest};
use crate::audit::error::Error;
use crate::audit::files::RunFiles;
use crate::audit::report::Report;
use crate::domain::outcome::Proof;
use crate::domain::proven_file::ProvenFile;
use crate::domain::run_file::{RunFile, RunFolder};
use crate::export::is_exported;

const MANIFEST: &str = RunFile::Manifest.name();
const RESULT: &str = RunFile::Result.name();

/// Checks input, skill, prompt, uploads, raw output and result against a proof that names them.
pub(crate) fn check(
    files: &RunFiles,
    proof: &Proof,
    manifest: Option<&Manifest>,
    report: &mut Report,
) -> Result<(), Error> {
    let Some(expected) = &proof.files_sha256 else {
        report
            .not_checked
            .push("input, skill, prompt and raw output: an older version recorded no hash of them".into());
        return Ok(());
    };
    report.checked.push("files");
    let found = found(files)?;
    // A missing manifest is reported with the artifacts.
    let Some(manifest) = manifest else { return Ok(()) };
    let listed = manifest.files.as_deref().unwrap_or_default();
    if manifest.files_sha256().as_ref() != Some(expected) {
        report.violated(
            "PROOF",
            MANIFEST,
            format!("its list of files does not hash to what the proof says: {expected}"),
        );
    }
    compare(files, listed, &found, report);
    let result = found.get(RESULT).map(|file| &file.sha256);
    // One that differs from the list, too, is reported by now.
    if result != proof.result_sha256.as_ref() && !report.violations.iter().any(|known| known.file == RESULT) {
        report.violated("PROOF", RESULT, "its sha256 is not the one that the proof says");
    }
    Ok(())
}

fn compare(files: &RunFiles, listed: &[ProvenFile], found: &BTreeMap<String, ProvenFile>, report: &mut Report) {
    let mut left_out = 0;
    for expected in listed {
        match found.get(&expected.path) {
            None if files.is_export() && !is_exported(&expected.path) => left_out += 1,
            None => report.violated("FILE", &expected.path, "the file is missing"),
            Some(other) if other != expected => {
                let message = format!(
                    "it has {} bytes with sha256 {}, and should have {} bytes with sha256 {}",
                    other.size, other.sha256, expected.size, expected.sha256
                );
                report.violated("FILE", &expected.path, message);
            }
            Some(_) => {}
        }
    }
    if left_out > 0 {
        let name = RunFolder::Uploads.name();
        report.not_checked.push(format!("{left_out} files in {name}/, which are not in the export"));
    }
    let listed: HashSet<&str> = listed.iter().map(|file| file.path.as_str()).collect();
    for path in found.keys().filter(|path| !listed.contains(path.as_str())) {
        report.violated("FILE", path, "this file is not in the manifest: the run did not have it when it ended");
    }
}

/// The files that exist, whatever the manifest says.
fn found(files: &RunFiles) -> Result<BTreeMap<String, ProvenFile>, Error> {
    let found = match files {
        RunFiles::Folder(root) => artifact::proven_files(root, &[]).map_err(Error::Artifacts)?,
        RunFiles::Export(export) => {
            let mut found = Vec::new();
            for (name, piece) in export
                .names()
                .filter(|name| artifact::is_proven(name))
                .filter_map(|name| Some((name, export.file(name)?)))
            {
                let digest = piece.digest(|_| Ok(())).map_err(Error::read(name))?;
                found.push(ProvenFile { path: name.to_owned(), size: digest.size, sha256: digest.sha256 });
            }
            found
        }
    };
    Ok(found.into_iter().map(|file| (file.path.clone(), file)).collect())
}
