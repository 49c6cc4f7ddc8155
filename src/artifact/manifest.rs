//! The manifest of a run's artifacts, and one hash over all of them.

use std::path::Path;

use serde_json::json;

use crate::domain::artifact::ArtifactEntry;
use crate::domain::cache_key::sha256_hex;
use crate::files;

/// sha256 over the compact JSON array of the entries, sorted by path, members in the order of [`ArtifactEntry`].
pub fn artifacts_sha256(entries: &[ArtifactEntry]) -> String {
    let mut sorted: Vec<&ArtifactEntry> = entries.iter().collect();
    sorted.sort_by(|one, other| one.path_rel.cmp(&other.path_rel));
    let canonical: Vec<_> = sorted.into_iter().map(canonical).collect();
    sha256_hex(serde_json::Value::Array(canonical).to_string().as_bytes())
}

/// The bytes of `manifest.json`: the artifacts and their hash.
pub(crate) fn manifest_json(entries: &[ArtifactEntry]) -> Vec<u8> {
    let artifacts: Vec<_> = entries.iter().map(canonical).collect();
    pretty(&json!({"artifacts": artifacts, "artifacts_sha256": artifacts_sha256(entries)}))
}

/// Writes `manifest.json` whole. The caller makes it durable, together with the run's other files.
pub fn write_manifest(path: &Path, entries: &[ArtifactEntry]) -> Result<(), files::Error> {
    files::write_own(path, &manifest_json(entries))
}

fn canonical(entry: &ArtifactEntry) -> serde_json::Value {
    json!({
        "role": entry.role,
        "path_rel": entry.path_rel,
        "filename": entry.filename,
        "mime": entry.mime,
        "size": entry.size,
        "sha256": entry.sha256,
        "required": entry.required,
    })
}

/// Indented JSON with a newline at its end, for people who read the file.
pub(crate) fn pretty(value: &serde_json::Value) -> Vec<u8> {
    format!("{value:#}\n").into_bytes()
}
