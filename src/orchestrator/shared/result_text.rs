//! The text of a result that several runs share: each names itself where it lists artifacts, all else is the same.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::bounded;
use crate::domain::artifact::ArtifactEntry;
use crate::domain::ids::RequestId;
use crate::domain::outcome::Warning;
use crate::domain::proven_file::ProvenFile;
use crate::domain::run_file::RunFile;
use crate::domain::statechart::Status;
use crate::orchestrator::results::{listed, pretty};

/// Results up to this length are kept in memory.
const SHORT: usize = 4 * 1024;

/// A result file; what does not differ between runs keeps its very text.
#[derive(Serialize, Deserialize)]
struct ResultFile {
    status: Status,
    data: Box<RawValue>,
    artifacts: Vec<Value>,
    validation_warnings: Vec<Warning>,
    error: Box<RawValue>,
    /// What a script said of its success.
    #[serde(default)]
    message: Option<Box<RawValue>>,
    #[serde(default)]
    metadata: Option<Box<RawValue>>,
}

/// A result's text, taken apart around its list of artifacts.
pub(crate) struct ResultText {
    before: Vec<u8>,
    /// Whether there are artifacts, so that the text differs between runs.
    lists: bool,
    after: Vec<u8>,
    pub warnings: Vec<Warning>,
}

impl ResultText {
    /// Reads the file of the run that made the result.
    pub(crate) fn read(bytes: Vec<u8>) -> Result<Self, String> {
        let result: ResultFile = bounded::json::from_slice(&bytes).map_err(|error| error.to_string())?;
        let warnings = result.validation_warnings.clone();
        if result.artifacts.is_empty() {
            return Ok(Self { before: bytes, lists: false, after: Vec::new(), warnings });
        }
        let before = format!("{{\n  \"status\": {},\n  \"data\": {},\n", json!(result.status), result.data.get());
        let after = members(&json!({"validation_warnings": result.validation_warnings}));
        let remarks = [("message", &result.message), ("metadata", &result.metadata)].into_iter();
        let remarks = remarks.filter_map(|(name, value)| Some(format!(",\n  \"{name}\": {}", value.as_ref()?.get())));
        let after = format!(",\n{after},\n  \"error\": {}{}\n}}\n", result.error.get(), remarks.collect::<String>());
        Ok(Self { before: before.into_bytes(), lists: true, after: after.into_bytes(), warnings })
    }

    /// The file of a run that takes the result.
    pub(crate) fn of(&self, request: RequestId, artifacts: &[ArtifactEntry]) -> Vec<u8> {
        [&self.before[..], self.list(request, artifacts).as_bytes(), &self.after].concat()
    }

    fn list(&self, request: RequestId, artifacts: &[ArtifactEntry]) -> String {
        if self.lists { members(&json!({"artifacts": listed(request, artifacts)})) } else { String::new() }
    }

    /// The same, hashed as far as all runs have it in common.
    pub(crate) fn hashed(self) -> HashedResult {
        let hash = Sha256::new_with_prefix(&self.before);
        let (size, before) = (self.before.len(), self.before);
        let beginning = (size <= SHORT).then_some(before);
        HashedResult { hash, size: size as u64, beginning, text: Self { before: Vec::new(), ..self } }
    }
}

/// The members of an object as they stand in an indented text.
fn members(object: &Value) -> String {
    let text = String::from_utf8(pretty(object)).unwrap_or_default();
    text.strip_prefix("{\n").and_then(|text| text.strip_suffix("\n}\n")).unwrap_or_default().to_owned()
}

/// A result of any length, of which only what differs between runs is still to be hashed.
pub(crate) struct HashedResult {
    hash: Sha256,
    size: u64,
    /// The text that was hashed, of a short result.
    beginning: Option<Vec<u8>>,
    text: ResultText,
}

impl HashedResult {
    /// The result's file of a run that takes the result.
    pub(crate) fn proven(&self, request: RequestId, artifacts: &[ArtifactEntry]) -> ProvenFile {
        let rest = self.text.of(request, artifacts);
        let sha256 = hex::encode(self.hash.clone().chain_update(&rest).finalize());
        ProvenFile { path: RunFile::Result.name().to_owned(), size: self.size + rest.len() as u64, sha256 }
    }

    /// The content of that file, of a short result.
    pub(crate) fn of(&self, request: RequestId, artifacts: &[ArtifactEntry]) -> Option<Vec<u8>> {
        Some([self.beginning.as_ref()?.as_slice(), &self.text.of(request, artifacts)].concat())
    }

    pub(crate) fn warnings(&self) -> &[Warning] {
        &self.text.warnings
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::domain::codes::WarningCode;

    fn artifact() -> ArtifactEntry {
        ArtifactEntry {
            role: "output".into(),
            path_rel: "artifacts/a b.txt".into(),
            filename: "a b.txt".into(),
            mime: "text/plain".into(),
            size: 1,
            sha256: "0".repeat(64),
            required: true,
        }
    }

    fn file(request: u128, artifacts: &[ArtifactEntry]) -> Vec<u8> {
        pretty(&json!({
            "status": "succeeded",
            "data": {"b": [1.0, "ä\n"], "a": {}},
            "artifacts": listed(RequestId(Uuid::from_u128(request)), artifacts),
            "validation_warnings": [Warning::new(WarningCode::ArtifactRefused, "m")],
            "error": null,
            "message": "done",
            "metadata": {"items": 10, "rate": 0.1},
        }))
    }

    #[test]
    fn the_text_of_another_run_is_what_that_run_itself_would_have_written() {
        for artifacts in [vec![], vec![artifact()], vec![artifact(), artifact()]] {
            let text = ResultText::read(file(1, &artifacts)).unwrap();
            let other = RequestId(Uuid::from_u128(2));
            assert_eq!(text.of(other, &artifacts), file(2, &artifacts));
            let proven = ProvenFile::of("result/result.json", &file(2, &artifacts));
            let hashed = text.hashed();
            assert_eq!(hashed.proven(other, &artifacts), proven);
            assert_eq!(hashed.of(other, &artifacts), Some(file(2, &artifacts)));
        }
    }

    #[test]
    fn what_is_no_result_is_refused() {
        assert!(ResultText::read(b"{}".to_vec()).is_err() && ResultText::read(b"no".to_vec()).is_err());
    }
}
