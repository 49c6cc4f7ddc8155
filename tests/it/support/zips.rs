//! Zips, honest ones and ones that lie.

use std::fs;
use std::io::Write;
use std::path::Path;

use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

/// One entry of a zip written byte by byte, so that it can lie where an honest writer would not.
#[derive(Clone)]
pub struct RawEntry {
    pub name: Vec<u8>,
    pub local_name: Option<Vec<u8>>,
    pub content: Vec<u8>,
    pub declared_size: Option<u32>,
    pub crc: Option<u32>,
    pub unix_mode: u32,
    pub flags: u16,
    pub method: u16,
}

impl RawEntry {
    pub fn file(name: impl AsRef<[u8]>, content: &[u8]) -> Self {
        Self {
            name: name.as_ref().to_vec(),
            local_name: None,
            content: content.to_vec(),
            declared_size: None,
            crc: None,
            unix_mode: 0o100_644,
            flags: 0,
            method: 0,
        }
    }
}

fn crc32(bytes: &[u8]) -> u32 {
    let mut crc = u32::MAX;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 { (crc >> 1) ^ 0xedb8_8320 } else { crc >> 1 };
        }
    }
    !crc
}

/// The fields that local and central headers share, from `flags` to the sizes.
fn shared_fields(entry: &RawEntry, name: &[u8]) -> Vec<u8> {
    let size = entry.declared_size.unwrap_or(entry.content.len() as u32);
    let mut out = Vec::new();
    out.extend(entry.flags.to_le_bytes());
    out.extend(entry.method.to_le_bytes());
    out.extend([0, 0, 0x21, 0]);
    out.extend(entry.crc.unwrap_or_else(|| crc32(&entry.content)).to_le_bytes());
    out.extend((entry.content.len() as u32).to_le_bytes());
    out.extend(size.to_le_bytes());
    out.extend((name.len() as u16).to_le_bytes());
    out.extend([0, 0]);
    out
}

pub fn raw_zip(entries: &[RawEntry]) -> Vec<u8> {
    let (mut out, mut directory) = (Vec::new(), Vec::new());
    for entry in entries {
        let offset = out.len() as u32;
        let local_name = entry.local_name.as_ref().unwrap_or(&entry.name);
        out.extend(*b"PK\x03\x04\x14\x00");
        out.extend(shared_fields(entry, local_name));
        out.extend(local_name);
        out.extend(&entry.content);
        directory.extend(*b"PK\x01\x02\x14\x03\x14\x00");
        directory.extend(shared_fields(entry, &entry.name));
        directory.extend([0; 6]);
        directory.extend((entry.unix_mode << 16).to_le_bytes());
        directory.extend(offset.to_le_bytes());
        directory.extend(&entry.name);
    }
    let offset = out.len() as u32;
    out.extend(&directory);
    out.extend(end_record(entries.len() as u16, directory.len() as u32, offset));
    out
}

pub fn end_record(entries: u16, directory_bytes: u32, directory_offset: u32) -> Vec<u8> {
    let mut out = b"PK\x05\x06\x00\x00\x00\x00".to_vec();
    out.extend(entries.to_le_bytes());
    out.extend(entries.to_le_bytes());
    out.extend(directory_bytes.to_le_bytes());
    out.extend(directory_offset.to_le_bytes());
    out.extend([0, 0]);
    out
}

const ZIP64_END: &[u8] = b"PK\x06\x06";
const ZIP64_LOCATOR: &[u8] = b"PK\x06\x07";

/// A zip whose long-form end says this about its directory, and whose locator points there.
pub fn zip64(
    entry: RawEntry,
    entries: u64,
    directory_bytes: u64,
    directory_offset: u64,
    end_offset: Option<u64>,
) -> Vec<u8> {
    let honest = raw_zip(&[entry]);
    let mut zip = honest[..honest.len() - 22].to_vec();
    let end = zip.len() as u64;
    zip.extend(ZIP64_END);
    zip.extend(44_u64.to_le_bytes());
    zip.extend([45, 0, 45, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    for number in [entries, entries, directory_bytes, directory_offset] {
        zip.extend(number.to_le_bytes());
    }
    zip.extend(ZIP64_LOCATOR);
    zip.extend(0_u32.to_le_bytes());
    zip.extend(end_offset.unwrap_or(end).to_le_bytes());
    zip.extend(1_u32.to_le_bytes());
    zip.extend(end_record(u16::MAX, u32::MAX, u32::MAX));
    zip
}

pub fn deflated(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut writer = ZipWriter::new(std::io::Cursor::new(Vec::new()));
    for (name, content) in files {
        writer.start_file(*name, SimpleFileOptions::default().compression_method(CompressionMethod::Deflated)).unwrap();
        writer.write_all(content).unwrap();
    }
    writer.finish().unwrap().into_inner()
}

/// The zip of a folder, which stands at its top.
pub fn zip_folder(folder: &Path) -> Vec<u8> {
    let top = folder.file_name().unwrap().to_str().unwrap();
    let mut files = Vec::new();
    let mut waiting = vec![folder.to_owned()];
    while let Some(dir) = waiting.pop() {
        for entry in fs::read_dir(dir).unwrap().map(Result::unwrap) {
            if entry.file_type().unwrap().is_dir() {
                waiting.push(entry.path());
            } else {
                let inside = entry.path().strip_prefix(folder).unwrap().to_str().unwrap().to_owned();
                files.push((format!("{top}/{inside}"), fs::read(entry.path()).unwrap()));
            }
        }
    }
    let files: Vec<(&str, &[u8])> = files.iter().map(|(name, bytes)| (name.as_str(), bytes.as_slice())).collect();
    deflated(&files)
}
