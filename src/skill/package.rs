//! The files of a package, as the caller found them: names, digests, and the bytes of those small enough to be read.

use std::collections::BTreeMap;

use sha2::{Digest, Sha256};

/// Files larger than this are known by their digest only: no manifest, schema or template is that long.
pub(crate) const MAX_READ_BYTES: u64 = 1024 * 1024;

/// Path → content of every file of a package; paths are relative, with `/`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct PackageFiles {
    files: BTreeMap<String, Content>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Content {
    digest: [u8; 32],
    bytes: Option<Vec<u8>>,
}

/// Why the text of a file cannot be had.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoText {
    Absent,
    TooLarge,
    NotUtf8,
}

impl PackageFiles {
    /// A package without files.
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Adds a file with its bytes.
    pub(crate) fn insert(&mut self, path: impl Into<String>, bytes: Vec<u8>) {
        let digest = Sha256::digest(&bytes).into();
        let kept = u64::try_from(bytes.len()).is_ok_and(|length| length <= MAX_READ_BYTES).then_some(bytes);
        self.files.insert(path.into(), Content { digest, bytes: kept });
    }

    /// Adds a file too large to be kept in memory, by its sha256.
    pub(crate) fn insert_large(&mut self, path: impl Into<String>, digest: [u8; 32]) {
        self.files.insert(path.into(), Content { digest, bytes: None });
    }

    /// Whether there is a file of this path.
    pub(crate) fn contains(&self, path: &str) -> bool {
        self.files.contains_key(path)
    }

    pub(crate) fn paths(&self) -> impl Iterator<Item = &str> {
        self.files.keys().map(String::as_str)
    }

    /// sha256 in hex over every path and content, in the order of the paths.
    pub(crate) fn fingerprint(&self) -> String {
        let mut hasher = Sha256::new();
        for (path, content) in &self.files {
            // The length keeps a path from running over into what follows it.
            hasher.update(u64::try_from(path.len()).unwrap_or(u64::MAX).to_be_bytes());
            hasher.update(path.as_bytes());
            hasher.update(content.digest);
        }
        hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
    }

    pub(crate) fn text(&self, path: &str) -> Result<&str, NoText> {
        let content = self.files.get(path).ok_or(NoText::Absent)?;
        let bytes = content.bytes.as_deref().ok_or(NoText::TooLarge)?;
        std::str::from_utf8(bytes).map_err(|_| NoText::NotUtf8)
    }
}

/// Whether a path, as written in a manifest, stays inside the folder it is relative to.
pub(crate) fn stays_inside(path: &str) -> bool {
    let harmless = |part: &str| !part.is_empty() && part != "." && part != "..";
    !path.contains(['\\', '\0']) && path.as_bytes().get(1) != Some(&b':') && path.split('/').all(harmless)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fingerprint_changes_with_any_name_or_byte_and_not_with_the_order_of_insertion() {
        let files = |entries: &[(&str, &str)]| {
            let mut files = PackageFiles::new();
            entries.iter().for_each(|(path, text)| files.insert(*path, text.as_bytes().to_vec()));
            files.fingerprint()
        };
        let first = files(&[("a", "1"), ("b", "2")]);
        assert_eq!(first, files(&[("b", "2"), ("a", "1")]));
        for other in [&[("a", "1"), ("b", "3")][..], &[("a", "1"), ("c", "2")], &[("a", "1")], &[("ab", "12")]] {
            assert_ne!(first, files(other));
        }
    }

    #[test]
    fn a_file_known_by_its_digest_alone_counts_like_its_bytes() {
        let bytes = vec![7; usize::try_from(MAX_READ_BYTES).unwrap() + 1];
        let mut read = PackageFiles::new();
        read.insert("big", bytes.clone());
        let mut streamed = PackageFiles::new();
        streamed.insert_large("big", Sha256::digest(&bytes).into());
        assert_eq!(read, streamed);
    }

    #[test]
    fn a_path_that_leaves_its_folder_is_seen() {
        for good in ["a", "assets/x.json", "a/..b/c"] {
            assert!(stays_inside(good), "{good}");
        }
        for bad in ["", "/etc", "../a", "a/../b", "a//b", "./a", "a/", "a\\b", "C:/a", "C:a", "a\0b"] {
            assert!(!stays_inside(bad), "{bad}");
        }
    }
}
