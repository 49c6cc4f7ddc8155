//! What people see on a terminal: no line wraps, and the progress bar stays on its line.

use super::place::Place;
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
