//! The fold, event by event: exactly what each changes, and nothing else.

use serde_json::{Map, Value, json};

use super::{AcceptedReply, Pending, Phase, RunState, Turn, WARNINGS_KEPT};
use crate::domain::cache_key::sha256_hex;
use crate::domain::codes::WarningCode;
use crate::domain::event::{
    AutoDecideTimeout, AutoDecided, CacheHit, CancelRequested, Event, RawText, Recovered, RecoveryState, ReplyAccepted,
    Started, StateChanged, TurnStarted, Uploaded, UploadedPackage, UserReply,
};
use crate::domain::ids::Seq;
use crate::domain::interaction::{Interaction, InteractionId};
use crate::domain::outcome::{Completion, RunError, Usage, Warning};
use crate::domain::request::ExecutionMode::{Auto, Interactive};
use crate::domain::request::{Defaults, Passed, SkillRef};
use crate::domain::samples::{
    RUN, SOURCE, after, ask, at, bound, broken, events, evidence, options, question, reply, start_turn, started,
    succeed,
};
use crate::domain::statechart::{Status, Trigger};
use crate::domain::{Ending, decide, ending::Terminal};

/// The run after one more event, which is counted and dated in any case.
fn folded(run: &RunState, event: &Event, expected: impl FnOnce(&mut RunState)) {
    let mut found = run.clone();
    found.apply(event, at(50));
    let mut wanted = run.clone();
    wanted.head_seq = Seq(run.head_seq.0 + 1);
    wanted.local_seq = run.local_seq + 1;
    wanted.updated_at = at(50);
    expected(&mut wanted);
    assert_eq!(found, wanted, "{event:?}");
}

fn interactive() -> Started {
    started(Interactive, false, false)
}

fn waiting() -> RunState {
    after(&interactive(), [start_turn(), ask()])
}

fn moved(from: Status, to: Status, trigger: Trigger) -> Event {
    let change = StateChanged { from, to, trigger, updated_at: at(50), pending_interaction_id: None };
    Event::StateChanged(change)
}

fn terminal(ending: Ending) -> Event {
    Terminal { ending, evidence: evidence() }.into_event(0, "0".repeat(64), Usage::default())
}

#[test]
fn a_run_opens_queued_with_what_its_first_event_says() {
    let first = Started {
        model: Some("m".into()),
        cache_key: Some("k".into()),
        idempotency_sha256: Some("i".into()),
        temporary: true,
        ..started(Auto, true, true)
    };
    let run = RunState::open(RUN, &first, at(9));
    let told = (&run.request_id, &run.skill, &run.engine, &run.model, &run.options, &run.cache_key);
    let said = (&first.request_id, &first.skill, &first.engine, &first.model, &first.runtime_options, &first.cache_key);
    assert_eq!(told, said);
    assert_eq!((run.status(), run.awaiting_upload, run.temporary), (Status::Queued, true, true));
    assert_eq!((run.created_at, run.updated_at, run.idempotency_sha256), (at(9), at(9), Some("i".into())));
    assert_eq!((run.head_seq, run.attempt, run.local_seq, run.turns), (Seq(1), 1, 1, 0));
}

#[test]
fn an_upload_brings_the_cache_key_and_a_runs_own_skill() {
    let first = Started { awaiting_files: vec!["doc".into()], ..started(Auto, true, false) };
    let run = RunState::open(RUN, &first, at(0));
    assert_eq!(run.awaiting_files, ["doc"]);
    let mut uploaded =
        Uploaded { files: vec![], manifest_sha256: "1".repeat(64), cache_key: "key".into(), package: None };
    folded(&run, &Event::Uploaded(Box::new(uploaded.clone())), |run| {
        run.awaiting_upload = false;
        run.awaiting_files = vec![];
        run.cache_key = Some("key".into());
    });
    let skill = SkillRef { id: "own".into(), version: "9.0.0".into(), fingerprint: "f".into() };
    uploaded.package = Some(UploadedPackage {
        skill: skill.clone(),
        engine: "other".into(),
        runtime_options: options(Interactive, true),
        engine_config_sha256: None,
        sha256: "4".repeat(64),
        defaults: Defaults::default(),
    });
    folded(&run, &Event::Uploaded(Box::new(uploaded)), |run| {
        run.awaiting_upload = false;
        run.awaiting_files = vec![];
        run.cache_key = Some("key".into());
        run.skill = skill;
        run.engine = "other".into();
        run.options = options(Interactive, true);
    });
}

#[test]
fn a_hit_names_its_source_and_a_turn_of_its_own_takes_that_back() {
    let mut run = after(&interactive(), []);
    let hit = Event::CacheHit(CacheHit { source_run_id: SOURCE, cache_key: "key".into() });
    folded(&run, &hit, |run| {
        run.cache_hit = true;
        run.cached_from = Some(SOURCE);
        run.cache_key = Some("key".into());
    });
    run.apply(&hit, at(1));
    run.answer = Some(json!("told"));
    let turn = TurnStarted {
        attempt: 3,
        command: vec![],
        pid: 12,
        engine_version: "e".into(),
        parser_version: "p".into(),
        isolation: "i".into(),
        limits: None,
        resumed_from: None,
        passed: Passed::default(),
    };
    folded(&run, &Event::TurnStarted(Box::new(turn)), |run| {
        run.cache_hit = false;
        run.cached_from = None;
        run.turns = 3;
        run.answer = None;
        let (engine_version, isolation, passed) = ("e".into(), "i".into(), Passed::default());
        run.turn = Some(Turn { pid: 12, engine_version, isolation, passed });
    });
}

#[test]
fn a_question_becomes_open_by_the_change_that_follows_it() {
    let run = after(&interactive(), [start_turn()]);
    let asked = Interaction { interaction_id: InteractionId(1), ..question() };
    let pending = Pending { interaction: asked.clone(), asked_at: at(50) };
    folded(&run, &Event::InputRequired(Box::new(asked.clone())), |run| {
        run.interaction_count = 1;
        run.phase = Phase::Asking(pending.clone());
    });
    let mut asking = run;
    asking.apply(&Event::InputRequired(Box::new(asked)), at(50));
    assert_eq!((asking.status(), asking.pending()), (Status::Running, Some(&pending)));
    let opens = moved(Status::Running, Status::WaitingUser, Trigger::TurnNeedsInput);
    folded(&asking, &opens, |run| run.phase = Phase::WaitingUser(pending));
}

#[test]
fn a_change_of_state_moves_the_phase_and_waiting_without_a_question_is_none() {
    for (to, phase) in [
        (Status::Queued, Phase::Queued),
        (Status::Succeeded, Phase::Succeeded),
        (Status::Failed, Phase::Failed),
        (Status::Canceled, Phase::Canceled),
    ] {
        folded(&waiting(), &moved(Status::WaitingUser, to, Trigger::RunCanceled), |run| run.phase = phase);
    }
    let kept = moved(Status::WaitingUser, Status::WaitingUser, Trigger::RestartPreserveWaiting);
    folded(&waiting(), &kept, |_| {});
    let running = after(&interactive(), [start_turn()]);
    folded(&running, &moved(Status::Running, Status::WaitingUser, Trigger::TurnNeedsInput), |_| {});
    let first = after(&interactive(), []);
    folded(&first, &moved(Status::Queued, Status::Running, Trigger::TurnStarted), |run| run.phase = Phase::Running);
}

#[test]
fn the_change_that_begins_a_later_turn_opens_the_next_attempt() {
    let answered = after(&interactive(), [start_turn(), ask(), reply(1, json!("blue"), None)]);
    assert_eq!((answered.attempt, answered.local_seq, answered.turns), (1, 7, 1));
    folded(&answered, &moved(Status::Queued, Status::Running, Trigger::TurnStarted), |run| {
        run.phase = Phase::Running;
        run.attempt = 2;
        run.local_seq = 1;
    });
}

#[test]
fn an_answer_is_kept_for_its_turn_and_its_key_for_repeats() {
    let accepted = |response: serde_json::Value, key: Option<&str>| {
        Event::ReplyAccepted(Box::new(ReplyAccepted {
            interaction_id: InteractionId(1),
            resolution_mode: UserReply::UserReply,
            accepted_at: at(50),
            response,
            response_preview: String::new(),
            idempotency_key: key.map(str::to_owned),
            requested_by: None,
        }))
    };
    let given = || json!({"b": 1, "a": 2});
    folded(&waiting(), &accepted(given(), None), |run| run.answer = Some(given()));
    folded(&waiting(), &accepted(json!(null), None), |run| run.answered_null = true);
    folded(&waiting(), &accepted(given(), Some("key")), |run| {
        run.answer = Some(given());
        run.replies.push(AcceptedReply {
            interaction_id: InteractionId(1),
            idempotency_key: "key".into(),
            response_sha256: sha256_hex(br#"{"a":2,"b":1}"#),
        });
    });
}

/// A row that grew with each answer would one day leave no room for the run's end beside it.
#[test]
fn however_often_a_run_asks_its_row_keeps_only_the_last_answers_by_their_keys() {
    let mut run = waiting();
    // A control character takes six bytes of JSON.
    let key = |number: u64| format!("{number}{}", "\u{1}".repeat(250));
    for number in 1..=2000 {
        let reply = ReplyAccepted {
            interaction_id: InteractionId(number),
            resolution_mode: UserReply::UserReply,
            accepted_at: at(50),
            response: json!("yes"),
            response_preview: String::new(),
            idempotency_key: Some(key(number)),
            requested_by: None,
        };
        run.apply(&Event::ReplyAccepted(Box::new(reply)), at(50));
    }
    let row = serde_json::to_string(&run).unwrap().len();
    assert!((50_000..80_000).contains(&row), "{row} bytes");
    let kept: Vec<&str> = run.replies.iter().map(|reply| reply.idempotency_key.as_str()).collect();
    assert_eq!(kept, (2001 - kept.len() as u64..=2000).map(key).collect::<Vec<_>>());
}

#[test]
fn decisions_of_the_deadline_are_counted_and_dated() {
    let decided = AutoDecided {
        interaction_id: InteractionId(1),
        resolution_mode: AutoDecideTimeout::AutoDecideTimeout,
        timeout_sec: 5,
        policy: String::new(),
        accepted_at: at(44),
    };
    folded(&waiting(), &Event::AutoDecided(decided), |run| {
        run.auto_decision_count = 1;
        run.last_auto_decision_at = Some(at(44));
    });
}

#[test]
fn sessions_usage_cancels_and_recoveries_are_noted() {
    let run = after(&interactive(), [start_turn()]);
    folded(&run, &bound().event, |run| run.session_handle = Some("h".into()));
    let usage = Usage { input_tokens: 3, cached_input_tokens: 2, output_tokens: 1, cost_usd: Some(0.5) };
    folded(&run, &Event::UsageReported(usage), |run| run.usage = usage);
    let mut used = run.clone();
    used.apply(&Event::UsageReported(usage), at(1));
    let sum = Usage { input_tokens: 6, cached_input_tokens: 4, output_tokens: 2, cost_usd: Some(1.0) };
    folded(&used, &Event::UsageReported(usage), |run| run.usage = sum);
    let endless = Usage {
        input_tokens: u64::MAX,
        cached_input_tokens: u64::MAX,
        output_tokens: u64::MAX,
        cost_usd: Some(f64::MAX),
    };
    used.apply(&Event::UsageReported(endless), at(2));
    assert_eq!(used.usage, endless, "no sum is more than can be told");
    let cancel = CancelRequested { requested_by: "user".into(), reason: String::new() };
    folded(&run, &Event::CancelRequested(cancel), |run| run.cancel_requested = true);
    let recovered = Recovered {
        recovery_state: RecoveryState::RecoveredWaiting,
        recovery_reason: "why".into(),
        recovered_at: at(33),
    };
    folded(&run, &Event::Recovered(recovered), |run| {
        run.recovery_state = RecoveryState::RecoveredWaiting;
        run.recovered_at = Some(at(33));
        run.recovery_reason = Some("why".into());
    });
}

#[test]
fn the_first_warnings_are_kept_in_brief_and_the_others_counted_alone() {
    let mut run = after(&interactive(), [start_turn()]);
    let mut long = Warning::new(WarningCode::EngineRemark, "w".repeat(1_000));
    long.details = Map::from_iter([("much".to_owned(), json!("d".repeat(2_000)))]);
    folded(&run, &Event::Warned(Box::new(long.clone())), |run| run.warnings.push(long.in_brief()));
    assert_eq!(long.in_brief().message.chars().count(), 501);
    assert_eq!(long.in_brief().details, Map::from_iter([("truncated".to_owned(), json!(true))]));
    for _ in 0..WARNINGS_KEPT {
        run.apply(&Event::Warned(Box::new(long.clone())), at(1));
    }
    assert_eq!(run.warnings.len(), WARNINGS_KEPT);
    folded(&run, &Event::Warned(Box::new(long)), |_| {});
}

#[test]
fn an_end_leaves_the_result_or_the_error() {
    let run = after(&interactive(), [start_turn()]);
    let completed = terminal(Ending::Succeeded(Completion::Exit));
    assert!(matches!(&completed, Event::Completed(completed) if completed.status == Status::Succeeded));
    folded(&run, &completed, |run| run.result_path = Some("result/result.json".into()));
    let failed = terminal(Ending::Failed(broken()));
    assert!(matches!(&failed, Event::Failed(failed) if failed.status == Status::Failed));
    folded(&run, &failed, |run| run.error = Some(broken()));
}

#[test]
fn what_an_engine_says_is_counted_alone_and_so_is_an_event_of_a_later_version() {
    let run = after(&interactive(), [start_turn()]);
    folded(&run, &Event::RawStderr(RawText { text: "x".into() }), |_| {});
    let mut found = run.clone();
    found.apply_unknown(at(50));
    let mut wanted = run.clone();
    (wanted.head_seq, wanted.local_seq, wanted.updated_at) = (Seq(run.head_seq.0 + 1), run.local_seq + 1, at(50));
    assert_eq!(found, wanted);
}

#[test]
fn a_run_shares_its_result_under_its_key_unless_it_may_ask_or_is_told_not_to() {
    let key = |change: fn(&mut RunState)| {
        let mut run = RunState::open(RUN, &started(Auto, false, false), at(0));
        run.cache_key = Some("key".into());
        change(&mut run);
        run.shared_key().map(str::to_owned)
    };
    assert_eq!(key(|_| {}), Some("key".into()));
    assert_eq!(key(|run| run.cache_key = None), None);
    assert_eq!(key(|run| run.options.execution_mode = Interactive), None);
    assert_eq!(key(|run| run.options.no_cache = true), None);
    assert_eq!(key(|run| run.awaiting_upload = true), None);
}

#[test]
fn a_whole_conversation_folds_to_its_end() {
    let commands = [start_turn(), ask(), reply(1, json!("blue"), Some("key")), start_turn()];
    let mut run = after(&interactive(), commands);
    assert_eq!((run.status(), run.turns, run.attempt, run.interaction_count), (Status::Running, 2, 2, 1));
    let files = crate::domain::samples::last_files(&run, &succeed());
    for event in events(decide(Some(&run), succeed(), files, at(60)).unwrap()) {
        run.apply(&event, at(60));
    }
    assert_eq!((run.status(), run.pending(), run.updated_at), (Status::Succeeded, None, at(60)));
}

#[test]
fn what_a_script_says_of_its_failure_is_cut_to_what_an_event_may_carry() {
    let details = |text: &str| Map::from_iter([("said".to_owned(), json!(text))]);
    let short = RunError::of_script("E".into(), "m".repeat(4_000), details("little"));
    assert_eq!((short.message.chars().count(), short.details), (4_000, details("little")));
    let long = RunError::of_script("E".into(), "m".repeat(4_001), details(&"d".repeat(64 * 1024)));
    assert_eq!(long.message, format!("{}…", "m".repeat(4_000)));
    let preview = format!("{{\"said\":\"{}", "d".repeat(4_000 - 9));
    assert_eq!(Value::Object(long.details), json!({"truncated": true, "preview": preview}));
}
