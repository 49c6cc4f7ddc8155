//! What is noted each second.

/// Memory and sizes in MB, latency in milliseconds.
pub struct Sample {
    pub second: f64,
    pub memory: f64,
    pub descriptors: f64,
    pub threads: f64,
    pub store: f64,
    pub runs: f64,
    pub p99: f64,
    pub finished: f64,
}

/// A column: its name, and how to read it from a sample.
pub struct Column {
    pub name: &'static str,
    pub of: fn(&Sample) -> f64,
}

pub const COLUMNS: [Column; 7] = [
    Column { name: "memory, MB", of: |sample| sample.memory },
    Column { name: "descriptors", of: |sample| sample.descriptors },
    Column { name: "threads", of: |sample| sample.threads },
    Column { name: "store, MB", of: |sample| sample.store },
    Column { name: "run folders, MB", of: |sample| sample.runs },
    Column { name: "request p99, ms", of: |sample| sample.p99 },
    Column { name: "runs ended in the second", of: |sample| sample.finished },
];

/// About this many rows are printed.
const ROWS: usize = 24;

pub fn print(samples: &[Sample]) {
    let names: Vec<&str> = COLUMNS.iter().map(|column| column.name).collect();
    println!("| second | {} |\n| ---: {}|", names.join(" | "), "| ---: ".repeat(COLUMNS.len()));
    let step = samples.len().div_ceil(ROWS).max(1);
    for sample in samples.iter().step_by(step) {
        let row = COLUMNS.iter().map(|column| format!("{:>1$.1}", (column.of)(sample), column.name.len()));
        println!("| {:>6.0} | {} |", sample.second, row.collect::<Vec<_>>().join(" | "));
    }
}
