//! The zip of a list of files: plain entries one after the other, so that the same files always give the same bytes.

/// A file as the zip's headers describe it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Its path in the run's folder.
    pub(crate) name: String,
    pub(crate) size: u64,
    /// The checksum that zip programs look at.
    pub(crate) crc32: u32,
}

/// A file and its place in the zip.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Placed {
    pub(crate) entry: Entry,
    /// Where its header begins.
    pub(crate) header_at: u64,
    /// Where its content begins.
    pub(crate) data_at: u64,
}

/// The comment at the end of the zip; the digits of the seal follow.
pub(crate) const COMMENT: &[u8] = b"skill-runner-export/1 sha256 ";
/// Digits of the seal.
pub(crate) const SEAL_DIGITS: usize = 64;
/// Length of the record that ends every zip, with our comment and its digits.
pub(crate) const END_BYTES: usize = END_RECORD + COMMENT.len() + SEAL_DIGITS;
/// Length of the records before it, where numbers are too long for it.
pub(crate) const LONG_END_BYTES: usize = 56 + 20;

const END_RECORD: usize = 22;
const LOCAL: u32 = 0x0403_4b50;
pub(crate) const CENTRAL: u32 = 0x0201_4b50;
const LONG_END: u32 = 0x0606_4b50;
const LONG_END_LOCATOR: u32 = 0x0706_4b50;
const END: u32 = 0x0605_4b50;
/// In place of a number that is only in its long form.
const LONG: u32 = u32::MAX;
const PLAIN_VERSION: u16 = 20;
const LONG_VERSION: u16 = 45;
/// Made on unix, so that the permissions count.
const MADE_BY: u16 = 3 << 8 | LONG_VERSION;
/// Names are UTF-8.
const FLAGS: u16 = 1 << 11;
/// The first day that a zip can express: exports have no time of their own.
const DATE: u16 = 0x21;
/// A regular file that everybody may read.
const PERMISSIONS: u32 = 0o100_644 << 16;

/// Gives every file its place.
pub(crate) fn place(entries: Vec<Entry>) -> (Vec<Placed>, u64) {
    let mut at: u64 = 0;
    let placed = entries
        .into_iter()
        .map(|entry| {
            let header_at = at;
            let data_at = header_at.saturating_add(local_header(&entry).len() as u64);
            at = data_at.saturating_add(entry.size);
            Placed { entry, header_at, data_at }
        })
        .collect();
    (placed, at)
}

/// The header before a file's content.
pub(crate) fn local_header(entry: &Entry) -> Vec<u8> {
    let long = is_long(entry.size);
    let mut out = Record::new(LOCAL);
    out.short(if long { LONG_VERSION } else { PLAIN_VERSION });
    out.common(entry);
    out.short(entry.name.len() as u16);
    out.short(if long { 20 } else { 0 });
    out.text(entry.name.as_bytes());
    if long {
        out.extra(&[entry.size, entry.size]);
    }
    out.0
}

/// A file's line in the directory at the end.
pub(crate) fn central_header(placed: &Placed) -> Vec<u8> {
    let Placed { entry, header_at, .. } = placed;
    let mut long = Vec::new();
    if is_long(entry.size) {
        long.extend([entry.size, entry.size]);
    }
    if is_long(*header_at) {
        long.push(*header_at);
    }
    let mut out = Record::new(CENTRAL);
    out.short(MADE_BY);
    out.short(if long.is_empty() { PLAIN_VERSION } else { LONG_VERSION });
    out.common(entry);
    out.short(entry.name.len() as u16);
    out.short(if long.is_empty() { 0 } else { 4 + 8 * long.len() as u16 });
    // No comment, the first disk, no internal attributes.
    out.text(&[0; 6]);
    out.number(PERMISSIONS);
    out.shortened(*header_at);
    out.text(entry.name.as_bytes());
    if !long.is_empty() {
        out.extra(&long);
    }
    out.0
}

/// The end of the zip, without the digits of its seal.
pub(crate) fn end(files: u64, central_at: u64, central_bytes: u64) -> Vec<u8> {
    let mut out = Vec::new();
    if is_long_end(files, central_at, central_bytes) {
        let mut record = Record::new(LONG_END);
        record.long(44);
        record.short(MADE_BY);
        record.short(LONG_VERSION);
        record.text(&[0; 8]);
        [files, files, central_bytes, central_at].into_iter().for_each(|number| record.long(number));
        let mut locator = Record::new(LONG_END_LOCATOR);
        locator.number(0);
        locator.long(central_at.saturating_add(central_bytes));
        locator.number(1);
        out.extend(record.0);
        out.extend(locator.0);
    }
    let mut record = Record::new(END);
    record.text(&[0; 4]);
    let shown = u16::try_from(files).unwrap_or(u16::MAX);
    record.short(shown);
    record.short(shown);
    record.shortened(central_bytes);
    record.shortened(central_at);
    record.short((COMMENT.len() + SEAL_DIGITS) as u16);
    record.text(COMMENT);
    out.extend(record.0);
    out
}

fn is_long_end(files: u64, central_at: u64, central_bytes: u64) -> bool {
    files >= u64::from(u16::MAX) || is_long(central_at) || is_long(central_bytes)
}

fn is_long(number: u64) -> bool {
    number >= u64::from(LONG)
}

/// Little-endian numbers, one after the other.
struct Record(Vec<u8>);

impl Record {
    fn new(signature: u32) -> Self {
        Self(signature.to_le_bytes().to_vec())
    }

    fn short(&mut self, number: u16) {
        self.text(&number.to_le_bytes());
    }

    fn number(&mut self, number: u32) {
        self.text(&number.to_le_bytes());
    }

    fn long(&mut self, number: u64) {
        self.text(&number.to_le_bytes());
    }

    fn text(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    /// The number, or the mark that it is in its long form elsewhere.
    fn shortened(&mut self, number: u64) {
        self.number(u32::try_from(number).unwrap_or(LONG));
    }

    /// Flags, method (stored as it is), time, checksum and sizes.
    fn common(&mut self, entry: &Entry) {
        self.short(FLAGS);
        self.short(0);
        self.short(0);
        self.short(DATE);
        self.number(entry.crc32);
        self.shortened(entry.size);
        self.shortened(entry.size);
    }

    fn extra(&mut self, numbers: &[u64]) {
        self.short(1);
        self.short(8 * numbers.len() as u16);
        numbers.iter().for_each(|number| self.long(*number));
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Seek, SeekFrom, Write};

    use super::*;

    /// A zip of these files, whose contents are holes.
    fn sparse(files: &[(&str, u64)]) -> std::fs::File {
        let entries = files.iter().map(|(name, size)| Entry { name: (*name).into(), size: *size, crc32: 7 }).collect();
        let (placed, central_at) = place(entries);
        let mut file = tempfile::tempfile().unwrap();
        for placed in &placed {
            file.seek(SeekFrom::Start(placed.header_at)).unwrap();
            file.write_all(&local_header(&placed.entry)).unwrap();
        }
        let central: Vec<u8> = placed.iter().flat_map(central_header).collect();
        file.seek(SeekFrom::Start(central_at)).unwrap();
        file.write_all(&central).unwrap();
        let mut tail = end(files.len() as u64, central_at, central.len() as u64);
        tail.extend([b'0'; SEAL_DIGITS]);
        file.write_all(&tail).unwrap();
        file
    }

    #[test]
    fn other_zip_programs_see_the_same_files_also_beyond_four_gigabytes() {
        let short: &[(&str, u64)] = &[("a", 3), ("b/ä.txt", 0)];
        let long: &[(&str, u64)] = &[("a", 1), ("b", 5 << 30), ("c", u64::from(u32::MAX)), ("d", 9)];
        for files in [short, long] {
            let mut zip = zip::ZipArchive::new(sparse(files)).unwrap();
            assert_eq!(zip.offset(), 0);
            let found: Vec<(String, u64)> = (0..zip.len())
                .map(|at| zip.by_index_raw(at).map(|file| (file.name().unwrap().into_owned(), file.size())).unwrap())
                .collect();
            let expected: Vec<(String, u64)> = files.iter().map(|(name, size)| ((*name).to_owned(), *size)).collect();
            assert_eq!(found, expected);
        }
    }
}
