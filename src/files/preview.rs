//! What can be shown of a file: text, images that carry no script, and nothing else.

use std::fs::File;
use std::io::{self, Read};

/// Largest text that is shown or compared line by line.
const TEXT_MAX: u64 = 256 * 1024;
/// Largest image that is shown.
const IMAGE_MAX: u64 = 2 * 1024 * 1024;

/// A file as far as it can be shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Preview {
    Text(String),
    Image { mime: &'static str, bytes: Vec<u8> },
    Binary,
    TooLarge,
}

impl Preview {
    /// What can be shown of a file. The bytes say what it is, not its name.
    pub(crate) fn of(file: &mut File) -> io::Result<(u64, Self)> {
        let size = file.metadata()?.len();
        if size > IMAGE_MAX {
            return Ok((size, Self::TooLarge));
        }
        let mut bytes = Vec::new();
        file.take(IMAGE_MAX).read_to_end(&mut bytes)?;
        Ok((size, Self::of_bytes(bytes)))
    }

    pub(crate) fn of_bytes(bytes: Vec<u8>) -> Self {
        if let Some(mime) = image(&bytes) {
            return Self::Image { mime, bytes };
        }
        if bytes.len() as u64 > TEXT_MAX {
            return Self::TooLarge;
        }
        // A NUL is valid UTF-8, but means that the file is not text.
        match String::from_utf8(bytes).ok().filter(|text| !text.contains('\0')) {
            Some(text) => Self::Text(text),
            None => Self::Binary,
        }
    }
}

/// The type of an image that browsers draw and that carries no script.
fn image(bytes: &[u8]) -> Option<&'static str> {
    match bytes {
        [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', ..] => Some("image/png"),
        [0xff, 0xd8, 0xff, ..] => Some("image/jpeg"),
        [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Some("image/gif"),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some("image/webp"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bytes_say_what_a_file_is() {
        let png = b"\x89PNG\r\n\x1a\nrest".to_vec();
        assert_eq!(Preview::of_bytes(png.clone()), Preview::Image { mime: "image/png", bytes: png });
        assert_eq!(Preview::of_bytes(b"<svg onload='x'/>".to_vec()), Preview::Text("<svg onload='x'/>".to_owned()));
        assert_eq!(Preview::of_bytes(b"a\0b".to_vec()), Preview::Binary);
        assert_eq!(Preview::of_bytes(vec![0xff, 0xfe]), Preview::Binary);
        let long = vec![b'a'; usize::try_from(TEXT_MAX).unwrap()];
        assert_eq!(Preview::of_bytes(long.clone()), Preview::Text(String::from_utf8(long.clone()).unwrap()));
        assert_eq!(Preview::of_bytes([long, vec![b'a']].concat()), Preview::TooLarge);
    }
}
