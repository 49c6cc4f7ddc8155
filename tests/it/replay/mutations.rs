//! Output as no engine has printed it yet: nothing is lost, nothing panics, and one warning names it.

use proptest::prelude::*;
use skill_runner::domain::event::Event;
use skill_runner::engine::{self, ProcessExit};

use super::{Case, Played, code_of, play, recorded, whole};

const ENGINES: [&str; 5] = ["codex", "claude", "gemini", "qwen", "opencode"];

/// The kinds of output that the one warning names.
fn unrecognized(played: &Played) -> Vec<String> {
    let warnings: Vec<_> = played
        .at_the_end
        .iter()
        .filter_map(|event| match event {
            Event::Warned(warning) if warning.code == "ENGINE_OUTPUT_UNRECOGNIZED" => Some(warning),
            _ => None,
        })
        .collect();
    assert!(warnings.len() <= 1);
    warnings.first().map_or_else(Vec::new, |warning| {
        warning.details["types"].as_array().unwrap().iter().map(|name| name.as_str().unwrap().to_owned()).collect()
    })
}

fn raw_text(played: &Played) -> String {
    let texts = played.stdout.iter().filter_map(|fact| match &fact.event {
        Event::RawStdout(raw) => Some(raw.text.as_str()),
        _ => None,
    });
    texts.collect()
}

/// The case with lines put before its last one.
fn with_line(case: &Case, line: &[u8]) -> Case {
    let mut lines: Vec<&[u8]> = case.stdout.split_inclusive(|byte| *byte == b'\n').collect();
    lines.insert(lines.len() - 1, line);
    Case { stdout: lines.concat(), ..case.clone() }
}

#[test]
fn what_was_recorded_is_recognized() {
    for case in super::cases() {
        let name = case.folder.file_name().unwrap().to_str().unwrap();
        // The one recording without --json on its command line.
        let expected: &[&str] = if name == "s5_no_json" { &["(not a JSON object)"] } else { &[] };
        assert_eq!(unrecognized(&play(&case, whole)), expected, "{}", case.folder.display());
    }
}

#[test]
fn an_unknown_kind_of_event_is_evidence_and_is_named_once() {
    for engine in ENGINES {
        let case = recorded(engine, "b_tool_then_json");
        let line = "{\"type\":\"novelty\",\"value\":1}\n";
        let played = play(&with_line(&with_line(&case, line.as_bytes()), line.as_bytes()), whole);
        assert_eq!(unrecognized(&played), ["novelty"], "{engine}");
        assert!(raw_text(&played).contains(line), "{engine}");
        assert_eq!(played.verdict, play(&case, whole).verdict, "{engine}");
    }
}

#[test]
fn garbage_between_the_lines_is_evidence_and_changes_no_verdict() {
    for engine in ENGINES {
        let case = recorded(engine, "b_tool_then_json");
        for (garbage, name) in [
            (&b"Segmentation fault?\n"[..], "(not a JSON object)"),
            (b"\xff\xfe\x00\n", "(not readable)"),
            (b"[1,2]\n", "(not a JSON object)"),
            (b"{}\n", ""),
        ] {
            let played = play(&with_line(&case, garbage), whole);
            assert_eq!(unrecognized(&played), [name], "{engine}");
            assert!(raw_text(&played).contains(&*String::from_utf8_lossy(garbage)), "{engine}");
            assert_eq!(played.verdict, play(&case, whole).verdict, "{engine}");
        }
    }
}

#[test]
fn a_turn_whose_last_line_is_cut_off_has_not_succeeded() {
    for engine in ENGINES {
        let case = recorded(engine, "b_tool_then_json");
        let cut = Case { stdout: case.stdout[..case.stdout.len() - 20].to_vec(), ..case };
        let played = play(&cut, whole);
        assert_eq!(code_of(&played.verdict), "ENGINE_FAILED", "{engine}");
        assert_eq!(unrecognized(&played), ["(not a JSON object)"], "{engine}");
    }
}

#[test]
fn a_renamed_key_makes_its_lines_evidence_and_never_a_success() {
    for (engine, key, named) in [
        ("codex", "thread_id", "thread.started"),
        ("codex", "item", "item.completed"),
        ("claude", "message", "assistant"),
        ("claude", "is_error", "result/success"),
        ("gemini", "session_id", "init"),
        ("gemini", "tool_id", "tool_use"),
        ("qwen", "is_error", "result/success"),
        ("opencode", "part", "text"),
        ("opencode", "reason", "step_finish"),
    ] {
        let case = recorded(engine, "b_tool_then_json");
        let text = String::from_utf8(case.stdout.clone()).unwrap();
        let renamed = text.replace(&format!("\"{key}\":"), &format!("\"{key}_2\":"));
        let played = play(&Case { stdout: renamed.into_bytes(), ..case }, whole);
        assert!(unrecognized(&played).iter().any(|name| name == named), "{engine} {key}: {:?}", unrecognized(&played));
        let decisive = ["is_error", "reason", "part"].contains(&key);
        assert_eq!(code_of(&played.verdict) == "ENGINE_FAILED", decisive, "{engine} {key}");
    }
}

#[test]
fn a_turn_that_breaks_off_anywhere_has_not_succeeded() {
    for engine in ENGINES {
        let case = recorded(engine, "b_tool_then_json");
        let lines: Vec<&[u8]> = case.stdout.split_inclusive(|byte| *byte == b'\n').collect();
        for kept in 0..lines.len() {
            let played = play(&Case { stdout: lines[..kept].concat(), ..case.clone() }, whole);
            assert_eq!(code_of(&played.verdict), "ENGINE_FAILED", "{engine} after {kept} lines");
        }
    }
}

#[test]
fn a_model_whose_answers_keep_breaking_off_ends_the_turn() {
    let case = recorded("opencode", "b_tool_then_json");
    let text = String::from_utf8(case.stdout.clone()).unwrap();
    let broken = text.lines().nth(3).unwrap().replace("tool-calls", "unknown") + "\n";
    let looping = Case { stdout: broken.repeat(10).into_bytes(), ..case.clone() };
    assert!(play(&looping, whole).report.end.is_some());
    let recovering = Case { stdout: (broken.repeat(9) + &text).into_bytes(), ..case };
    assert_eq!(code_of(&play(&recovering, whole).verdict), "succeeded");
}

/// Text an engine might print: its own lines with a byte changed, or nothing of the kind.
fn any_output() -> impl Strategy<Value = (usize, Vec<u8>)> {
    let changed = (0..ENGINES.len(), any::<prop::sample::Index>(), any::<u8>()).prop_map(|(engine, at, byte)| {
        let mut bytes = recorded(ENGINES[engine], "b_tool_then_json").stdout;
        let at = at.index(bytes.len());
        bytes[at] = byte;
        (engine, bytes)
    });
    let line = prop_oneof![
        prop::collection::vec(any::<u8>(), 0..80),
        r#"\{"type":"(item.completed|result|assistant|message|text|error|system)","[a-z_]{1,8}":[0-9]{1,3}\}"#
            .prop_map(String::into_bytes),
    ];
    let nonsense =
        (0..ENGINES.len(), prop::collection::vec(line, 0..12)).prop_map(|(engine, lines)| (engine, lines.join(&b'\n')));
    prop_oneof![changed, nonsense]
}

proptest! {
    #[test]
    fn no_output_is_lost_or_read_differently_by_another_chunking((engine, stdout) in any_output(), length in 1usize..90) {
        let adapter = engine::adapter_named(ENGINES[engine]).unwrap();
        let case = Case {
            folder: "random".into(), adapter, stderr: stdout.clone(), stdout, exit: ProcessExit::Code(0),
            resumed_from: None, usage_before: Default::default(),
        };
        // `play` checks that every byte of both streams is covered.
        let chunked = play(&case, |bytes| vec![length; bytes.len() / length]);
        prop_assert_eq!(chunked, play(&case, whole));
    }
}
