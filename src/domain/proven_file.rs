//! A file that a run is judged or served by, and the hash of the list of all of them.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::artifact::ArtifactEntry;
use super::cache_key::sha256_hex;

/// A file of a run, by length and hash.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ProvenFile {
    /// Its path in the run's folder.
    pub path: String,
    pub size: u64,
    /// Hash of its bytes, in hexadecimal.
    pub sha256: String,
}

impl ProvenFile {
    /// A file with this content.
    pub fn of(path: impl Into<String>, bytes: &[u8]) -> Self {
        Self { path: path.into(), size: bytes.len() as u64, sha256: sha256_hex(bytes) }
    }
}

/// The hash that a proof carries: of one line `path size sha256` for each file and artifact, sorted by path, each ended by a
/// newline. A newline or backslash in a path is written `\n` or `\\`, so that every line is one file.
pub fn files_sha256(files: &[ProvenFile], artifacts: &[ArtifactEntry]) -> String {
    let artifacts = artifacts.iter().map(|entry| (entry.path_rel.as_str(), entry.size, entry.sha256.as_str()));
    let files = files.iter().map(|file| (file.path.as_str(), file.size, file.sha256.as_str()));
    let mut all: Vec<_> = files.chain(artifacts).collect();
    all.sort_unstable();
    let mut hash = Sha256::new();
    for (path, size, sha256) in all {
        hash.update(escaped(path).as_bytes());
        hash.update(format!(" {size} {sha256}\n"));
    }
    hex::encode(hash.finalize())
}

fn escaped(path: &str) -> std::borrow::Cow<'_, str> {
    if path.contains(['\\', '\n']) { path.replace('\\', "\\\\").replace('\n', "\\n").into() } else { path.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn artifact(path: &str, bytes: &[u8]) -> ArtifactEntry {
        let file = ProvenFile::of(path, bytes);
        ArtifactEntry {
            role: "output".into(),
            path_rel: file.path,
            filename: String::new(),
            mime: String::new(),
            size: file.size,
            sha256: file.sha256,
            required: false,
        }
    }

    #[test]
    fn the_hash_is_that_of_sorted_lines_each_ended_by_a_newline() {
        let files = [ProvenFile::of("skill.json", b"{}"), ProvenFile::of("input.json", b"in put")];
        let artifacts = [artifact("artifacts/a b", b"")];
        let lines = format!(
            "artifacts/a b 0 {}\ninput.json 6 {}\nskill.json 2 {}\n",
            sha256_hex(b""),
            sha256_hex(b"in put"),
            sha256_hex(b"{}")
        );
        assert_eq!(files_sha256(&files, &artifacts), sha256_hex(lines.as_bytes()));
        assert_eq!(files_sha256(&[], &[]), sha256_hex(b""));
    }

    #[test]
    fn a_name_that_looks_like_two_lines_is_not_taken_for_two_files() {
        let (one, two) = (ProvenFile::of("raw/a", b"1"), ProvenFile::of("raw/b", b"2"));
        let joined = ProvenFile { path: format!("raw/a 1 {}\nraw/b", one.sha256), ..two.clone() };
        assert_ne!(files_sha256(&[joined], &[]), files_sha256(&[one, two], &[]));
        let (newline, letter) = (ProvenFile::of("raw/a\n", b""), ProvenFile::of("raw/a\\n", b""));
        assert_ne!(files_sha256(&[newline], &[]), files_sha256(&[letter], &[]));
    }
}
