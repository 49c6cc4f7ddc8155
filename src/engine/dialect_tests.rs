//! Tests of lines that are in no recording.

use serde_json::json;

use super::excerpt::EXCERPT_MAX;
use super::report::Denial;
use super::*;
use crate::domain::event::{AssistantReasoning, CommandExecution, Event, ToolCall};
use crate::domain::fact::Stream;
use crate::domain::outcome::Usage;

fn read(engine: &str, lines: &[serde_json::Value]) -> (Vec<Event>, TurnReport) {
    let mut parser = adapter_named(engine).unwrap().parser(None, Usage::default());
    let mut events = Vec::new();
    for line in lines {
        match parser.read(Stream::Stdout, &line.to_string()) {
            Reading::Events(read) => events.extend(read),
            Reading::Closed { held, line } => events.extend(std::iter::once(*held).chain(line)),
            Reading::Held | Reading::Unclaimed => {}
        }
    }
    events.extend(parser.finish());
    (events, parser.report().clone())
}

fn tool_call(call_id: &str, tool: &str, input: serde_json::Value, output: &str, status: &str) -> Event {
    Event::ToolCall(Box::new(ToolCall {
        call_id: call_id.into(),
        tool: tool.into(),
        input,
        output: output.into(),
        status: status.into(),
    }))
}

fn warning_codes(events: &[Event]) -> Vec<&str> {
    let warnings = events.iter().filter_map(|event| match event {
        Event::Warned(warning) => Some(warning.code.as_str()),
        _ => None,
    });
    warnings.collect()
}

#[test]
fn codex_items_of_every_documented_kind_are_read() {
    let completed = |item| json!({ "type": "item.completed", "item": item });
    let (events, report) = read(
        "codex",
        &[
            completed(json!({ "id": "1", "type": "reasoning", "text": "Hm" })),
            completed(
                json!({ "id": "2", "type": "file_change", "changes": [{ "path": "/a", "kind": "add" }], "status": "failed" }),
            ),
            completed(json!({ "id": "3", "type": "mcp_tool_call", "server": "s", "tool": "t", "arguments": { "a": 1 },
                "result": { "b": 2 }, "error": null, "status": "completed" })),
            completed(json!({ "id": "4", "type": "web_search", "query": "q" })),
            completed(
                json!({ "id": "5", "type": "command_execution", "command": "false", "aggregated_output": "", "exit_code": 1, "status": "failed" }),
            ),
            json!({ "type": "item.updated", "item": { "id": "6", "type": "todo_list" } }),
        ],
    );
    let failed_command = CommandExecution {
        command: "false".into(),
        exit_code: Some(1),
        output: String::new(),
        status: "failed".into(),
    };
    let expected = [
        Event::AssistantReasoning(AssistantReasoning { text: "Hm".into() }),
        tool_call("2", "file_change", json!({ "changes": [{ "path": "/a", "kind": "add" }] }), "", "failed"),
        tool_call("3", "s.t", json!({ "arguments": { "a": 1 } }), "{\"b\":2}", "completed"),
        tool_call("4", "web_search", json!({ "query": "q" }), "", "completed"),
        Event::CommandExecution(failed_command),
    ];
    assert_eq!(events, expected);
    assert_eq!(report.end, None);
}

#[test]
fn what_a_sub_agent_says_is_not_the_assistants_word() {
    let says = |text: &str, parent: Option<&str>| {
        let message = json!({ "id": "m", "content": [{ "type": "text", "text": text }] });
        json!({ "type": "assistant", "message": message, "parent_tool_use_id": parent })
    };
    let (events, report) = read("claude", &[says("mine", None), says("__SKILL_DONE__", Some("toolu_1"))]);
    assert_eq!(events.len(), 1);
    assert_eq!(report.final_text(), Some("mine"));
}

#[test]
fn a_line_of_several_blocks_says_all_of_them_and_answers_in_blocks_are_joined() {
    let blocks = json!([
        { "type": "thinking", "thinking": "Hm" },
        { "type": "text", "text": "I look." },
        { "type": "tool_use", "id": "t1", "name": "Read", "input": { "path": "a" } },
    ]);
    let answer = json!([{ "type": "tool_result", "tool_use_id": "t1",
        "content": [{ "type": "text", "text": "one" }, { "type": "image" }] }]);
    let (events, _) = read(
        "claude",
        &[
            json!({ "type": "assistant", "message": { "id": "m", "content": blocks } }),
            json!({ "type": "user", "message": { "content": answer } }),
        ],
    );
    assert_eq!(events.len(), 4);
    assert_eq!(events[0], Event::AssistantReasoning(AssistantReasoning { text: "Hm".into() }));
    assert_eq!(events[3], tool_call("t1", "Read", json!({ "path": "a" }), "one\n[image]", "completed"));
}

#[test]
fn denied_tools_are_told_once_at_the_end_of_a_turn_that_succeeded() {
    let denial = json!({ "tool_name": "WebSearch", "tool_use_id": "t1", "tool_input": {} });
    let (events, report) = read(
        "claude",
        &[
            json!({ "type": "result", "subtype": "success", "is_error": false, "result": "done", "permission_denials": [denial] }),
        ],
    );
    assert_eq!(warning_codes(&events), ["ENGINE_PERMISSION_DENIED"]);
    assert_eq!(report.end, Some(ReportedEnd::Succeeded));
    assert_eq!(report.denials, [Denial { tool: "WebSearch".into(), call_id: "t1".into() }]);
}

#[test]
fn an_opencode_turn_that_ends_without_stop_or_with_an_error_after_it_has_not_succeeded() {
    let step = |reason: &str| json!({ "type": "step_finish", "sessionID": "ses_1", "part": { "reason": reason } });
    let rejected = json!({ "type": "tool_use", "sessionID": "ses_1", "part": { "tool": "bash", "callID": "c",
        "state": { "status": "error", "input": { "command": "ls /etc" }, "error": "rejected" } } });
    let error = json!({ "type": "error", "sessionID": "ses_1", "error": { "name": "UnknownError", "data": {} } });
    let ends = |lines: &[serde_json::Value]| read("opencode", lines).1.end;
    assert_eq!(ends(&[rejected.clone(), step("tool-calls")]), None);
    assert_eq!(ends(&[step("stop"), error]), None);
    assert_eq!(ends(&[step("stop")]), Some(ReportedEnd::Succeeded));
    let (events, _) = read("opencode", &[rejected]);
    assert!(
        matches!(&events[1], Event::CommandExecution(command) if command.status == "failed" && command.output == "rejected")
    );
}

#[test]
fn what_is_long_is_cut_in_the_event_and_says_so() {
    let long = "x".repeat(EXCERPT_MAX + 5);
    let item = json!({ "id": "1", "type": "command_execution", "command": "c", "aggregated_output": long, "exit_code": 0, "status": "completed" });
    let (events, _) = read("codex", &[json!({ "type": "item.completed", "item": item })]);
    let Event::CommandExecution(command) = &events[0] else { panic!("{events:?}") };
    assert!(command.output.ends_with("\n[cut: 65536 of 65541 bytes shown]"));
}

#[test]
fn only_what_a_resumed_session_used_anew_is_reported() {
    let before = Usage { input_tokens: 100, cached_input_tokens: 0, output_tokens: 20, cost_usd: None };
    let line = json!({ "type": "turn.completed", "usage": { "input_tokens": 130, "cached_input_tokens": 5, "output_tokens": 21 } });
    let used = |resumed: Option<&str>| {
        let mut parser = adapter_named("codex").unwrap().parser(resumed, before);
        parser.read(Stream::Stdout, &line.to_string());
        parser.report().usage.map(|usage| (usage.input_tokens, usage.output_tokens))
    };
    assert_eq!(used(Some("01a1e212-7b08-7880-8338-1569b3c6ebe6")), Some((30, 1)));
    assert_eq!(used(None), Some((130, 21)));
}

/// One line makes at most a few thousand events, and no id of it is repeated in each of them at its full length: a line of 8 MB would
/// else become terabytes.
#[test]
fn a_message_of_very_many_blocks_stays_raw_text_and_a_long_id_is_cut() {
    let id = "i".repeat(100_000);
    let message = |blocks: usize| {
        let content = vec![json!({ "type": "text", "text": "x" }); blocks];
        json!({ "type": "assistant", "message": { "id": id, "content": content } })
    };
    for engine in ["claude", "qwen"] {
        let (events, report) = read(engine, &[message(4096)]);
        let written: usize = events.iter().map(|event| serde_json::to_vec(&format!("{event:?}")).unwrap().len()).sum();
        assert_eq!(events.len(), 4096);
        assert!(written < 4096 * 500, "{engine}: {written} bytes of events");
        assert_eq!(report.messages().len(), 4096);
        let (events, report) = read(engine, &[message(4097)]);
        assert_eq!(warning_codes(&events), ["ENGINE_OUTPUT_UNRECOGNIZED"]);
        assert_eq!((events.len(), report.messages().len()), (1, 0));
        assert_eq!(report.unrecognized, ["(too many blocks)"]);
    }
}

#[test]
fn denials_are_told_in_a_warning_that_fits_the_store_however_many_there_are() {
    let denial = json!({ "tool_name": "T".repeat(1000), "tool_use_id": "i".repeat(1000) });
    let line =
        json!({ "type": "result", "is_error": false, "result": "done", "permission_denials": vec![denial; 1000] });
    let (_, report) = read("claude", &[line]);
    let cut = Denial { tool: "T".repeat(256), call_id: "i".repeat(256) };
    assert_eq!(report.denials, vec![cut; 100]);
}
