//! `manifest.json`: a run's artifacts, the other files that its proof is about, and one hash over each list.

use serde::Deserialize;
use serde_json::json;

use crate::bounded;
use crate::domain::artifact::ArtifactEntry;
use crate::domain::cache_key::sha256_hex;
use crate::domain::proven_file::{ProvenFile, files_sha256};

/// What `manifest.json` holds.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct Manifest {
    pub artifacts: Vec<ArtifactEntry>,
    /// Every other file of the proof, sorted by path; none in manifests of older versions.
    #[serde(default)]
    pub files: Option<Vec<ProvenFile>>,
}

impl Manifest {
    /// Reads its own text, in which not a byte may differ.
    pub(crate) fn read(bytes: &[u8]) -> Result<Self, String> {
        let manifest: Self = bounded::json::from_slice(bytes).map_err(|error| format!("it cannot be read: {error}"))?;
        if manifest.to_bytes() == bytes { Ok(manifest) } else { Err("it was changed".to_owned()) }
    }

    /// The file's bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let artifacts: Vec<_> = self.artifacts.iter().map(canonical).collect();
        let mut value = json!({"artifacts": artifacts, "artifacts_sha256": artifacts_sha256(&self.artifacts)});
        if let (Some(files), Some(members)) = (&self.files, value.as_object_mut()) {
            members.insert("files".into(), json!(files));
            members.insert("files_sha256".into(), files_sha256(files, &self.artifacts).into());
        }
        pretty(&value)
    }

    /// The hash of all files that it lists, if it lists more than artifacts.
    pub(crate) fn files_sha256(&self) -> Option<String> {
        self.files.as_ref().map(|files| files_sha256(files, &self.artifacts))
    }
}

/// sha256 over the compact JSON array of the entries, sorted by path, members in the order of [`ArtifactEntry`].
pub fn artifacts_sha256(entries: &[ArtifactEntry]) -> String {
    let mut sorted: Vec<&ArtifactEntry> = entries.iter().collect();
    sorted.sort_by(|one, other| one.path_rel.cmp(&other.path_rel));
    let canonical: Vec<_> = sorted.into_iter().map(canonical).collect();
    sha256_hex(serde_json::Value::Array(canonical).to_string().as_bytes())
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
