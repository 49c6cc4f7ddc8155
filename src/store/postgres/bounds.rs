//! How much of a row is fetched: no more than this program ever writes. A damaged database could hold a gigabyte in each.

/// Most bytes of a value that this program writes, with room to spare.
pub(super) const MOST_STORED: usize = 4 * 1024 * 1024;

/// A column as SQL that gives nothing of a value which is too long: what reads it takes it for damaged, like one that is no JSON. Of a long
/// value the server looks at the length alone.
macro_rules! bounded {
    ($column:literal) => {
        concat!("case when octet_length(", $column, ") <= 4194304 then ", $column, " else ''::bytea end")
    };
}
pub(super) use bounded;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::MAX_APPEND_BYTES;

    #[test]
    fn whatever_is_written_is_fetched() {
        const { assert!(MOST_STORED >= 4 * MAX_APPEND_BYTES) };
        assert!(bounded!("state").contains(&format!("octet_length(state) <= {MOST_STORED} ")));
    }
}
