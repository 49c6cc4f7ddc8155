//! An untrusted zip: every name is checked before anything is written, and every limit on the bytes that come out.

use std::collections::{BTreeSet, HashSet};
use std::fs::File;
use std::io::{BufReader, Write};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use zip::CompressionMethod;
use zip::ZipReadOptions;
use zip::read::{Config, ZipFileEntry};
use zip::result::ZipError;
use zip::unstable::read::ZipIterable;

use super::entry_name;
use super::upload_error::UploadError;
use super::zip_end;
use crate::files::{self, Error, WithinRoom, for_each_chunk, open_followed};
use crate::skill::case_fold::{first_clash, folded};

const MIB: u64 = 1024 * 1024;
/// The bits of a Unix mode that name the kind of file, and the two kinds that are accepted.
const KIND: u32 = 0o170_000;
const REGULAR: u32 = 0o100_000;
const FOLDER: u32 = 0o040_000;

/// How much an archive may hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UploadLimits {
    /// Size of the zip itself.
    pub max_upload_bytes: u64,
    /// Sum of all unpacked files.
    pub max_unpacked_bytes: u64,
    /// Files and folders, also those that only the names of others name.
    pub max_entries: u64,
    pub max_file_bytes: u64,
    /// Unpacked bytes for each byte of the zip.
    pub max_ratio: u64,
    /// The ratio counts only once this much is unpacked: a short repetitive text packs well and does no harm.
    pub ratio_from_bytes: u64,
    /// What has to stay free on the disk that is unpacked to.
    pub min_free_bytes: u64,
}

impl Default for UploadLimits {
    fn default() -> Self {
        Self {
            max_upload_bytes: 64 * MIB,
            max_unpacked_bytes: 512 * MIB,
            max_entries: 10_000,
            max_file_bytes: 512 * MIB,
            max_ratio: 200,
            ratio_from_bytes: 10 * MIB,
            min_free_bytes: 0,
        }
    }
}

/// A file that came out of an archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnpackedFile {
    /// Its path in the archive, with `/`.
    pub name: String,
    pub(crate) size: u64,
    /// Its sha256 in hex.
    pub(crate) sha256: String,
}

/// An archive whose list of entries has been checked; its contents have not been read yet.
pub struct Archive {
    path: PathBuf,
    reader: BufReader<File>,
    zip_bytes: u64,
    entries: Vec<(String, ZipFileEntry<'static>)>,
    limits: UploadLimits,
}

impl Archive {
    /// Opens a zip and checks its size and all its entries' names, kinds and declared sizes.
    pub fn open(zip: &Path, limits: &UploadLimits) -> Result<Self, UploadError> {
        let file = open_followed(zip).map_err(Error::on("open", zip))?;
        let zip_bytes = file.metadata().map_err(Error::on("look at", zip))?.len();
        within("max_upload_bytes", zip_bytes, limits.max_upload_bytes)?;
        if let Some(reason) = zip_end::objection(&file, zip_bytes).map_err(Error::on("read", zip))? {
            return Err(UploadError::invalid(reason));
        }
        let mut reader = BufReader::new(file);
        let entries = list(zip, &mut reader, limits)?;
        check_against_each_other(&entries)?;
        within("max_entries", files_and_folders(&entries, limits.max_entries), limits.max_entries)?;
        let declared = entries.iter().fold(0, |sum: u64, (_, entry)| sum.saturating_add(entry.size()));
        within("max_unpacked_bytes", declared, limits.max_unpacked_bytes)?;
        Ok(Self { path: zip.to_owned(), reader, zip_bytes, entries, limits: limits.clone() })
    }

    /// The names of all entries, in the archive's order; those of folders end with `/`.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().map(|(name, _)| name.as_str())
    }

    /// Unpacks everything into an empty folder, which the caller removes when this fails. Returns the files sorted by
    /// name.
    pub fn unpack(self, into: &Path) -> Result<Vec<UnpackedFile>, UploadError> {
        self.unpack_as(into, |name| Some(name.to_owned()))
    }

    /// The same for the entries that get a name; what the others hold is not looked at.
    pub(crate) fn unpack_as(
        mut self,
        into: &Path,
        name_of: impl Fn(&str) -> Option<String>,
    ) -> Result<Vec<UnpackedFile>, UploadError> {
        let mut unpacked = Vec::with_capacity(self.entries.len());
        let mut total = 0;
        for (name, entry) in std::mem::take(&mut self.entries) {
            let Some(name) = name_of(&name) else { continue };
            let target = into.join(&name);
            if name.ends_with('/') {
                files::create_folder(&target)?;
                continue;
            }
            files::create_parent(&target)?;
            unpacked.push(self.unpack_file(name, entry, &target, &mut total)?);
        }
        unpacked.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(unpacked)
    }

    fn unpack_file(
        &mut self,
        name: String,
        entry: ZipFileEntry<'static>,
        target: &Path,
        total: &mut u64,
    ) -> Result<UnpackedFile, UploadError> {
        let declared = entry.size();
        let executable = entry.unix_mode().is_some_and(|mode| mode & 0o111 != 0);
        let output = files::create_new(target, executable)?;
        let mut output = WithinRoom::new(output, target, self.limits.min_free_bytes);
        let of_zip = UploadError::of_zip(&self.path);
        let content = entry.with_reader(&mut self.reader, ZipReadOptions::new()).map_err(&of_zip)?;
        let unreadable = |error| match of_zip(ZipError::Io(error)) {
            UploadError::InvalidZip { reason } => UploadError::invalid(format!("{name:?}: {reason}")),
            other => other,
        };
        let mut hasher = Sha256::new();
        let mut size = 0;
        for_each_chunk(content, unreadable, |chunk| {
            size += chunk.len() as u64;
            *total += chunk.len() as u64;
            // Before they are written, and on the bytes that came out: the archive may declare other lengths.
            self.limits.check(size, *total, self.zip_bytes)?;
            hasher.update(chunk);
            Ok(output.write_all(chunk).map_err(Error::on("write", target))?)
        })?;
        if size != declared {
            return Err(UploadError::invalid(format!("{name:?} declares {declared} bytes and holds {size}")));
        }
        Ok(UnpackedFile { name, size, sha256: hex::encode(hasher.finalize()) })
    }
}

impl UploadLimits {
    fn check(&self, file_bytes: u64, total_bytes: u64, zip_bytes: u64) -> Result<(), UploadError> {
        within("max_file_bytes", file_bytes, self.max_file_bytes)?;
        within("max_unpacked_bytes", total_bytes, self.max_unpacked_bytes)?;
        if total_bytes > self.ratio_from_bytes && total_bytes > zip_bytes.saturating_mul(self.max_ratio) {
            return Err(UploadError::TooLarge { limit: "max_ratio", allowed: self.max_ratio });
        }
        Ok(())
    }
}

pub(crate) fn within(limit: &'static str, found: u64, allowed: u64) -> Result<(), UploadError> {
    if found > allowed { Err(UploadError::TooLarge { limit, allowed }) } else { Ok(()) }
}

fn list(
    zip: &Path,
    reader: &mut BufReader<File>,
    limits: &UploadLimits,
) -> Result<Vec<(String, ZipFileEntry<'static>)>, UploadError> {
    // One entry at a time: an index of the whole archive would take memory before the entries could be counted.
    let unreadable = UploadError::of_zip(zip);
    let archive = ZipIterable::try_new(reader, Config::default()).map_err(&unreadable)?;
    let mut archive = archive.enforce_header_consistency(true);
    within("max_entries", archive.len() as u64, limits.max_entries)?;
    let mut entries = Vec::with_capacity(archive.len());
    for entry in archive.files().map_err(&unreadable)? {
        let entry = entry.map_err(&unreadable)?;
        let name = checked_name(&entry)?;
        within("max_file_bytes", entry.size(), limits.max_file_bytes)?;
        entries.push((name, entry));
    }
    Ok(entries)
}

fn checked_name(entry: &ZipFileEntry<'_>) -> Result<String, UploadError> {
    let Ok(name) = std::str::from_utf8(entry.name_raw()) else {
        let name = String::from_utf8_lossy(entry.name_raw()).into_owned();
        return Err(UploadError::UnsafePath { name, reason: "it is not UTF-8" });
    };
    let folder = name.ends_with('/');
    let kind = entry.unix_mode().map_or(0, |mode| mode & KIND);
    let objection = entry_name::objection(name).or(match kind {
        0 => None,
        REGULAR if !folder => None,
        FOLDER if folder => None,
        _ => Some("it is a link, a device or another special file"),
    });
    if let Some(reason) = objection {
        return Err(UploadError::UnsafePath { name: name.chars().take(200).collect(), reason });
    }
    if entry.encrypted() {
        return Err(UploadError::invalid(format!("{name:?} is encrypted")));
    }
    if !matches!(entry.compression(), CompressionMethod::Stored | CompressionMethod::Deflated) {
        return Err(UploadError::invalid(format!(
            "{name:?} is packed with {}; store and deflate are read",
            entry.compression()
        )));
    }
    if folder && entry.size() > 0 {
        return Err(UploadError::invalid(format!("{name:?} is a folder and has contents")));
    }
    Ok(name.to_owned())
}

/// How many files and folders the entries make, counted until there are more than may be. A folder counts once, whether it has an
/// entry or is only named by what is in it.
fn files_and_folders(entries: &[(String, ZipFileEntry<'static>)], most: u64) -> u64 {
    let mut folders = HashSet::new();
    let files = entries.iter().filter(|(name, _)| !name.ends_with('/')).count();
    let count = |folders: &HashSet<&str>| (files + folders.len()) as u64;
    for (name, _) in entries {
        folders.extend(name.match_indices('/').map(|(end, _)| &name[..end]));
        if count(&folders) > most {
            break;
        }
    }
    count(&folders)
}

fn check_against_each_other(entries: &[(String, ZipFileEntry<'static>)]) -> Result<(), UploadError> {
    let mut seen = BTreeSet::new();
    for (name, _) in entries {
        if !seen.insert(folded(name)) {
            let reason = "it occurs twice, or differs from another name only in case";
            return Err(UploadError::UnsafePath { name: name.clone(), reason });
        }
    }
    if let Some(name) = first_clash(entries.iter().map(|(name, _)| name.as_str())) {
        let reason = "a folder on its way differs from another one only in case";
        return Err(UploadError::UnsafePath { name: name.to_owned(), reason });
    }
    let files: BTreeSet<String> =
        entries.iter().filter(|(name, _)| !name.ends_with('/')).map(|(name, _)| folded(name)).collect();
    for (name, _) in entries {
        let folded = folded(name);
        if folded.match_indices('/').any(|(end, _)| files.contains(&folded[..end])) {
            let reason = "a file stands where its folder should be";
            return Err(UploadError::UnsafePath { name: name.clone(), reason });
        }
    }
    Ok(())
}
