//! The checker on a log that is right, on each beginning of it, and on logs with one thing wrong.

use serde_json::{Value, json};

use super::*;
use crate::domain::codes::ErrorCode;
use crate::domain::command::{Command, Conclusion, LastFiles};
use crate::domain::event::AssistantMessage;
use crate::domain::fact::{Fact, RawRange};
use crate::domain::outcome::{Evidence, RunError};
use crate::domain::request::{ExecutionMode, Retry};
use crate::domain::samples::{
    RUN, ask, at, bound, end_turn, evidence, raw, refused, reply, start_turn, started, succeed,
};
use crate::domain::{decide, ending};
use crate::fcmp::Encoder;

/// The streams of the run: three bytes of standard output.
fn streams() -> BTreeMap<Stream, StreamProof> {
    BTreeMap::from([(Stream::Stdout, StreamProof { bytes: 3, sha256: "4".repeat(64) })])
}

/// A run that asks, is answered, speaks in its second attempt and succeeds; its events, line by line.
fn log() -> Vec<Vec<u8>> {
    log_with(succeed())
}

/// The same, with another end.
fn log_with(end: Command) -> Vec<Vec<u8>> {
    let message = Event::AssistantMessage(AssistantMessage { message_id: "m".into(), text: "done".into() });
    let second = Fact::raw_text(RawRange { stream: Stream::Stdout, from: 1, to: 3 }, "yz".into());
    let first = started(ExecutionMode::Interactive, false, false);
    let commands = [
        Command::Create(Box::new(first)),
        start_turn(),
        Command::Record(vec![bound(), raw()]),
        ask(),
        reply(1, json!("blue"), None),
        start_turn(),
        Command::Record(vec![second, Fact::own(message)]),
        end,
    ];
    encoded(commands.into())
}

/// The events of a run, one command in each second, line by line.
fn encoded(commands: Vec<Command>) -> Vec<Vec<u8>> {
    let streams = streams().into_iter().map(|(stream, proof)| (stream.as_str().to_owned(), proof)).collect();
    let evidence = Evidence { streams, ..evidence() };
    let mut encoder = Encoder::new(RUN);
    let mut log = Vec::new();
    for (second, command) in (0..).zip(commands) {
        let ends = encoder.state().and_then(|run| ending(run, &command));
        let files = ends.map(|_| LastFiles { facts: vec![], evidence: evidence.clone() });
        let decision = decide(encoder.state(), command, files, at(second)).unwrap();
        log.extend(encoder.encode(decision, at(second)).unwrap().into_iter().flat_map(|page| page.ndjson));
    }
    log.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).map(<[u8]>::to_vec).collect()
}

/// Which rules are broken, and at which events.
fn broken(log: &[Vec<u8>], expect: Expect) -> Vec<(&'static str, u64)> {
    let mut auditor = Auditor::default();
    log.iter().for_each(|line| auditor.push(line));
    auditor.finish(&streams(), expect).iter().map(|violation| (violation.rule, violation.seq)).collect()
}

/// The log with one event changed.
fn changed(at: usize, change: impl FnOnce(&mut Value)) -> Vec<Vec<u8>> {
    let mut log = log();
    let mut event = serde_json::from_slice(&log[at]).unwrap();
    change(&mut event);
    log[at] = event.to_string().into_bytes();
    log
}

/// Where the nth event of this type is.
fn place(name: &str, nth: usize) -> usize {
    let is = |line: &Vec<u8>| serde_json::from_slice::<Value>(line).unwrap()["type"] == name;
    log().iter().enumerate().filter(|(_, line)| is(line)).nth(nth).unwrap().0
}

#[test]
fn a_log_that_is_right_breaks_no_rule_and_neither_does_any_beginning_of_it() {
    let log = log();
    assert_eq!(broken(&log, Expect::Final), []);
    for length in 0..log.len() {
        assert_eq!(broken(&log[..length], Expect::Any), [], "the first {length} of {} events", log.len());
    }
    let failed = Conclusion::Failed(RunError::new(ErrorCode::EngineFailed, "broken"));
    assert_eq!(broken(&log_with(end_turn(failed)), Expect::Final), []);
}

#[test]
fn each_thing_that_is_wrong_breaks_its_rule_at_its_event() {
    let whole = log();
    let last = whole.len() as u64;
    assert_eq!(broken(&whole[..whole.len() - 1], Expect::Final), [("OR-01", 0), ("PROOF", 0)]);
    let mut longer = whole.clone();
    longer.push(whole[whole.len() - 2].clone());
    assert_eq!(broken(&longer, Expect::Final)[0], ("OR-01", last + 1));

    let found = |log: &[Vec<u8>], rule, seq| assert!(broken(log, Expect::Final).contains(&(rule, seq)), "{rule} {seq}");
    // Another run's event: the hash chain, which ends in the proof, is another as well.
    let foreign = changed(3, |event| event["run_id"] = json!("00000000-0000-0000-0000-000000000009"));
    assert_eq!(broken(&foreign, Expect::Final), [("OR-03", 4), ("PROOF", last)]);
    let earlier = changed(5, |event| event["ts"] = json!("1969-12-31T23:59:59.000000Z"));
    found(&earlier, "OR-03", 6);
    let raw_event = place("raw.stdout", 1);
    let other_attempt = changed(raw_event, |event| event["raw_ref"]["attempt_number"] = json!(1));
    found(&other_attempt, "OR-06", raw_event as u64 + 1);
    let gap = changed(raw_event, |event| event["raw_ref"]["byte_from"] = json!(2));
    found(&gap, "OR-06", raw_event as u64 + 1);
    let answer = place("interaction.reply.accepted", 0);
    let other_question = changed(answer, |event| event["data"]["interaction_id"] = json!(2));
    found(&other_question, "OR-07", answer as u64 + 1);

    // The event that says so is missing: numbers, chain and rules tell.
    let without = |at: usize| [&whole[..at], &whole[at + 1..]].concat();
    let (end, question, resumed) = (
        place("conversation.state.changed", 4),
        place("user.input.required", 0),
        place("assistant.message.final", 0) as u64 + 1,
    );
    found(&without(end), "OR-05", last);
    found(&without(question), "OR-02", question as u64 + 2);
    found(&without(answer), "OR-04", resumed);
    found(&without(0), "OR-03", 1);
    found(&without(question + 1), "OR-02", question as u64 + 3);
    let no_time = changed(3, |event| event["ts"] = json!("now"));
    found(&no_time, "SCHEMA", 4);
    // Asked twice.
    let twice = [&whole[..=question], &whole[question..]].concat();
    found(&twice, "OR-07", question as u64 + 1);
}

#[test]
fn the_raw_output_is_cited_to_its_end_and_no_citation_is_empty() {
    let raw_event = place("raw.stdout", 1);
    let ends = |at: u64| changed(raw_event, |event| event["raw_ref"]["byte_to"] = json!(at));
    // The stream has three bytes, and the citation begins at the second.
    let (empty, whole) = (raw_event as u64 + 1, 0);
    let cases = [
        (1, Expect::Final, vec![empty, whole]),
        (2, Expect::Final, vec![whole]),
        (2, Expect::Any, vec![]),
        (4, Expect::Final, vec![whole]),
        (4, Expect::Any, vec![whole]),
    ];
    for (end, expect, places) in cases {
        let found = broken(&ends(end), expect).into_iter().filter(|(rule, _)| *rule == "OR-06");
        assert_eq!(found.map(|(_, seq)| seq).collect::<Vec<_>>(), places, "it ends at {end}, {expect:?}");
    }
}

#[test]
fn a_turn_is_begun_again_behind_the_event_that_schedules_it_alone() {
    let mut first = started(ExecutionMode::Auto, false, false);
    first.runtime_options.retry = Some(Retry { times: 1, backoff_seconds: 10 });
    let second = Fact::raw_text(RawRange { stream: Stream::Stdout, from: 1, to: 3 }, "yz".into());
    let log = encoded(vec![
        Command::Create(Box::new(first)),
        start_turn(),
        Command::Record(vec![bound(), raw()]),
        refused(None),
        start_turn(),
        Command::Record(vec![second]),
        succeed(),
    ]);
    assert_eq!(broken(&log, Expect::Final), []);
    let is = |line: &Vec<u8>| serde_json::from_slice::<Value>(line).unwrap()["type"] == "run.retry.scheduled";
    let scheduled = log.iter().position(is).unwrap();
    let missing = [&log[..scheduled], &log[scheduled + 1..]].concat();
    assert!(broken(&missing, Expect::Final).contains(&("OR-05", scheduled as u64 + 2)));
}
