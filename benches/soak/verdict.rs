//! Whether anything still grows: the last third of the time beside the middle third.

use crate::numbers::median;
use crate::sample::{COLUMNS, Sample};

/// What must be flat: the last third may have this many times the middle third, and this much more.
const TOLERANCES: [(&str, f64, f64); 5] = [
    ("memory, MB", 1.1, 8.0),
    ("descriptors", 1.1, 8.0),
    ("threads", 1.1, 4.0),
    ("store, MB", 1.2, 16.0),
    ("run folders, MB", 1.2, 8.0),
];

/// Prints the verdict; whether all is flat.
pub fn print(samples: &[Sample]) -> bool {
    println!("\n| medians | middle third | last third | at most | |\n| --- | ---: | ---: | ---: | --- |");
    let third = samples.len() / 3;
    let mut all_flat = true;
    for (name, factor, more) in TOLERANCES {
        let of = COLUMNS.iter().find(|column| column.name == name).unwrap().of;
        let over = |samples: &[Sample]| median(&samples.iter().map(of).collect::<Vec<_>>());
        let (middle, last) = (over(&samples[third..2 * third]), over(&samples[2 * third..]));
        let most = middle * factor + more;
        let verdict = if last <= most { "flat" } else { "GROWS" };
        all_flat &= last <= most;
        println!("| {name} | {middle:.1} | {last:.1} | {most:.1} ({factor} × the middle + {more}) | {verdict} |");
    }
    all_flat
}
