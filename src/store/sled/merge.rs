//! The entries of several databases in one order; of equal keys, the one of the newest database.

use std::iter::Peekable;

use sled::IVec;

type Entry = sled::Result<(IVec, IVec)>;

/// Entries of several iterators, each of which is in order.
pub(super) struct Merged<I: Iterator<Item = Entry>> {
    /// Newest database first.
    parts: Vec<Peekable<I>>,
    descending: bool,
}

impl<I: Iterator<Item = Entry>> Merged<I> {
    /// Ascending keys; the newest database comes first.
    pub(super) fn ascending(newest_first: impl Iterator<Item = I>) -> Self {
        Merged { parts: newest_first.map(Iterator::peekable).collect(), descending: false }
    }

    /// Descending keys; the newest database comes first.
    pub(super) fn descending(newest_first: impl Iterator<Item = I>) -> Self {
        Merged { parts: newest_first.map(Iterator::peekable).collect(), descending: true }
    }
}

impl<I: Iterator<Item = Entry>> Iterator for Merged<I> {
    /// The entry, and which database it is from.
    type Item = (usize, Entry);

    fn next(&mut self) -> Option<(usize, Entry)> {
        let mut next: Option<(usize, IVec)> = None;
        for at in 0..self.parts.len() {
            let key = match self.parts[at].peek() {
                None => continue,
                Some(Ok((key, _))) => key,
                Some(Err(_)) => return self.parts[at].next().map(|failed| (at, failed)),
            };
            let comes_first =
                next.as_ref().is_none_or(|(_, best)| if self.descending { key > best } else { key < best });
            if comes_first {
                next = Some((at, key.clone()));
            }
        }
        let (at, key) = next?;
        for older in &mut self.parts[at + 1..] {
            older.next_if(|entry| entry.as_ref().is_ok_and(|(other, _)| *other == key));
        }
        self.parts[at].next().map(|entry| (at, entry))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(keys: &[u8], value: u8) -> std::vec::IntoIter<Entry> {
        let entries: Vec<Entry> = keys.iter().map(|key| Ok((IVec::from(&[*key]), IVec::from(&[value])))).collect();
        entries.into_iter()
    }

    fn told<I: Iterator<Item = Entry>>(merged: Merged<I>) -> Vec<(usize, u8, u8)> {
        merged.map(|(at, entry)| entry.map(|(key, value)| (at, key[0], value[0])).unwrap()).collect()
    }

    #[test]
    fn of_equal_keys_the_newest_is_taken_in_both_directions() {
        let parts = [entries(&[2, 5], 0), entries(&[1, 2, 3], 1), entries(&[3, 5, 9], 2)];
        let expected = vec![(1, 1, 1), (0, 2, 0), (1, 3, 1), (0, 5, 0), (2, 9, 2)];
        assert_eq!(told(Merged::ascending(parts.into_iter())), expected);

        let parts = [entries(&[5, 2], 0), entries(&[3, 2, 1], 1), entries(&[9, 5, 3], 2)];
        let expected: Vec<_> = expected.into_iter().rev().collect();
        assert_eq!(told(Merged::descending(parts.into_iter())), expected);
    }

    #[test]
    fn a_failed_read_is_told() {
        let failed = vec![Err(sled::Error::ReportableBug("no".into()))];
        let merged = Merged::ascending([entries(&[1], 0), failed.into_iter()].into_iter());
        assert_eq!(merged.map(|(at, entry)| (at, entry.is_ok())).collect::<Vec<_>>(), [(1, false), (0, true)]);
    }
}
