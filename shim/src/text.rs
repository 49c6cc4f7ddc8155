//! Whole numbers as decimal digits, and short paths made of words.

/// A whole number in decimal digits.
pub(crate) fn number(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0_u64, |sum, digit| {
        let digit = digit.is_ascii_digit().then(|| u64::from(digit - b'0'))?;
        sum.checked_mul(10)?.checked_add(digit)
    })
}

/// The digits of a number.
pub(crate) fn digits(mut number: u64, space: &mut [u8; 20]) -> &[u8] {
    let mut begin = space.len();
    for (at, place) in space.iter_mut().enumerate().rev() {
        // A remainder of ten fits.
        *place = b'0' + (number % 10) as u8;
        begin = at;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    space.get(begin..).unwrap_or_default()
}

/// A path of limited length, ended by a NUL byte for the kernel.
pub(crate) struct Path<const MAX: usize> {
    bytes: [u8; MAX],
    length: usize,
}

impl<const MAX: usize> Path<MAX> {
    /// The words one after the other; `None` when they are too long.
    pub(crate) fn of(words: &[&[u8]]) -> Option<Path<MAX>> {
        let mut path = Path { bytes: [0; MAX], length: 0 };
        for word in words.iter().chain([&&b"\0"[..]]) {
            let end = path.length.checked_add(word.len())?;
            path.bytes.get_mut(path.length..end)?.copy_from_slice(word);
            path.length = end;
        }
        Some(path)
    }

    /// With its NUL byte.
    pub(crate) fn ended(&self) -> &[u8] {
        self.bytes.get(..self.length).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_their_digits() {
        for value in [0, 7, 10, 4_194_304, u64::MAX] {
            let (mut space, text) = ([0; 20], value.to_string());
            assert_eq!(digits(value, &mut space), text.as_bytes());
            assert_eq!(number(text.as_bytes()), Some(value));
        }
        for none in [&b""[..], b"-1", b"1 ", b"18446744073709551616"] {
            assert_eq!(number(none), None);
        }
    }

    #[test]
    fn a_path_is_whole_or_none() {
        assert_eq!(Path::<8>::of(&[b"/a/", b"bcde"]).unwrap().ended(), b"/a/bcde\0");
        assert!(Path::<8>::of(&[b"/a/", b"bcdef"]).is_none());
    }
}
