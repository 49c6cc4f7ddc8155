//! A batch: consecutive encoded events in one buffer, split and iterated without copying.

use bytes::Bytes;
use memchr::memchr_iter;

use crate::domain::ids::Seq;

/// Consecutive events of one run, each the JSON text followed by a newline. JSON text contains no raw
/// newline, so newlines alone tell where events end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventBatch {
    /// The seq of the first event.
    pub first: Seq,
    /// How many events there are; at least one.
    pub count: u32,
    pub ndjson: Bytes,
}

impl EventBatch {
    /// The seq of the last event.
    pub fn last(&self) -> Seq {
        Seq(self.first.0 + u64::from(self.count) - 1)
    }

    /// The events after `seq`; none if the batch ends there or before.
    pub(crate) fn after(&self, seq: Seq) -> Option<EventBatch> {
        if seq < self.first {
            return Some(self.clone());
        }
        let skipped = u32::try_from(seq.0 - self.first.0 + 1).ok().filter(|skipped| *skipped < self.count)?;
        Some(EventBatch {
            first: seq.next(),
            count: self.count - skipped,
            ndjson: self.ndjson.slice(end_of(&self.ndjson, skipped)..),
        })
    }

    /// The events up to and with `seq`; none if the batch begins after it.
    pub(crate) fn up_to(&self, seq: Seq) -> Option<EventBatch> {
        if seq < self.first {
            return None;
        }
        match u32::try_from(seq.0 - self.first.0 + 1) {
            Ok(count) if count < self.count => {
                Some(EventBatch { first: self.first, count, ndjson: self.ndjson.slice(..end_of(&self.ndjson, count)) })
            }
            Ok(_) | Err(_) => Some(self.clone()),
        }
    }

    /// As many events as fit into `max_bytes`, but at least one.
    pub(super) fn fitting(&self, max_bytes: usize) -> EventBatch {
        if self.ndjson.len() <= max_bytes {
            return self.clone();
        }
        let (mut count, mut end) = (1, end_of(&self.ndjson, 1));
        loop {
            let next = end + end_of(&self.ndjson[end..], 1);
            if next > max_bytes || next == end {
                return EventBatch { first: self.first, count, ndjson: self.ndjson.slice(..end) };
            }
            (count, end) = (count + 1, next);
        }
    }

    /// Each event's seq and JSON text, without the newline.
    pub fn events(&self) -> impl Iterator<Item = (Seq, Bytes)> + '_ {
        let mut start = 0;
        let mut seq = self.first;
        std::iter::from_fn(move || {
            let len = end_of(&self.ndjson[start..], 1);
            let text = self.ndjson.slice(start..start + len.checked_sub(1)?);
            let event = (seq, text);
            (start, seq) = (start + len, seq.next());
            Some(event)
        })
    }

    /// Says what is wrong with the batch, if anything.
    pub(super) fn flaw(&self) -> Option<String> {
        let lines = count_lines(&self.ndjson);
        if self.first == Seq::START {
            Some("seq 0 is before the first event".to_owned())
        } else if self.count == 0 || lines != u64::from(self.count) {
            Some(format!("the batch at {} holds {lines} events and announces {}", self.first, self.count))
        } else if self.ndjson.last() != Some(&b'\n') {
            Some(format!("the batch at {} does not end in a newline", self.first))
        } else {
            None
        }
    }
}

/// Collects batches for a reader, up to a number of bytes.
pub(super) struct Page {
    pub(super) batches: Vec<EventBatch>,
    free: usize,
}

impl Page {
    pub(super) fn new(max_bytes: usize) -> Page {
        Page { batches: Vec::new(), free: max_bytes }
    }

    /// Takes what fits of the next batch, and of the first at least one event. Returns whether more would fit.
    pub(super) fn add(&mut self, batch: EventBatch) -> bool {
        let part = batch.fitting(self.free);
        if part.ndjson.len() <= self.free || self.batches.is_empty() {
            self.free = self.free.saturating_sub(part.ndjson.len());
            let whole = part.count == batch.count;
            self.batches.push(part);
            return whole && self.free > 0;
        }
        false
    }
}

/// How many bytes the first `count` lines take; what has no newline behind it is a line, too.
pub(super) fn end_of(ndjson: &[u8], count: u32) -> usize {
    let Some(last) = usize::try_from(count).ok().and_then(|count| count.checked_sub(1)) else { return 0 };
    memchr_iter(b'\n', ndjson).nth(last).map_or(ndjson.len(), |end| end + 1)
}

/// How many newlines there are.
pub(super) fn count_lines(ndjson: &[u8]) -> u64 {
    u64::try_from(memchr_iter(b'\n', ndjson).count()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn batch(first: u64, texts: &[String]) -> EventBatch {
        let ndjson: String = texts.iter().map(|text| format!("{text}\n")).collect();
        EventBatch { first: Seq(first), count: texts.len() as u32, ndjson: ndjson.into() }
    }

    #[test]
    fn a_wrong_count_a_missing_newline_and_seq_zero_are_named() {
        let good = batch(1, &["{}".to_owned(), "[]".to_owned()]);
        assert_eq!(good.flaw(), None);
        assert_eq!(
            EventBatch { count: 3, ..good.clone() }.flaw(),
            Some("the batch at 1 holds 2 events and announces 3".to_owned())
        );
        assert_eq!(
            EventBatch { count: 1, ndjson: Bytes::from_static(b"{}\n{}"), ..good.clone() }.flaw(),
            Some("the batch at 1 does not end in a newline".to_owned())
        );
        assert_eq!(EventBatch { first: Seq(0), ..good }.flaw(), Some("seq 0 is before the first event".to_owned()));
    }

    #[test]
    fn a_page_goes_on_behind_a_batch_that_fits_and_ends_with_one_of_which_only_a_part_does() {
        let of = |first: u64, count: usize| batch(first, &vec!["123456789".to_owned(); count]);
        let mut page = Page::new(45);
        assert!(page.add(of(1, 2)), "there is room for more");
        assert!(!page.add(of(3, 4)), "what follows would leave out what did not fit");
        assert_eq!(page.batches, [of(1, 2), of(3, 2)]);
        let mut page = Page::new(20);
        assert!(!page.add(of(1, 2)), "it is full");
    }

    proptest! {
        #[test]
        fn a_cut_anywhere_gives_the_two_halves(
            texts in prop::collection::vec("[a-z{}]{0,12}", 1..12), first in 1..1000_u64, at in 0..1020_u64, max in 0..80_usize,
        ) {
            let whole = batch(first, &texts);
            let split = at.saturating_add(1).saturating_sub(first).min(texts.len() as u64) as usize;
            let half = |first, texts: &[String]| (!texts.is_empty()).then(|| batch(first, texts));
            prop_assert_eq!(whole.up_to(Seq(at)), half(first, &texts[..split]));
            prop_assert_eq!(whole.after(Seq(at)), half(first + split as u64, &texts[split..]));

            let events: Vec<_> = whole.events().collect();
            let expected: Vec<_> = texts.iter().enumerate()
                .map(|(i, text)| (Seq(first + i as u64), Bytes::from(text.clone()))).collect();
            prop_assert_eq!(events, expected);

            let fitting = whole.fitting(max);
            prop_assert_eq!(Some(fitting.clone()), whole.up_to(fitting.last()));
            prop_assert!(fitting.ndjson.len() <= max || fitting.count == 1);
            let one_more = whole.up_to(fitting.last().next()).unwrap();
            prop_assert!(one_more == whole && fitting == whole || one_more.ndjson.len() > max);
        }
    }
}
