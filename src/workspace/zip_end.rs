//! The end of a zip, which locates its list of entries. A zip in which two readers could find different lists is refused.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

const END: &[u8] = b"PK\x05\x06";
const END_BYTES: usize = 22;
const LONG_END: &[u8] = b"PK\x06\x06";
const LONG_END_BYTES: usize = 56;
const ENTRY: &[u8] = b"PK\x01\x02";
const ENTRY_BYTES: usize = 46;
const LOCATOR: &[u8] = b"PK\x06\x07";
const LOCATOR_BYTES: u64 = 20;
/// The longest comment that can follow.
const COMMENT_MAX: usize = u16::MAX as usize;

/// What is wrong with the end of a zip, if anything.
pub(crate) fn objection(file: &File, length: u64) -> io::Result<Option<&'static str>> {
    let tail_bytes = usize::try_from(length).unwrap_or(usize::MAX).min(END_BYTES + COMMENT_MAX);
    let mut tail = vec![0; tail_bytes];
    let tail_at = length - tail_bytes as u64;
    file.read_exact_at(&mut tail, tail_at)?;
    // The last one that has room counts, whatever looks like one before it.
    let whole = tail_bytes.saturating_sub(END_BYTES - END.len());
    let Some(at) = memchr::memmem::rfind(&tail[..whole], END) else { return Ok(Some("the end of a zip is missing")) };
    if at + END_BYTES + short(&tail, at + 20) > tail_bytes {
        return Ok(Some("its end is cut off"));
    }
    let end_at = tail_at + at as u64;
    let (entries, bytes, offset) = (short(&tail, at + 10) as u64, long(&tail, at + 12), long(&tail, at + 16));
    let Some(found) = long_end(file, end_at)? else { return objection_to_list(file, offset, bytes, entries, end_at) };
    let Some((long_at, long_entries, long_bytes, long_offset)) = found else {
        return Ok(Some("its long-form end is not where it says"));
    };
    // The long form counts only where the short one cannot hold the number.
    let agrees = |short: u64, none: u64, long: u64| short == none || short == long;
    let both = agrees(entries, u64::from(u16::MAX), long_entries)
        && agrees(bytes, u64::from(u32::MAX), long_bytes)
        && agrees(offset, u64::from(u32::MAX), long_offset);
    if !both {
        return Ok(Some("its two ends contradict each other"));
    }
    objection_to_list(file, long_offset, long_bytes, long_entries, long_at)
}

/// Some readers count entries, others read to the end of the list: both must find the same ones.
fn objection_to_list(file: &File, offset: u64, bytes: u64, entries: u64, end: u64) -> io::Result<Option<&'static str>> {
    if offset.checked_add(bytes) != Some(end) {
        return Ok(Some("its list of entries is not where its end says"));
    }
    let (mut at, mut counted) = (offset, 0);
    while at < end && counted < entries {
        let mut entry = [0; ENTRY_BYTES];
        if end - at < ENTRY_BYTES as u64 {
            break;
        }
        file.read_exact_at(&mut entry, at)?;
        if !entry.starts_with(ENTRY) {
            break;
        }
        at += (ENTRY_BYTES + short(&entry, 28) + short(&entry, 30) + short(&entry, 32)) as u64;
        counted += 1;
    }
    Ok(((at, counted) != (end, entries)).then_some("its list does not have as many entries as its end says"))
}

type LongEnd = (u64, u64, u64, u64);

/// The end in its long form: where it is, how many entries, bytes and offset of their list. `None` when the file does not
/// refer to a long form, `Some(None)` when it does and there is none.
fn long_end(file: &File, end_at: u64) -> io::Result<Option<Option<LongEnd>>> {
    let Some(locator_at) = end_at.checked_sub(LOCATOR_BYTES) else { return Ok(None) };
    let mut locator = [0; LOCATOR_BYTES as usize];
    file.read_exact_at(&mut locator, locator_at)?;
    if !locator.starts_with(LOCATOR) {
        return Ok(None);
    }
    let long_at = very_long(&locator, 8);
    let mut end = [0; LONG_END_BYTES];
    let fits = long_at.checked_add(LONG_END_BYTES as u64).is_some_and(|to| to <= locator_at);
    if !fits {
        return Ok(Some(None));
    }
    file.read_exact_at(&mut end, long_at)?;
    let reaches = very_long(&end, 4).checked_add(long_at + 12) == Some(locator_at);
    if !end.starts_with(LONG_END) || !reaches {
        return Ok(Some(None));
    }
    Ok(Some(Some((long_at, very_long(&end, 32), very_long(&end, 40), very_long(&end, 48)))))
}

fn short(bytes: &[u8], at: usize) -> usize {
    number(bytes, at, 2) as usize
}

fn long(bytes: &[u8], at: usize) -> u64 {
    number(bytes, at, 4)
}

fn very_long(bytes: &[u8], at: usize) -> u64 {
    number(bytes, at, 8)
}

fn number(bytes: &[u8], at: usize, width: usize) -> u64 {
    bytes[at..at + width].iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    /// An entry of a list, whose name is said to be so long.
    fn entry(name_bytes: u16) -> Vec<u8> {
        let mut entry = vec![0; ENTRY_BYTES];
        entry[..4].copy_from_slice(ENTRY);
        entry[28..30].copy_from_slice(&name_bytes.to_le_bytes());
        entry
    }

    /// What is wrong with a list of entries of which the end counts so many.
    fn objection_to(list: &[u8], entries: u16) -> Option<&'static str> {
        let mut end = vec![0; END_BYTES];
        end[..4].copy_from_slice(END);
        end[10..12].copy_from_slice(&entries.to_le_bytes());
        end[12..16].copy_from_slice(&(list.len() as u32).to_le_bytes());
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[list, &end].concat()).unwrap();
        objection(&file, (list.len() + END_BYTES) as u64).unwrap()
    }

    #[test]
    fn a_list_has_exactly_the_entries_that_its_end_counts() {
        let named = [entry(3), b"one".to_vec()].concat();
        let two = [named.clone(), entry(0)].concat();
        for (list, entries) in [(&[][..], 0), (&named, 1), (&two, 2)] {
            assert_eq!(objection_to(list, entries), None);
        }
        let wrong = Some("its list does not have as many entries as its end says");
        let too_long = [entry(0), entry(1000)].concat();
        for (list, entries) in [(&[][..], 1), (&named, 0), (&named, 2), (&two, 1), (&two, 3), (&two[..60], 2)] {
            assert_eq!(objection_to(list, entries), wrong, "{} bytes, {entries} entries", list.len());
        }
        for (list, entries) in [(&b"no entry"[..], 1), (&too_long, 2), (&too_long, 3)] {
            assert_eq!(objection_to(list, entries), wrong, "{} bytes, {entries} entries", list.len());
        }
    }
}
