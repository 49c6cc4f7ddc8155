//! Compares the artifacts in proof, manifest, events and files.

use std::collections::{HashMap, HashSet};

use crate::artifact::{self, Manifest};
use crate::audit::error::Error;
use crate::audit::files::{FoundArtifact, RunFiles};
use crate::audit::report::Report;
use crate::bounded;
use crate::domain::artifact::ArtifactEntry;
use crate::domain::outcome::Proof;
use crate::domain::run_file::RunFile;

/// The manifest's name in a run's folder.
const MANIFEST: &str = RunFile::Manifest.name();

/// Longest manifest that is read, and most values in it: a run has fewer files.
const MANIFEST_MAX: u64 = 512 * 1024 * 1024;
const MANIFEST_VALUES_MAX: usize = 2_000_000;

/// Checks manifest and files against the proof and the events; the artifacts the run has by its manifest, and that.
pub(crate) fn check(
    files: &RunFiles,
    proof: &Proof,
    indexed: &[ArtifactEntry],
    report: &mut Report,
) -> Result<(Vec<ArtifactEntry>, Option<Manifest>), Error> {
    let manifest = manifest(files, proof, report);
    let listed = manifest.as_ref().map(|manifest| &manifest.artifacts);
    if let Some(listed) = listed {
        let listed: HashSet<&ArtifactEntry> = listed.iter().collect();
        for entry in indexed.iter().filter(|entry| !listed.contains(entry)) {
            report.violated("ARTIFACT", MANIFEST, format!("it does not list {} as the log does", entry.path_rel));
        }
    }
    // Without a manifest, the log lists the artifacts.
    let expected = listed.map_or(indexed, Vec::as_slice);
    let found = files.artifacts()?;
    let by_path: HashMap<&str, &FoundArtifact> = found.iter().map(|found| (found.path_rel.as_str(), found)).collect();
    for entry in expected {
        match by_path.get(entry.path_rel.as_str()) {
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
    let expected_paths: HashSet<&str> = expected.iter().map(|entry| entry.path_rel.as_str()).collect();
    for other in found.iter().filter(|other| !expected_paths.contains(other.path_rel.as_str())) {
        report.violated("ARTIFACT", &other.path_rel, "this file is not in the manifest: the run did not write it");
    }
    Ok((expected.to_vec(), manifest))
}

/// The manifest, where it can be read.
fn manifest(files: &RunFiles, proof: &Proof, report: &mut Report) -> Option<Manifest> {
    let file = files.open(MANIFEST).filter(|file| file.size() <= MANIFEST_MAX);
    let Some(bytes) = file.and_then(|file| file.bytes(0, file.size())) else {
        report.violated("PROOF", MANIFEST, "the file is missing");
        return None;
    };
    if !bounded::json::has_at_most(&bytes, MANIFEST_VALUES_MAX) {
        report.violated("PROOF", MANIFEST, "it is larger than a manifest can be");
        return None;
    }
    let parsed = bounded::json::from_slice(&bytes);
    let manifest: Manifest =
        parsed.map_err(|error| report.violated("PROOF", MANIFEST, format!("it cannot be read: {error}"))).ok()?;
    let hash = artifact::artifacts_sha256(&manifest.artifacts);
    if hash != proof.artifacts_sha256 {
        let message = format!("its list of artifacts hashes to {hash}, the proof says {}", proof.artifacts_sha256);
        report.violated("PROOF", MANIFEST, message);
    } else if bytes != manifest.to_bytes() {
        report.violated("PROOF", MANIFEST, "it was changed: its list is the proof's, but not the rest of its text");
    }
    Some(manifest)
}
