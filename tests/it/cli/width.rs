//! What people see on a terminal: nothing is broken inside a word, and the progress bar stays on its line.

use std::process::{Command, Stdio};

use unicode_width::UnicodeWidthStr;

use super::place::Place;
use crate::support::program;

/// Says how far it is in wide characters, and fails with a long line.
const FAILING: &str = "cat >/dev/null\n\
    for p in 10 50 90; do echo \"$p% 正在处理一个非常长的文件名字的文件并且继续处理直到结束为止 and more words follow\" >&2; done\n\
    echo \"ModuleNotFoundError: No module named 'pandas', which was wanted by a package with a long name\" >&2\nexit 1\n";

/// What a command writes on a terminal with so many columns.
fn on_terminal(place: &Place, columns: usize, args: &str) -> String {
    let own = program();
    let typed = format!("stty cols {columns} rows 40; {} {args}", own.get_program().to_str().unwrap());
    let mut script = Command::new("script");
    script.args(["-qec", &typed, "/dev/null"]).current_dir(place.path()).env("TERM", "xterm").env("NO_COLOR", "1");
    script.env_remove("SKILL_RUNNER_TEST_CLIS").env_remove("SKILL_RUNNER_TEST_REPEAT").stdin(Stdio::null());
    String::from_utf8(script.output().unwrap().stdout).unwrap()
}

/// The lines that a terminal shows one after the other; one that is written over is shown, too.
fn shown(written: &str) -> Vec<String> {
    let plain = written.replace("\x1b[2K", "");
    plain.split(['\n', '\r']).filter(|line| !line.is_empty()).map(str::to_owned).collect()
}

#[test]
fn nothing_is_broken_inside_a_word_and_the_progress_bar_stays_on_its_line() {
    if Command::new("script").arg("--version").output().is_err() {
        eprintln!("there is no `script`, so nothing was tried on a terminal");
        return;
    }
    let place = Place::new();
    place.skill("failing", FAILING);
    for columns in [60, 120] {
        let ran = on_terminal(&place, columns, "run failing --no-cache");
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
        ];
        let mut service = None;
        let mut told = vec![("run failing --no-cache", ran)];
        for args in all {
            if args.starts_with("watch") {
                service = Some(place.start(&["serve", "--port", "0"], "listening on "));
            }
            told.push((args, on_terminal(&place, columns, args)));
        }
        drop(service);
        for (args, written) in told {
            let words = written.split_whitespace().collect::<Vec<_>>().join(" ");
            let fails = !args.ends_with("missing") && !args.ends_with("nothing");
            assert!(
                !fails || words.contains("status 1: ModuleNotFoundError: No module named 'pandas'"),
                "{args}: {words}"
            );
            for line in shown(&written) {
                // Wide characters have no spaces between words.
                let one_word = !line.trim().contains(' ') || line.contains('正') && !line.contains('█');
                assert!(line.width() <= columns || one_word, "{columns} columns, {args}: {line:?}");
            }
        }
    }
}
