//! Tests of sealed logs: every cursor gives its suffix, and damage is repaired or named.

use proptest::prelude::*;
use std::fs;

use super::*;

/// Batches of `per_batch` events, the k-th being `lens[k]` bytes of text.
fn batches(lens: &[usize], per_batch: usize) -> Vec<EventBatch> {
    let texts: Vec<String> = lens.iter().enumerate().map(|(k, len)| format!("{k}{}\n", "x".repeat(*len))).collect();
    let mut first = 1;
    let of = |texts: &[String]| {
        let batch = EventBatch { first: Seq(first), count: texts.len() as u32, ndjson: texts.concat().into() };
        first += texts.len() as u64;
        batch
    };
    texts.chunks(per_batch).map(of).collect()
}

fn whole(batches: &[EventBatch]) -> Vec<u8> {
    batches.iter().flat_map(|batch| batch.ndjson.to_vec()).collect()
}

fn seal(path: &Path, batches: impl Iterator<Item = Result<EventBatch, Error>>) -> Result<Sealed, Error> {
    let mut sealing = Sealing::begin(path, 16)?;
    for batch in batches {
        sealing.push(&batch?)?;
    }
    sealing.finish()
}

fn sealed(folder: &Path, batches: &[EventBatch]) -> PathBuf {
    let path = folder.join("events.jsonl");
    let head = batches.last().map_or(Seq::START, EventBatch::last);
    let result = seal(&path, batches.iter().cloned().map(Ok)).unwrap();
    assert_eq!(result, Sealed { head, bytes: whole(batches).len() as u64 });
    path
}

fn index_of(log: &[u8]) -> Index {
    let mut builder = Builder::default();
    builder.add(log);
    builder.finish()
}

/// All events from a cursor on, in reads of `max_bytes`.
fn read_all(log: &SealedLog, mut after: Seq, max_bytes: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    loop {
        let page = log.read(after, max_bytes).unwrap();
        let Some(last) = page.last() else { return bytes };
        for batch in &page {
            assert_eq!((batch.first, batch.flaw()), (after.next(), None));
            assert!(batch.ndjson.len() <= max_bytes || batch.count == 1);
            after = batch.last();
            bytes.extend_from_slice(&batch.ndjson);
        }
        assert_eq!(last.last(), after);
    }
}

#[test]
fn an_index_is_read_as_it_was_written() {
    // One that cannot be read is made anew at each read of the log, which nobody sees but by the time it takes.
    for events in [0, 1, 127, 128, 129, 1000] {
        let index = index_of(&whole(&batches(&vec![20; events], 10)));
        assert_eq!(Index::decode(&index.encode()), Some(index), "{events} events");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    #[test]
    fn a_read_from_any_cursor_gives_exactly_the_suffix(
        lens in prop::collection::vec(prop_oneof![20 => 0..40_usize, 1 => 1000..70_000_usize], 0..500),
        per_batch in 1..50_usize,
        cursors in prop::collection::vec(0..520_u64, 6),
        max_bytes in prop_oneof![0..200_usize, 1000..100_000_usize],
    ) {
        let folder = tempfile::tempdir().unwrap();
        let batches = batches(&lens, per_batch);
        let log = SealedLog::open(&sealed(folder.path(), &batches), Seq(lens.len() as u64)).unwrap();
        for cursor in cursors {
            let suffix: Vec<_> = batches.iter().filter_map(|batch| batch.after(Seq(cursor))).collect();
            prop_assert_eq!(read_all(&log, Seq(cursor), max_bytes), whole(&suffix));
        }
    }
}

#[test]
fn a_missing_cut_altered_or_foreign_index_is_made_anew() {
    let folder = tempfile::tempdir().unwrap();
    let batches = batches(&vec![30; 1000], 7);
    let path = sealed(folder.path(), &batches);
    let index = folder.path().join("events.idx");
    let good = fs::read(&index).unwrap();

    let mut altered = good.clone();
    altered[30] ^= 1;
    // Of a log with as many bytes and events, which end elsewhere.
    let mut rotated = whole(&batches);
    rotated.rotate_left(5);
    let foreign = index_of(&rotated).encode();
    for wrong in [None, Some(good[..good.len() - 9].to_vec()), Some(altered), Some(foreign)] {
        match &wrong {
            Some(bytes) => fs::write(&index, bytes).unwrap(),
            None => fs::remove_file(&index).unwrap(),
        }
        let log = SealedLog::open(&path, Seq(1000)).unwrap();
        assert_eq!(read_all(&log, Seq(0), 4096), whole(&batches));
        assert_eq!(fs::read(&index).unwrap(), good);
    }
}

#[test]
fn a_seal_over_the_leavings_of_a_killed_one_gives_the_whole_log() {
    let folder = tempfile::tempdir().unwrap();
    let batches = batches(&vec![30; 300], 7);
    fs::write(folder.path().join(".events-killed.tmp"), b"{\"half").unwrap();
    fs::write(folder.path().join("events.idx"), index_of(b"1\n2\n").encode()).unwrap();
    sealed(folder.path(), &batches);
    let log = SealedLog::open(&sealed(folder.path(), &batches), Seq(300)).unwrap();
    assert_eq!(read_all(&log, Seq(0), 4096), whole(&batches));
}

#[test]
fn a_failing_source_and_a_hole_leave_no_log_behind() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("events.jsonl");
    let batches = batches(&[1, 2, 3, 4], 2);
    let failing = [Ok(batches[0].clone()), Err(Error::Closed)];
    assert!(matches!(seal(&path, failing.into_iter()), Err(Error::Closed)));
    let hole = [Ok(batches[1].clone())];
    assert!(matches!(seal(&path, hole.into_iter()), Err(Error::Malformed { .. })));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn a_log_cut_in_the_middle_of_an_event_is_named_damaged() {
    let folder = tempfile::tempdir().unwrap();
    let path = sealed(folder.path(), &batches(&vec![30; 300], 7));
    let bytes = fs::read(&path).expect("the sealed log is there");
    fs::write(&path, &bytes[..bytes.len() - 5]).unwrap();
    match SealedLog::open(&path, Seq(300)) {
        Err(Error::CorruptFile { reason, .. }) => assert_eq!(reason, "its last line has no end"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_is_no_regular_file_is_neither_followed_nor_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let log = sealed(folder.path(), &batches(&[10; 3], 1));
    let (link, pipe) = (folder.path().join("link.jsonl"), folder.path().join("pipe.jsonl"));
    std::os::unix::fs::symlink(&log, &link).unwrap();
    let mode = rustix::fs::Mode::RWXU;
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    assert!(SealedLog::open(&link, Seq(3)).is_err());
    assert!(SealedLog::open(&pipe, Seq(3)).is_err());
    // An index that cannot be read is as good as none.
    let long = sealed(folder.path(), &batches(&[100; 300], 7));
    let index = index_path(&long);
    fs::remove_file(&index).unwrap();
    rustix::fs::mknodat(rustix::fs::CWD, &index, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    assert!(SealedLog::open(&long, Seq(300)).is_ok());
}

/// What is said of a log that is not opened.
fn flaw(path: &Path, head: u64) -> String {
    match SealedLog::open(path, Seq(head)) {
        Err(Error::CorruptFile { reason, .. }) => reason,
        other => panic!("{other:?}"),
    }
}

/// Each would take an hour to read.
#[test]
fn a_log_that_is_far_too_long_is_not_read_to_its_end() {
    let folder = tempfile::tempdir().unwrap();
    let path = sealed(folder.path(), &batches(&[10; 3], 1));
    let file = fs::File::options().write(true).open(&path).unwrap();
    file.set_len(8 << 40).unwrap();
    assert_eq!(flaw(&path, 3), "event 4 has no end");
    fs::write(&path, "x\n".repeat(1_000_000)).unwrap();
    fs::File::options().write(true).open(&path).unwrap().set_len(8 << 40).unwrap();
    assert_eq!(flaw(&path, 3), "it has more than the 3 events that were recorded");
    fs::write(&path, "x\nx\n").unwrap();
    assert_eq!(flaw(&path, 3), "it has 2 events, and should have 3");
}

/// A read makes room for all that lies between two of its places.
#[test]
fn an_index_whose_places_no_log_can_have_is_none() {
    for offsets in [vec![0, 50, 40], vec![0, 200, 300], vec![0, 0, 50], vec![0, 10, 100]] {
        let index = Index { head: Seq(300), log_bytes: 100, offsets };
        assert_eq!(Index::decode(&index.encode()), None);
    }
    let vast = Index { head: Seq(130), log_bytes: 2 << 40, offsets: vec![0, 1 << 40] };
    assert_eq!(Index::decode(&vast.encode()), None);
    let good = Index { head: Seq(300), log_bytes: 100, offsets: vec![0, 40, 50] };
    assert_eq!(Index::decode(&good.encode()), Some(good));
}
