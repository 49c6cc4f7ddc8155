//! Tests that this machine cannot run: each is named when it is left out, and they are counted when the tests are over.

use std::io::Write;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Mutex, OnceLock};

/// Reads a reason per line, to the end, and tells how often there was each.
const COUNT: &str =
    r#"sort | uniq -c | while read -r count reason; do echo "NOT RUN, in all: $count ($reason)"; done >&2"#;

/// Says that a test is left out, past the harness, which shows the output of failed tests alone.
pub fn tell(reason: &str, test: &str) {
    static COUNTER: OnceLock<Mutex<Option<ChildStdin>>> = OnceLock::new();
    let counter = COUNTER.get_or_init(|| Mutex::new(counter(Stdio::inherit()).stdin.take()));
    let _ = writeln!(std::io::stderr(), "NOT RUN ({reason}): {test}");
    note(counter.lock().unwrap().as_mut().unwrap(), reason);
}

/// A process that counts what it is told. It sees the end of its input when this process ends, in whatever way, and tells then.
fn counter(stderr: Stdio) -> Child {
    let mut shell = Command::new("sh");
    shell.args(["-c", COUNT]).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(stderr).spawn().unwrap()
}

fn note(counter: &mut ChildStdin, reason: &str) {
    let _ = writeln!(counter, "{}", reason.replace('\n', " "));
}

#[test]
fn what_is_left_out_is_counted_by_its_reason_at_the_end() {
    let mut counter = counter(Stdio::piped());
    let mut told = counter.stdin.take().unwrap();
    for reason in ["no database", "no\nbrowser", "no database"] {
        note(&mut told, reason);
    }
    drop(told);
    let said = counter.wait_with_output().unwrap().stderr;
    assert_eq!(String::from_utf8(said).unwrap(), "NOT RUN, in all: 1 (no browser)\nNOT RUN, in all: 2 (no database)\n");
}
