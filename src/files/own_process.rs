//! What this process uses of the machine, as the kernel tells it.

use std::fs;

use crate::metrics::ProcessReadings;

/// Reads it; what cannot be read is zero.
pub(crate) fn own_process() -> ProcessReadings {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let machine = fs::read_to_string("/proc/stat").unwrap_or_default();
    let descriptors = fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
    let most = super::open_files();
    ProcessReadings {
        // The descriptor that the folder is read with is not counted.
        open_descriptors: u64::try_from(descriptors.saturating_sub(1)).unwrap_or(0),
        most_descriptors: (most < u64::MAX).then_some(most),
        ..read(&stat, &machine, ticks_per_second(), page_size())
    }
}

#[expect(clippy::cast_precision_loss, reason = "100 on every Linux")]
fn ticks_per_second() -> f64 {
    rustix::param::clock_ticks_per_second() as f64
}

fn page_size() -> u64 {
    u64::try_from(rustix::param::page_size()).unwrap_or(4096)
}

fn read(stat: &str, machine: &str, ticks_per_second: f64, page_size: u64) -> ProcessReadings {
    // The name of the program, in parentheses, may hold anything.
    let fields: Vec<&str> = stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_ascii_whitespace().collect();
    // The first field after the name is the third of the file.
    let number = |nth: usize| fields.get(nth - 3).and_then(|field| field.parse::<u64>().ok()).unwrap_or(0);
    let seconds = |ticks: u64| real(ticks) / ticks_per_second;
    let booted = machine.lines().find_map(|line| line.strip_prefix("btime ")?.trim().parse().ok()).unwrap_or(0);
    ProcessReadings {
        cpu_seconds: seconds(number(14) + number(15)),
        threads: number(20),
        started_at_seconds: real(booted) + seconds(number(22)),
        virtual_bytes: number(23),
        resident_bytes: number(24) * page_size,
        open_descriptors: 0,
        most_descriptors: None,
    }
}

#[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
fn real(number: u64) -> f64 {
    number as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lines_of_the_kernel_are_read_also_with_a_strange_program_name() {
        let stat =
            "7 (a) b (c) S 1 7 7 0 -1 4194560 100 0 0 0 150 50 0 0 20 0 9 0 1000 4096000 25 18446744073709551615";
        let found = read(stat, "cpu 1\nbtime 1700000000\n", 100.0, 4096);
        let expected = ProcessReadings {
            cpu_seconds: 2.0,
            resident_bytes: 25 * 4096,
            virtual_bytes: 4_096_000,
            threads: 9,
            started_at_seconds: 1_700_000_010.0,
            open_descriptors: 0,
            most_descriptors: None,
        };
        assert_eq!(found, expected);
    }

    #[test]
    fn this_process_uses_memory_descriptors_and_threads() {
        let own = own_process();
        assert!(own.resident_bytes > 1 << 20 && own.open_descriptors > 2 && own.threads > 0, "{own:?}");
        assert!(own.started_at_seconds > 1.6e9, "{own:?}");
    }
}
