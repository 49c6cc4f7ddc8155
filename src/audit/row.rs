//! Compares the stored row of a run with the state that its events fold to.

use serde_json::Value;

use crate::audit::log::Outcome;
use crate::audit::report::Report;
use crate::fcmp::LogHead;
use crate::projection::job;

/// The part of the data folder that holds rows.
const STORE: &str = "store";

/// What is kept of a run besides its log.
pub(crate) enum StoredRow {
    Head(Box<LogHead>),
    /// The job that a service answered with, made from its row.
    Job(Value),
}

/// Checks the row against the fold of the events.
pub(crate) fn check(row: StoredRow, log: &Outcome, report: &mut Report) {
    let Some(folded) = &log.folded else {
        return report.not_checked.push("the stored row, because the log cannot be read to its end".to_owned());
    };
    match row {
        StoredRow::Head(head) => stored(&head, folded, report),
        StoredRow::Job(shown) => shown_by_service(&shown, folded, report),
    }
}

fn stored(row: &LogHead, folded: &LogHead, report: &mut Report) {
    report.checked.push("stored row");
    let mut expected = folded.state.clone();
    // Rows of older versions do not name it.
    expected.cached_from = expected.cached_from.filter(|_| row.state.cached_from.is_some());
    if row.state != expected {
        let fields = match (serde_json::to_value(&row.state), serde_json::to_value(&expected)) {
            (Ok(row), Ok(folded)) => differing(&folded, &row).join(", "),
            _ => String::new(),
        };
        report.violated("ROW", STORE, format!("the row differs from the state of the events: {fields}"));
    }
    if row.chain != folded.chain {
        report.violated("ROW", STORE, "the row's hash chain differs from the log's: an event was changed");
    }
}

fn shown_by_service(shown: &Value, folded: &LogHead, report: &mut Report) {
    if shown["head_seq"].as_u64() > Some(folded.state.head_seq.0) {
        return report.not_checked.push("the stored row, because the run has continued".to_owned());
    }
    let Ok(mut expected) = serde_json::to_value(job(&folded.state, None)) else { return };
    if let Some(expected) = expected.as_object_mut() {
        // They are not part of the log.
        expected.remove("queue_position");
        expected.remove("integrity");
    }
    report.checked.push("stored row");
    let fields = differing(&expected, shown);
    if !fields.is_empty() {
        let message = format!("the job differs from the state of the events: {}", fields.join(", "));
        report.violated("ROW", STORE, message);
    }
}

fn differing(expected: &Value, found: &Value) -> Vec<String> {
    let fields = expected.as_object().into_iter().flatten();
    fields.filter(|(name, value)| found[name.as_str()] != **value).map(|(name, _)| name.clone()).collect()
}
