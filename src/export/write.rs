//! An export, written from its first byte to its last without seeking: the same run gives the same bytes.

use std::io::{self, Write};

use sha2::{Digest as _, Sha256};

use super::contents::{About, CONTENTS, Contents, Listed};
use super::error::Error;
use super::layout::{self, Entry};
use super::names::name_objection;
use super::piece::{Digest, Piece};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Written {
    /// What the export holds.
    pub(crate) contents: Contents,
    pub(crate) bytes: u64,
    /// The seal at its end.
    pub(crate) seal: String,
}

/// Writes the files of a run as one file. Each is read twice, first for its hash, because its header precedes its content.
pub(crate) fn write(about: About, mut files: Vec<(String, Piece)>, out: &mut impl Write) -> Result<Written, Error> {
    files.sort_by(|one, other| one.0.cmp(&other.0));
    let mut entries = Vec::with_capacity(files.len() + 1);
    let mut listed = Vec::with_capacity(files.len());
    for (name, piece) in &files {
        if let Some(reason) = name_objection(name) {
            return Err(Error::Name { name: name.clone(), reason });
        }
        let Digest { size, sha256, crc32 } = piece.digest(|_| Ok(())).map_err(Error::io(format!("read {name}")))?;
        entries.push(Entry { name: name.clone(), size, crc32 });
        listed.push(Listed { path: name.clone(), size, sha256 });
    }
    let contents = Contents::new(about, listed);
    let text = contents.to_bytes();
    entries.push(Entry { name: CONTENTS.to_owned(), size: text.len() as u64, crc32: crc32fast::hash(&text) });
    let (placed, central_at) = layout::place(entries);
    let mut out = Sealing { out, hash: Sha256::new(), bytes: 0 };
    for ((name, piece), (placed, listed)) in files.iter().zip(placed.iter().zip(&contents.files)) {
        out.put(&layout::local_header(&placed.entry))?;
        let again = piece.digest(|chunk| out.put_io(chunk)).map_err(Error::io(format!("copy {name}")))?;
        if (again.size, &again.sha256) != (listed.size, &listed.sha256) {
            return Err(Error::Changed { name: name.clone() });
        }
    }
    if let Some(placed) = placed.last() {
        out.put(&layout::local_header(&placed.entry))?;
    }
    out.put(&text)?;
    let central: Vec<u8> = placed.iter().flat_map(layout::central_header).collect();
    out.put(&central)?;
    out.put(&layout::end(placed.len() as u64, central_at, central.len() as u64))?;
    let seal = hex::encode(out.hash.clone().finalize());
    out.put(seal.as_bytes())?;
    Ok(Written { contents, bytes: out.bytes, seal })
}

/// Writes bytes and hashes them.
struct Sealing<'a, W> {
    out: &'a mut W,
    hash: Sha256,
    bytes: u64,
}

impl<W: Write> Sealing<'_, W> {
    fn put_io(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.hash.update(bytes);
        self.bytes += bytes.len() as u64;
        self.out.write_all(bytes)
    }

    fn put(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.put_io(bytes).map_err(Error::io("write the export"))
    }
}
