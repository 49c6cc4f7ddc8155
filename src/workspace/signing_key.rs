//! The key that signs the runs of a data folder: made once, readable by its owner alone.

use std::io::{self, ErrorKind, Read};

use rustix::rand::{GetRandomFlags, getrandom};

use super::layout::Layout;
use crate::fcmp::Signer;
use crate::files::{self, Error};

/// Longest key file that is read: its digits and an end of line.
const FILE_MAX: u64 = 128;

/// The key of a data folder; a folder without one gets one, durable when done.
pub(crate) fn signing_key(layout: &Layout) -> Result<Signer, Error> {
    if let Some(signer) = read_signing_key(layout)? {
        return Ok(signer);
    }
    let path = layout.signing_key();
    let mut seed = [0; 32];
    let mut filled = 0;
    while filled < seed.len() {
        filled += getrandom(&mut seed[filled..], GetRandomFlags::empty()).map_err(Error::on("make", &path))?;
    }
    files::create_private_durably(&path, format!("{}\n", hex::encode(seed)).as_bytes())?;
    // Another process may have made one at the same time: the file counts.
    read_signing_key(layout)?.ok_or_else(|| Error::on("read", &path)(io::Error::from(ErrorKind::NotFound)))
}

/// The key of a data folder that has one.
pub(crate) fn read_signing_key(layout: &Layout) -> Result<Option<Signer>, Error> {
    let path = layout.signing_key();
    let file = match files::open_regular(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut text = String::new();
    file.take(FILE_MAX).read_to_string(&mut text).map_err(Error::on("read", &path))?;
    let mut seed = [0; 32];
    let wrong = |_| {
        let message = "it is not a signing key (64 hexadecimal digits): restore it from a backup, or move it away to get a new key";
        Error::on("read", &path)(io::Error::new(ErrorKind::InvalidData, message))
    };
    hex::decode_to_slice(text.trim_end(), &mut seed).map_err(wrong)?;
    Ok(Some(Signer::from_seed(&seed)))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_data_folder_gets_its_key_once_for_its_owner_alone() {
        let folder = tempfile::tempdir().unwrap();
        let layout = Layout::new(folder.path());
        assert!(read_signing_key(&layout).unwrap().is_none());
        let made = signing_key(&layout).unwrap().public_key();
        assert_eq!(signing_key(&layout).unwrap().public_key(), made);
        assert_eq!(fs::metadata(layout.signing_key()).unwrap().permissions().mode() & 0o777, 0o600);
        let other = tempfile::tempdir().unwrap();
        assert_ne!(signing_key(&Layout::new(other.path())).unwrap().public_key(), made);
    }

    #[test]
    fn a_damaged_key_is_told_and_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let layout = Layout::new(folder.path());
        for text in ["", "abc\n", &"0".repeat(66)] {
            fs::write(layout.signing_key(), text).unwrap();
            let error = signing_key(&layout).unwrap_err();
            assert!(error.source.to_string().contains("not a signing key"), "{error:?}");
            assert_eq!(fs::read_to_string(layout.signing_key()).unwrap(), text);
        }
    }
}
