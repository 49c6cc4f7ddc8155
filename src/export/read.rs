//! An export, read strictly: every byte that is not a file's content is compared with the one it has to be.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use serde::Serialize;

use super::contents::{CONTENTS, Contents, FORMAT};
use super::layout::{self, CENTRAL, COMMENT, END_BYTES, Entry, LONG_END_BYTES, Placed, SEAL_DIGITS};
use super::names::name_objection;
use super::piece::Piece;
use crate::bounded;
use crate::files;

/// Longest export: all of it is read more than once, and a file that somebody made up may seem to have any length.
pub(crate) const EXPORT_MAX: u64 = 64 << 30;
/// Longest directory at the end of an export that is read.
const CENTRAL_MAX: u64 = 256 << 20;
/// Longest list of contents that is read.
const CONTENTS_MAX: u64 = 512 << 20;
/// Most files of an export, and most that its list names. A run keeps fewer.
const FILES_MAX: usize = 250_000;
/// Values that the list of so many files has.
const CONTENTS_VALUES_MAX: usize = 4 * FILES_MAX + 100;
/// Most flaws of each kind that are told: of an export that somebody made up, every file may have one.
const FLAWS_MAX: usize = 100;
/// Most characters of a name in a flaw.
const NAME_SHOWN_MAX: usize = 300;
/// Shortest line of the directory.
const CENTRAL_LINE: usize = 46;

/// A place where an export is not as it was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Flaw {
    /// `SEAL`, `ZIP` or `CONTENTS`: the file as a whole, its structure, its files.
    pub(crate) rule: &'static str,
    /// The file of the run; none for the export as a whole.
    pub(crate) file: Option<String>,
    /// Where in the export.
    pub(crate) byte: Option<u64>,
    pub(crate) message: String,
}

/// An export, open for reading.
#[derive(Debug)]
pub struct Export {
    whole: Piece,
    files: BTreeMap<String, Placed>,
    order: Vec<String>,
    contents: Option<Contents>,
    flaws: Flaws,
}

/// The first flaws; the others are left out.
#[derive(Debug, Default)]
struct Flaws(Vec<Flaw>);

impl Flaws {
    fn add(&mut self, rule: &'static str, file: Option<&str>, byte: Option<u64>, message: impl Into<String>) {
        if self.0.len() < FLAWS_MAX {
            let file = file.map(shown);
            self.0.push(Flaw { rule, file, byte, message: message.into() });
        }
    }
}

impl Export {
    /// Whether a file is meant to be an export, however damaged.
    pub(crate) fn is_meant(path: &Path) -> bool {
        let Ok(whole) = files::open_followed(path).and_then(Piece::whole) else { return false };
        let named = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("zip"));
        let begins = whole.bytes(0, 4).is_some_and(|bytes| bytes.starts_with(b"PK"));
        let comment_at = whole.size().saturating_sub((COMMENT.len() + SEAL_DIGITS) as u64);
        named || begins || whole.bytes(comment_at, comment_at + 12).is_some_and(|bytes| bytes == COMMENT[..12])
    }

    /// Opens an export; what is wrong with it is in [`Export::flaws`], except the content of its files.
    pub fn open(path: &Path) -> io::Result<Self> {
        let whole = Piece::whole(files::open_followed(path)?)?;
        if whole.size() > EXPORT_MAX {
            let message = format!("it has {} bytes, and an export has at most {EXPORT_MAX} (64 GiB)", whole.size());
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
        }
        let (files, order) = (BTreeMap::new(), Vec::new());
        let mut export = Self { whole, files, order, contents: None, flaws: Flaws::default() };
        export.seal()?;
        if let Some(placed) = export.frame() {
            export.order = placed.iter().map(|placed| placed.entry.name.clone()).collect();
            export.files = placed.into_iter().map(|placed| (placed.entry.name.clone(), placed)).collect();
            export.contents = export.read_contents();
        }
        Ok(export)
    }

    /// What is wrong with its headers, its directory and its seal.
    pub fn flaws(&self) -> &[Flaw] {
        &self.flaws.0
    }

    /// Its own list of contents.
    pub(crate) fn contents(&self) -> Option<&Contents> {
        self.contents.as_ref()
    }

    /// A file of the run.
    pub fn file(&self, name: &str) -> Option<Piece> {
        let Placed { entry, data_at, .. } = self.files.get(name)?;
        let fits = data_at.checked_add(entry.size).is_some_and(|end| end <= self.whole.size());
        fits.then(|| self.whole.part(*data_at, entry.size))
    }

    /// The names of all files, in their order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.order.iter().map(String::as_str)
    }

    /// Compares every file with the list of contents.
    pub fn check_files(&self) -> io::Result<Vec<Flaw>> {
        let mut flaws = Flaws::default();
        let listed = self.contents.iter().flat_map(|contents| &contents.files);
        let mut listed: BTreeMap<&str, _> = listed.map(|listed| (listed.path.as_str(), listed)).collect();
        for (name, placed) in self.files.iter().filter(|(name, _)| *name != CONTENTS) {
            let mut found = |message: String| flaws.add("CONTENTS", Some(name), Some(placed.data_at), message);
            let Some(piece) = self.file(name) else {
                found("the export ends before it does".to_owned());
                continue;
            };
            let digest = piece.digest(|_| Ok(()))?;
            match listed.remove(name.as_str()) {
                None if self.contents.is_some() => found(format!("{CONTENTS} does not list it")),
                Some(listed) if (digest.size, &digest.sha256) != (listed.size, &listed.sha256) => found(format!(
                    "it has {} bytes with sha256 {}, and should have {} bytes with sha256 {}",
                    digest.size, digest.sha256, listed.size, listed.sha256
                )),
                Some(_) | None if digest.crc32 != placed.entry.crc32 => {
                    found("its checksum in the headers is not that of its content".to_owned());
                }
                Some(_) | None => {}
            }
        }
        for name in listed.keys() {
            flaws.add("CONTENTS", Some(name), None, "the file is missing");
        }
        Ok(flaws.0)
    }

    /// Checks that the last digits are the hash of everything before them.
    fn seal(&mut self) -> io::Result<()> {
        let sealed = self.whole.size().saturating_sub(SEAL_DIGITS as u64);
        let seal = self.whole.bytes(sealed, self.whole.size()).unwrap_or_default();
        let hash = self.whole.part(0, sealed).digest(|_| Ok(()))?.sha256;
        if seal != hash.as_bytes() {
            let message = "the seal at the end is not the sha256 of what stands before it: the export was changed";
            self.flaws.add("SEAL", None, Some(sealed), message);
        }
        Ok(())
    }

    fn zip_flaw(&mut self, file: Option<&str>, byte: u64, message: impl Into<String>) {
        self.flaws.add("ZIP", file, Some(byte), message);
    }

    /// The files and their places, as the directory at the end lists them.
    fn frame(&mut self) -> Option<Vec<Placed>> {
        let size = self.whole.size();
        let Some((central_at, central_bytes)) = self.whole_end() else {
            self.zip_flaw(None, size.saturating_sub(END_BYTES as u64), "the end of the file is not that of an export");
            return None;
        };
        let central_end = central_at.checked_add(central_bytes)?;
        let central = if central_bytes > CENTRAL_MAX { None } else { self.whole.bytes(central_at, central_end) };
        let Some(central) = central else {
            self.zip_flaw(None, size - END_BYTES as u64, "the end names a directory that is not in the file");
            return None;
        };
        let entries = match read_central(&central) {
            Ok(entries) => entries,
            Err(at) => {
                self.zip_flaw(None, central_at + at as u64, "the directory of files cannot be read");
                return None;
            }
        };
        let (placed, true_central_at) = layout::place(entries);
        self.compare(&placed, (true_central_at, central_at), &central);
        self.order_of(&placed, central_at);
        Some(placed)
    }

    /// Where the directory is, and how long.
    fn whole_end(&self) -> Option<(u64, u64)> {
        let end_at = self.whole.size().checked_sub(END_BYTES as u64)?;
        let end = self.whole.bytes(end_at, self.whole.size())?;
        if !end.starts_with(b"PK\x05\x06") {
            return None;
        }
        let (bytes, at) = (number(&end, 12)?, number(&end, 16)?);
        if bytes != u32::MAX && at != u32::MAX && end[8..10] != [0xff, 0xff] {
            return Some((at.into(), bytes.into()));
        }
        let long_at = end_at.checked_sub(LONG_END_BYTES as u64)?;
        let long = self.whole.bytes(long_at, end_at)?;
        Some((long_number(&long, 48)?, long_number(&long, 40)?))
    }

    /// Compares headers, directory and end with those that these files must have.
    fn compare(&mut self, placed: &[Placed], (central_at, found_at): (u64, u64), central: &[u8]) {
        for placed in placed {
            let expected = layout::local_header(&placed.entry);
            let found = self.whole.bytes(placed.header_at, placed.data_at).unwrap_or_default();
            if let Some(at) = difference(&found, &expected) {
                let message = "the header before the file is not what it has to be";
                self.zip_flaw(Some(&placed.entry.name), placed.header_at + at, message);
            }
        }
        let expected: Vec<u8> = placed.iter().flat_map(layout::central_header).collect();
        if let Some(at) = difference(central, &expected) {
            self.zip_flaw(None, found_at + at, "the directory of files is not what it has to be");
        }
        let end_at = found_at + central.len() as u64;
        let sealed = self.whole.size() - SEAL_DIGITS as u64;
        let expected = layout::end(placed.len() as u64, central_at, expected.len() as u64);
        // The directory may be said to be anywhere: no more is read than tells that something else stands behind it.
        let enough = end_at.saturating_add(expected.len() as u64 + 1);
        let found = self.whole.bytes(end_at, sealed.min(enough)).unwrap_or_default();
        if let Some(at) = difference(&found, &expected) {
            self.zip_flaw(None, end_at + at, "the end of the file is not what it has to be");
        }
    }

    /// Checks that the files are those of a run, sorted, each once, and that the list of contents is the last.
    fn order_of(&mut self, placed: &[Placed], central_at: u64) {
        let names: Vec<&str> = placed.iter().map(|placed| placed.entry.name.as_str()).collect();
        let Some((last, names)) = names.split_last() else {
            return self.zip_flaw(None, central_at, "it holds no files");
        };
        if *last != CONTENTS {
            self.zip_flaw(Some(last), central_at, format!("the last file is not {CONTENTS}"));
        }
        for (name, placed) in names.iter().zip(placed) {
            if let Some(reason) = name_objection(name) {
                self.zip_flaw(Some(name), placed.header_at, reason);
            }
        }
        for (pair, placed) in names.windows(2).zip(&placed[1..]) {
            if pair[0] >= pair[1] {
                self.zip_flaw(
                    Some(pair[1]),
                    placed.header_at,
                    format!("it comes after {:?}, so the files are not sorted", shown(pair[0])),
                );
            }
        }
    }

    fn read_contents(&mut self) -> Option<Contents> {
        let at = self.files.get(CONTENTS).map(|placed| placed.data_at);
        let mut wrong = |message: String| self.flaws.add("CONTENTS", Some(CONTENTS), at, message);
        let Placed { entry, data_at, .. } = self.files.get(CONTENTS)?;
        let bytes = Some(entry.size).filter(|size| *size <= CONTENTS_MAX);
        let bytes = bytes.and_then(|size| self.whole.bytes(*data_at, data_at.checked_add(size)?));
        let Some(bytes) = bytes else {
            wrong("it is not all there".to_owned());
            return None;
        };
        if crc32fast::hash(&bytes) != entry.crc32 {
            wrong("its checksum in the headers is not that of its content".to_owned());
        }
        if !bounded::json::has_at_most(&bytes, CONTENTS_VALUES_MAX) {
            wrong(format!("it lists more than {FILES_MAX} files"));
            return None;
        }
        match bounded::json::from_slice::<Contents>(&bytes) {
            Err(error) => {
                wrong(format!("it cannot be read: {error}"));
                None
            }
            Ok(contents) if contents.format != FORMAT => {
                wrong(format!("its format is {:?}, and this version reads {FORMAT:?}", contents.format));
                None
            }
            Ok(contents) => {
                if contents.to_bytes() != bytes {
                    wrong("it is not written as it has to be".to_owned());
                }
                Some(contents)
            }
        }
    }
}

/// As much of a name as is told.
fn shown(name: &str) -> String {
    name.chars().take(NAME_SHOWN_MAX).collect()
}

/// Where two texts begin to differ.
fn difference(found: &[u8], expected: &[u8]) -> Option<u64> {
    let differs = found.iter().zip(expected).position(|(found, expected)| found != expected);
    let shorter = || (found.len() != expected.len()).then_some(found.len().min(expected.len()));
    differs.or_else(shorter).map(|at| at as u64)
}

/// The files of a directory, or where it stops being one.
fn read_central(central: &[u8]) -> Result<Vec<Entry>, usize> {
    let mut entries = Vec::new();
    let mut at = 0;
    while at < central.len() {
        let (entry, length) = read_line(&central[at..]).filter(|_| entries.len() < FILES_MAX).ok_or(at)?;
        entries.push(entry);
        at += length;
    }
    Ok(entries)
}

fn read_line(line: &[u8]) -> Option<(Entry, usize)> {
    if number(line, 0)? != CENTRAL {
        return None;
    }
    let short = |at: usize| Some(usize::from(u16::from_le_bytes(line.get(at..at + 2)?.try_into().ok()?)));
    let name_end = CENTRAL_LINE + short(28)?;
    let length = name_end + short(30)? + short(32)?;
    let name = std::str::from_utf8(line.get(CENTRAL_LINE..name_end)?).ok()?.to_owned();
    let size = match number(line, 24)? {
        u32::MAX => long_number(line, name_end + 4)?,
        size => size.into(),
    };
    (length <= line.len()).then_some((Entry { name, size, crc32: number(line, 16)? }, length))
}

fn number(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?))
}

fn long_number(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at.checked_add(8)?)?.try_into().ok()?))
}
