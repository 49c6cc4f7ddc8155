//! A service, an export and a package of others: whatever they say, commands end, take little memory and show what they mean to show.

use std::fs;

use super::place::Place;
use crate::hostile::exports::Made;

const LOG: &str = "logs/events.jsonl";

/// The export of a run whose log holds this.
fn exported(place: &Place, name: &str, log: Vec<u8>) {
    place.finished_run();
    let ran = place.run(&["export", "last", "-o", "run.zip"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let made = Made::of(&fs::read(place.path().join("run.zip")).unwrap());
    fs::write(place.path().join(name), made.listed_with(LOG, log)).unwrap();
}

#[test]
fn a_replay_reads_no_more_of_a_line_than_an_event_may_have() {
    let place = Place::new();
    exported(&place, "long.zip", vec![0; 5 << 20]);
    let ran = place.run(&["replay", "--speed", "max", "long.zip"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""), "{}", ran.stderr);
    assert!(ran.stderr.starts_with("error: read the events: a line has more than 4194304 bytes\n"), "{}", ran.stderr);
}
