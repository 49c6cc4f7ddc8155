//! What people see on a terminal: no line wraps, and the progress bar stays on its line.

use serde_json::json;

use super::place::Place;
use crate::support::Call;
use crate::support::terminal::{Terminal, too_long};

/// Says how far it is in wide characters, and fails with a long line.
const FAILING: &str = "cat >/dev/null\n\
    for p in 10 50 90; do echo \"$p% 正在处理一个非常长的文件名字的文件并且继续处理直到结束为止 and more words follow\" >&2; done\n\
    echo \"ModuleNotFoundError: No module named 'pandas', which was wanted by a package with a long name\" >&2\n\
    echo 错误：在处理一个非常长的文件名字的文件时没有找到所需要的模块并且不能继续处理直到结束为止所以程序现在停止了 >&2\nexit 1\n";

#[test]
fn no_line_of_any_command_wraps_and_the_progress_bar_stays_on_its_line() {
    let place = Place::new();
    place.skill("failing", FAILING);
    for columns in [60, 120] {
        let on_terminal = |args: &str| {
            let args: Vec<&str> = args.split(' ').collect();
            Terminal::start(place.command(&args), columns).end().1
        };
        let ran = on_terminal("run failing --no-cache");
        assert!(ran.contains("90%"), "{ran}");
        // What needs a service comes last: the others ask it, too, while it runs.
        let all = [
            "runs",
            "result last",
            "show last",
            "explain last",
            "history last",
            "run missing",
            "show nothing",
            "watch last",
            "watch last --verbose",
        ];
        let mut service = None;
        let mut told = vec![("run failing --no-cache", ran)];
        for args in all {
            if args == "watch last" {
                service = Some(place.start(&["serve", "--port", "0"], "listening on "));
            }
            told.push((args, on_terminal(args)));
        }
        drop(service);
        for (args, written) in told {
            let words = written.split_whitespace().collect::<Vec<_>>().join(" ");
            let fails = !args.ends_with("missing") && !args.ends_with("nothing");
            let cause = "status 1: ModuleNotFoundError: No module named 'pandas'";
            assert!(!fails || words.contains(cause), "{args}: {words}");
            assert_eq!(too_long(&written, columns.into()), Vec::<String>::new(), "{columns} columns, {args}");
        }
    }
}

/// Tells two steps, with a gate after each. The gates are not the same one: a writer that closes late would open the second, too.
const TWO_STEPS: &str = "cat >/dev/null\n\
    mkfifo gate\n\
    echo '25% the first of two steps, which has a long description that does not fit into a narrow line' >&2\n\
    read line < gate\n\
    rm gate; mkfifo gate\n\
    echo '75% the second of two steps, which has a long description that does not fit into a narrow line' >&2\n\
    read line < gate\n\
    rm gate\n\
    echo '{\"success\":true,\"data\":{}}'\n";

/// Each step is on the terminal before the next begins, of a run in the command itself, beside a service, and of one that is watched.
#[test]
fn a_run_that_goes_on_is_shown_step_by_step_and_no_line_wraps() {
    let place = Place::new();
    place.skill("two-steps", TWO_STEPS);
    let lived = |terminal: Terminal, what: &str, columns: u16| {
        terminal.until("25%");
        place.open_gate();
        terminal.until("75%");
        place.open_gate();
        let (code, written) = terminal.end();
        assert_eq!(code, Some(0), "{what} at {columns}: {written}");
        assert_eq!(too_long(&written, columns.into()), Vec::<String>::new(), "{what} at {columns}");
        let last = written.trim_end().rsplit(['\r', '\n']).next().unwrap_or_default();
        assert!(!last.contains("75%"), "{what} at {columns}: the progress is gone at the end: {written:?}");
    };
    let run = ["run", "two-steps", "--no-cache"];
    for columns in [60, 120] {
        lived(Terminal::start(place.command(&run), columns), "run", columns);
    }
    let (_service, line) = place.start(&["serve", "--port", "0"], "listening on ");
    let address = line.strip_prefix("listening on http://").unwrap().parse().unwrap();
    for columns in [60, 120] {
        lived(Terminal::start(place.command(&run), columns), "run beside a service", columns);
        let body = json!({"skill_id": "two-steps", "runtime_options": {"no_cache": true}});
        assert_eq!(Call::new(address, "POST", "/v1/jobs").json(&body).send().status, 201);
        lived(Terminal::start(place.command(&["watch", "last"]), columns), "watch", columns);
    }
}
