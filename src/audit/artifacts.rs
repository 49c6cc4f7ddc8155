//! Compares the artifacts in proof, manifest, events and files.

use serde::Deserialize;

use crate::artifact;
use crate::audit::error::Error;
use crate::audit::files::RunFiles;
use crate::audit::report::Report;
use crate::domain::artifact::ArtifactEntry;
use crate::domain::outcome::Proof;
use crate::domain::run_file::RunFile;

/// The manifest's name in a run's folder.
const MANIFEST: &str = RunFile::Manifest.name();

#[derive(Deserialize)]
struct Manifest {
    artifacts: Vec<ArtifactEntry>,
}

/// Longest manifest that is read.
const MANIFEST_MAX: u64 = 512 * 1024 * 1024;

/// Checks manifest and files against the proof and the events; the artifacts the run has by its manifest.
pub(crate) fn check(
    files: &RunFiles,
    proof: &Proof,
    indexed: &[ArtifactEntry],
    report: &mut Report,
) -> Result<Vec<ArtifactEntry>, Error> {
    let listed = manifest(files, proof, report);
    for entry in indexed {
        if let Some(listed) = &listed
            && !listed.contains(entry)
        {
            report.violated("ARTIFACT", MANIFEST, format!("it does not list {} as the log does", entry.path_rel));
        }
    }
    // Without a manifest, the log lists the artifacts.
    let expected = listed.as_deref().unwrap_or(indexed);
    let found = files.artifacts()?;
    for entry in expected {
        match found.iter().find(|other| other.path_rel == entry.path_rel) {
            None => report.violated("ARTIFACT", &entry.path_rel, "the file is missing"),
            Some(other) if (other.size, &other.sha256) != (entry.size, &entry.sha256) => {
                let message = format!(
                    "it has {} bytes with sha256 {}, and should have {} bytes with sha256 {}",
                    other.size, other.sha256, entry.size, entry.sha256
                );
                report.violated("ARTIFACT", &entry.path_rel, message);
            }
            Some(_) => {}
        }
    }
    for other in &found {
        if !expected.iter().any(|entry| entry.path_rel == other.path_rel) {
            report.violated("ARTIFACT", &other.path_rel, "this file is not in the manifest: the run did not write it");
        }
    }
    Ok(expected.to_vec())
}

/// The manifest's entries, where it can be read.
fn manifest(files: &RunFiles, proof: &Proof, report: &mut Report) -> Option<Vec<ArtifactEntry>> {
    let file = files.open(MANIFEST).filter(|file| file.size() <= MANIFEST_MAX);
    let Some(bytes) = file.and_then(|file| file.bytes(0, file.size())) else {
        report.violated("PROOF", MANIFEST, "the file is missing");
        return None;
    };
    let parsed = serde_json::from_slice(&bytes);
    let Manifest { artifacts } =
        parsed.map_err(|error| report.violated("PROOF", MANIFEST, format!("it cannot be read: {error}"))).ok()?;
    let hash = artifact::artifacts_sha256(&artifacts);
    if hash != proof.artifacts_sha256 {
        let message = format!("its list of artifacts hashes to {hash}, the proof says {}", proof.artifacts_sha256);
        report.violated("PROOF", MANIFEST, message);
    } else if bytes != artifact::manifest_json(&artifacts) {
        report.violated("PROOF", MANIFEST, "it was changed: its list is the proof's, but not the rest of its text");
    }
    Some(artifacts)
}
