//! Runs as a table for people, and as lines for programs.

use serde_json::Value;

use crate::cli::terminal::look::{fit, one_line, width};
use crate::cli::terminal::table;
use crate::domain::time::Timestamp;

/// Longest value in a cell.
const CELL_MAX: usize = 40;
/// Longest cause; `explain` has all of it.
const CAUSE_MAX: usize = 120;
/// Characters of an id that are shown: the time, and enough to tell runs of the same millisecond apart.
const ID_SHOWN: usize = 18;

const HEADS: [&str; 7] = ["RUN", "STATUS", "AGE", "SKILL", "ENGINE", "LABELS", "ERROR"];
/// The columns that are there at any width; of the others, those that do not fit are left out.
const ALWAYS: usize = 4;

/// A table of runs. Why a run failed stands behind the other columns, or below them where there is no room.
pub(super) fn table(jobs: &[&Value], now: Timestamp, columns: usize) -> String {
    let mut rows = vec![HEADS.map(str::to_owned)];
    rows.extend(jobs.iter().map(|job| cells(job, now)));
    let used = |at: &usize| rows.iter().skip(1).any(|row| !row[*at].is_empty());
    let mut shown: Vec<usize> = (0..HEADS.len() - 1).filter(used).collect();
    let needed = |shown: &[usize]| {
        let wide = |at: &usize| rows.iter().map(|row| width(&row[*at])).max().unwrap_or(0) + 2;
        shown.iter().map(wide).sum::<usize>().saturating_sub(2)
    };
    while needed(&shown) > columns && shown.last().is_some_and(|last| *last >= ALWAYS) {
        shown.pop();
    }
    shown.push(HEADS.len() - 1);
    let rows: Vec<Vec<String>> = rows.iter().map(|row| shown.iter().map(|at| row[*at].clone()).collect()).collect();
    table::lines(&rows, columns).iter().map(|line| fit(line, columns)).collect::<Vec<_>>().join("\n")
}

fn cells(job: &Value, now: Timestamp) -> [String; 7] {
    let text = |value: &Value| one_line(value.as_str().unwrap_or_default(), CELL_MAX);
    let status = if job["awaiting_upload"] == true { "awaits files".to_owned() } else { text(&job["status"]) };
    let created: Option<Timestamp> = job["created_at"].as_str().and_then(|text| text.parse().ok());
    [
        text(&job["run_id"]).chars().take(ID_SHOWN).collect(),
        status,
        created.map(|created| age(now.as_micros() - created.as_micros())).unwrap_or_default(),
        text(&job["skill_id"]),
        text(&job["engine"]),
        one_line(&labels(job), CELL_MAX),
        cause(&job["error"]),
    ]
}

fn cause(error: &Value) -> String {
    let text = |key: &str| error[key].as_str().unwrap_or_default();
    match (text("code"), text("message")) {
        (code, "") => one_line(code, CAUSE_MAX),
        (code, message) => one_line(&format!("{code}: {message}"), CAUSE_MAX),
    }
}

/// One line for programs: whole values, separated by tabs.
pub(super) fn separated(job: &Value) -> String {
    let text = |value: &Value| one_line(value.as_str().unwrap_or_default(), usize::MAX);
    let code = text(&job["error"]["code"]);
    let labels = one_line(&labels(job), usize::MAX);
    let named = ["run_id", "status", "created_at", "skill_id", "engine"].map(|key| text(&job[key]));
    named.into_iter().chain([code, labels]).collect::<Vec<_>>().join("\t")
}

pub(super) fn labels(job: &Value) -> String {
    let labels = job["labels"].as_object().into_iter().flatten();
    labels.map(|(name, value)| format!("{name}={}", value.as_str().unwrap_or_default())).collect::<Vec<_>>().join(",")
}

fn age(micros: i64) -> String {
    let seconds = (micros / 1_000_000).max(0);
    match seconds {
        ..60 => format!("{seconds} s"),
        60..3600 => format!("{} min", seconds / 60),
        3600..172_800 => format!("{} h", seconds / 3600),
        _ => format!("{} d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_table_has_a_line_per_run_and_fits_the_terminal() {
        let now: Timestamp = "2026-11-16T02:00:00Z".parse().unwrap();
        let job = |id: &str, skill: &str, error: Value| {
            json!({"run_id": id, "status": "failed", "created_at": "2026-11-16T01:50:00.000000Z", "skill_id": skill,
                "engine": "script", "error": error, "labels": {"team": "x"}})
        };
        let (one, other) = (
            job(
                "0192f3c1-8a54-7cc2-b0a1-d2f8a6c1e9b7",
                "a",
                json!({"code": "TIMEOUT", "message": "it took 3 s too long"}),
            ),
            job("0192f3c1-8a54-7cc3-b0a1-d2f8a6c1e9b7", "図書館", json!(null)),
        );
        assert_eq!(
            table(&[&one, &other], now, 100),
            "RUN                 STATUS  AGE     SKILL   ENGINE  LABELS  ERROR\n\
             0192f3c1-8a54-7cc2  failed  10 min  a       script  team=x  TIMEOUT: it took 3 s too long\n\
             0192f3c1-8a54-7cc3  failed  10 min  図書館  script  team=x"
        );
        // The last columns go first, and the cause stays.
        assert_eq!(
            table(&[&one, &other], now, 53),
            "RUN                 STATUS  AGE     SKILL   ENGINE\n      ERROR\n\
             0192f3c1-8a54-7cc2  failed  10 min  a       script\n      TIMEOUT: it took 3 s too long\n\
             0192f3c1-8a54-7cc3  failed  10 min  図書館  script"
        );
        for columns in [20, 43, 60] {
            assert!(table(&[&one, &other], now, columns).lines().all(|line| width(line) <= columns));
        }
        let good = job("0192f3c1-8a54-7cc4-b0a1-d2f8a6c1e9b7", "b", json!(null));
        assert_eq!(table(&[&good], now, 60).lines().count(), 2, "without failed runs there is no column for causes");
        assert_eq!(
            separated(&one),
            "0192f3c1-8a54-7cc2-b0a1-d2f8a6c1e9b7\tfailed\t2026-11-16T01:50:00.000000Z\ta\tscript\tTIMEOUT\tteam=x"
        );
    }

    #[test]
    fn an_age_is_told_in_one_unit() {
        let told = |seconds: i64| age(seconds * 1_000_000);
        assert_eq!([told(-5), told(59), told(60), told(7200), told(200_000)], ["0 s", "59 s", "1 min", "2 h", "2 d"]);
    }
}
