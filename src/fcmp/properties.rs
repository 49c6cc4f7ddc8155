//! The published schema and the Rust types say the same: every sample, every field, every limit.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::check::check;
use super::envelope::{CommonText, Place, read_envelope, write_envelope};
use crate::domain::artifact::ArtifactEntry;
use crate::domain::event::*;
use crate::domain::fact::{RawRange, Stream};
use crate::domain::ids::{RequestId, RunId, Seq};
use crate::domain::interaction::{Interaction, InteractionId, InteractionKind, InteractionOption};
use crate::domain::outcome::{Completion, Proof, ProofSignature, RunError, StreamProof, Usage, Warning, WarningLevel};
use crate::domain::request::{Caller, Defaults, ExecutionMode, Passed, Retry, RuntimeOptions, SkillRef, UploadedFile};
use crate::domain::resources::ResourceLimits;
use crate::domain::statechart::{Status, TRANSITIONS};
use crate::domain::time::Timestamp;

fn contract() -> jsonschema::Validator {
    jsonschema::validator_for(&serde_json::from_str(super::SCHEMA).unwrap()).unwrap()
}

fn encode(event: &Event, raw: Option<RawRange>) -> Vec<u8> {
    let common = CommonText::new(RunId(Uuid::from_u128(1)), moment(), "script");
    let place = Place { common: &common, seq: Seq(5), attempt: 1, local_seq: 5 };
    let mut bytes = Vec::new();
    write_envelope(&mut bytes, &place, event, raw).unwrap();
    bytes
}

fn moment() -> Timestamp {
    Timestamp::from_micros(1_794_790_923_456_700)
}

fn hash() -> impl Strategy<Value = String> {
    prop_oneof![9 => "[0-9a-f]{64}", 1 => "[0-9a-fA-F]{0,65}"]
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![4 => ".{0,12}", 1 => Just(String::new())]
}

fn json_value() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        text().prop_map(Value::from),
        Just(json!({"a": [1, {"b": null}]}))
    ]
}

fn usage() -> impl Strategy<Value = Usage> {
    let cost = prop::option::of(prop_oneof![3 => 0.0..9.0f64, 1 => -2.0..0.0f64]);
    (any::<u32>(), any::<u32>(), cost).prop_map(|(input, output, cost_usd)| Usage {
        input_tokens: input.into(),
        cached_input_tokens: 0,
        output_tokens: output.into(),
        cost_usd,
    })
}

// Boxed, as it is large: the stack of a test holds all strategies of a choice.
fn proof() -> BoxedStrategy<Proof> {
    let file = || prop::option::of(hash());
    let signature = prop::option::of(
        (hash(), hash(), hash())
            .prop_map(|(public_key, one, other)| ProofSignature { public_key, ed25519: one + &other }),
    );
    let hashes = (hash(), hash(), any::<u32>(), file(), file());
    let proof = (hashes, signature).prop_map(|((stream, artifacts, bytes, files, result), signature)| Proof {
        events: 4,
        // The chain is filled in while writing and so is always right.
        chain_sha256: "0".repeat(64),
        streams: BTreeMap::from([("stdout".into(), StreamProof { bytes: bytes.into(), sha256: stream })]),
        artifacts_sha256: artifacts,
        files_sha256: files,
        result_sha256: result,
        signature,
    });
    proof.boxed()
}

fn status() -> impl Strategy<Value = Status> {
    prop::sample::select(Status::ALL.to_vec())
}

fn options(execution_mode: ExecutionMode, flag: bool) -> RuntimeOptions {
    RuntimeOptions {
        execution_mode,
        no_cache: flag,
        debug: flag,
        debug_keep_temp: flag,
        verbose: flag,
        interactive_auto_reply: flag,
        interactive_reply_timeout_sec: 1,
        hard_timeout_seconds: 1,
        stall_timeout_seconds: 0,
        retry: flag.then_some(Retry { times: 2, backoff_seconds: 5 }),
    }
}

fn some_defaults(some: bool) -> Defaults {
    let input = if some { BTreeMap::from([("/a".to_owned(), json!(1))]) } else { BTreeMap::new() };
    Defaults { input, parameter: BTreeMap::new() }
}

fn started() -> impl Strategy<Value = Event> {
    let hashes = (prop::option::of(hash()), prop::option::of(hash()), prop::option::of(hash()));
    (text(), text(), prop::option::of(text()), any::<bool>(), hashes).prop_map(
        |(id, engine, model, flag, (key, cache_key, engine_config_sha256))| {
            let mode = if flag { ExecutionMode::Auto } else { ExecutionMode::Interactive };
            Event::Started(Box::new(Started {
                request_id: RequestId(Uuid::from_u128(7)),
                skill: SkillRef { id, version: "1.0.0".into(), fingerprint: "f".into() },
                engine,
                model,
                execution_mode: mode,
                runtime_options: options(mode, flag),
                input: Map::from_iter([("a".to_owned(), json!(1))]),
                parameter: Map::new(),
                awaiting_upload: flag,
                idempotency_sha256: key,
                cache_key,
                engine_config_sha256,
                temporary: flag,
                labels: BTreeMap::from_iter(flag.then(|| ("team".to_owned(), "x".to_owned()))),
                metadata: flag.then(|| Box::new(Map::from_iter([("ticket".to_owned(), json!(7))]))),
                context: flag.then(|| Box::new(Caller { user_id: Some("u".to_owned()), agent_id: None })),
                priority: if flag { 3 } else { 0 },
                requested_by: flag.then(|| "ci".into()),
                traceparent: flag.then(|| "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01".into()),
                awaiting_files: if flag { vec!["doc".to_owned()] } else { Vec::new() },
                defaults: Box::new(some_defaults(flag)),
            }))
        },
    )
}

fn interaction() -> impl Strategy<Value = Interaction> {
    let kinds = [
        InteractionKind::ChooseOne,
        InteractionKind::Confirm,
        InteractionKind::FillFields,
        InteractionKind::OpenText,
        InteractionKind::RiskAck,
    ];
    (0u64..3, text(), prop::sample::select(kinds.to_vec()), json_value()).prop_map(|(id, prompt, kind, value)| {
        Interaction {
            interaction_id: InteractionId(id),
            kind,
            prompt,
            options: vec![InteractionOption { label: "x".into(), value: value.clone() }],
            ui_hints: value.clone(),
            required_fields: vec!["f".into()],
            default_decision_policy: String::new(),
            context: value,
        }
    })
}

fn normalized() -> impl Strategy<Value = Event> {
    let levels = [
        NormalizationLevel::None,
        NormalizationLevel::N0,
        NormalizationLevel::N1,
        NormalizationLevel::N2,
        NormalizationLevel::N3,
    ];
    (prop::sample::select(levels.to_vec()), any::<bool>(), text()).prop_map(|(level, valid, text)| {
        Event::Normalized(Normalized {
            level,
            valid,
            source: text.clone(),
            steps: vec![NormalizationStep { step: text.clone(), ok: valid, detail: text.clone() }],
            validation_errors: vec![ValidationError { path: text.clone(), message: text }],
        })
    })
}

fn warned() -> impl Strategy<Value = Event> {
    (text(), any::<bool>()).prop_map(|(code, info)| {
        Event::Warned(Box::new(Warning {
            code,
            message: "m".into(),
            level: if info { WarningLevel::Info } else { WarningLevel::Warning },
            normalization_level: info.then_some(NormalizationLevel::N0),
            details: Map::new(),
        }))
    })
}

fn raw_text() -> impl Strategy<Value = RawText> {
    prop_oneof![4 => text(), 1 => Just("ä".repeat(RAW_TEXT_MAX)), 1 => Just("ä".repeat(RAW_TEXT_MAX + 1))]
        .prop_map(|text| RawText { text })
}

fn any_event() -> impl Strategy<Value = Event> {
    let run = RunId(Uuid::from_u128(3));
    let changes = prop::sample::select(TRANSITIONS.to_vec()).prop_map(|row| {
        Event::StateChanged(StateChanged {
            from: row.from,
            to: row.to,
            trigger: row.trigger,
            updated_at: moment(),
            pending_interaction_id: Some(InteractionId(1)),
        })
    });
    let package = (text(), text(), prop::option::of(hash()), hash()).prop_map(|(id, engine, config, sha256)| {
        let skill = SkillRef { id, version: "1.0.0".into(), fingerprint: "f".into() };
        let runtime_options = options(ExecutionMode::Auto, false);
        let defaults = some_defaults(sha256.is_empty());
        UploadedPackage { skill, engine, runtime_options, engine_config_sha256: config, sha256, defaults }
    });
    let uploaded = (text(), hash(), hash(), hash(), prop::option::of(package)).prop_map(
        |(name, sha256, manifest_sha256, cache_key, package)| {
            let files = vec![UploadedFile { name, size: 3, sha256, file_name: Some("a.txt".into()) }];
            Event::Uploaded(Box::new(Uploaded { files, manifest_sha256, cache_key, package }))
        },
    );
    let passed =
        (prop::option::of(text()), prop::option::of(text()), any::<bool>()).prop_map(|(model, effort, more)| {
            let options = if more { Map::from_iter([("a".to_owned(), json!({"b": 1}))]) } else { Map::new() };
            Passed { model, effort, options }
        });
    let turn = (0u32..3, prop::collection::vec(text(), 0..3), prop::option::of(text()), passed).prop_map(
        |(attempt, command, from, passed)| {
            Event::TurnStarted(Box::new(TurnStarted {
                attempt,
                command,
                pid: 1,
                engine_version: "1".into(),
                parser_version: "1".into(),
                isolation: "none".into(),
                limits: (attempt > 1).then(|| ResourceLimits { memory_bytes: 1, ..ResourceLimits::default() }),
                resumed_from: from,
                passed,
            }))
        },
    );
    let artifact =
        (prop_oneof![Just("artifacts/a.md"), Just("a.md"), Just("/artifacts/a")], hash()).prop_map(|(path, sha256)| {
            Event::ArtifactIndexed(Box::new(ArtifactEntry {
                role: "r".into(),
                path_rel: path.into(),
                filename: "a".into(),
                mime: "m".into(),
                size: 1,
                sha256,
                required: true,
            }))
        });
    let first = prop_oneof![
        started(),
        uploaded,
        hash().prop_map(move |cache_key| Event::CacheHit(CacheHit { source_run_id: run, cache_key })),
        changes,
        turn,
        text().prop_map(|handle| Event::SessionBound(SessionBound { handle_kind: "k".into(), handle })),
        text().prop_map(|text| Event::AssistantMessage(AssistantMessage { message_id: text.clone(), text })),
        text().prop_map(|text| Event::AssistantReasoning(AssistantReasoning { text })),
        (text(), json_value()).prop_map(|(text, input)| Event::ToolCall(Box::new(ToolCall {
            call_id: text.clone(),
            tool: text.clone(),
            input,
            output: text.clone(),
            status: text
        }))),
    ];
    let second = prop_oneof![
        (text(), prop::option::of(any::<i32>())).prop_map(|(text, code)| Event::CommandExecution(CommandExecution {
            command: text.clone(),
            exit_code: code.map(i64::from),
            output: text.clone(),
            status: text
        })),
        (-20.0..130.0f64, text()).prop_map(|(percent, message)| Event::Progress(Progress { percent, message })),
        usage().prop_map(Event::UsageReported),
        raw_text().prop_map(Event::RawStdout),
        raw_text().prop_map(Event::RawStderr),
        interaction().prop_map(|interaction| Event::InputRequired(Box::new(interaction))),
        (0u64..3, json_value()).prop_map(|(id, response)| Event::ReplyAccepted(Box::new(ReplyAccepted {
            interaction_id: InteractionId(id),
            resolution_mode: UserReply::UserReply,
            accepted_at: moment(),
            response,
            response_preview: "p".into(),
            idempotency_key: Some("k".into()),
            requested_by: (id == 1).then(|| "ci".into()),
        }))),
        (0u64..3).prop_map(|id| Event::AutoDecided(AutoDecided {
            interaction_id: InteractionId(id),
            resolution_mode: AutoDecideTimeout::AutoDecideTimeout,
            timeout_sec: 1,
            policy: "p".into(),
            accepted_at: moment()
        })),
        normalized(),
        artifact,
        (0u32..3, text()).prop_map(|(retry, code)| Event::RetryScheduled(Box::new(RetryScheduled {
            retry,
            times: 3,
            not_before: moment(),
            wait_seconds: 30,
            error: RunError { code, message: "m".into(), details: Map::new() },
        }))),
    ];
    let third =
        prop_oneof![
            warned(),
            text()
                .prop_map(|text| Event::CancelRequested(CancelRequested { requested_by: text.clone(), reason: text })),
            text().prop_map(|recovery_reason| Event::Recovered(Recovered {
                recovery_state: RecoveryState::FailedReconciled,
                recovery_reason,
                recovered_at: moment()
            })),
            (status(), usage(), proof()).prop_map(|(status, usage, proof)| Event::Completed(Box::new(Completed {
                status,
                completion: Completion::Exit,
                result_path: "result/result.json".into(),
                usage,
                proof
            }))),
            (status(), text(), usage(), proof()).prop_map(|(status, code, usage, proof)| Event::Failed(Box::new(
                Failed { status, error: RunError { code, message: "m".into(), details: Map::new() }, usage, proof }
            ))),
        ];
    prop_oneof![9 => first.boxed(), 10 => second.boxed(), 5 => third.boxed()]
}

/// The properties a schema declares for a type's data, following references.
fn declared(schema: &Value, type_name: &str) -> Value {
    let mut data = &schema["$defs"][format!("data.{type_name}")];
    while let Some(reference) = data["$ref"].as_str() {
        data = schema.pointer(&reference[1..]).unwrap();
    }
    data.clone()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, ..ProptestConfig::default() })]

    #[test]
    fn writers_accept_exactly_what_the_schema_accepts_and_read_it_back(event in any_event(), from in 0u64..9, to in 0u64..9) {
        // Both sides check the same bytes, so that a rarely used field cannot hide a difference.
        let raw = (from <= to).then_some(RawRange { stream: Stream::Stdout, from, to });
        let bytes = encode(&event, raw);
        let value: Value = serde_json::from_slice(&bytes).unwrap();
        let schema_says = contract().validate(&value).map_err(|error| format!("{error} at {}", error.instance_path()));
        let writer_says = check(&event, raw);
        prop_assert_eq!(writer_says.is_ok(), schema_says.is_ok(), "writer: {:?}, schema: {:?}", writer_says, schema_says);
        prop_assert!(!bytes.contains(&b'\n'));
        let read = read_envelope(&bytes).unwrap();
        prop_assert_eq!(read.type_name.as_str(), event.type_name());
        prop_assert_eq!(read.event, Some(event));
    }

    #[test]
    fn the_types_and_the_schema_have_the_same_fields(event in any_event()) {
        let schema: Value = serde_json::from_str(super::SCHEMA).unwrap();
        let mut data = Vec::new();
        event.write_data(&mut data).unwrap();
        let written: Map<String, Value> = serde_json::from_slice(&data).unwrap();
        let declared = declared(&schema, event.type_name());
        let properties = declared["properties"].as_object().unwrap();
        for field in written.keys() {
            prop_assert!(properties.contains_key(field), "{} has {}", event.type_name(), field);
        }
        let required: Vec<&str> = declared["required"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
        for (field, _) in properties {
            let optional = OPTIONAL.contains(&(event.type_name(), field));
            prop_assert!(optional || written.contains_key(field), "{} lacks {}", event.type_name(), field);
            prop_assert_eq!(!optional, required.contains(&field.as_str()), "{} {}", event.type_name(), field);
        }
    }
}

/// What an event need not have.
const OPTIONAL: [(&str, &str); 17] = [
    ("conversation.started", "requested_by"),
    ("conversation.started", "traceparent"),
    ("interaction.reply.accepted", "requested_by"),
    ("conversation.started", "context"),
    ("conversation.started", "awaiting_files"),
    ("conversation.started", "labels"),
    ("conversation.started", "metadata"),
    ("conversation.started", "priority"),
    ("conversation.started", "defaults"),
    ("conversation.started", "cache_key"),
    ("conversation.started", "engine_config_sha256"),
    ("conversation.started", "temporary"),
    ("input.uploaded", "package"),
    ("turn.started", "limits"),
    ("turn.started", "model"),
    ("turn.started", "effort"),
    ("turn.started", "options"),
];

#[test]
fn the_schema_knows_every_type_with_its_kind_and_no_other() {
    let schema: Value = serde_json::from_str(super::SCHEMA).unwrap();
    let rows = schema["allOf"].as_array().unwrap().iter().map(|row| {
        let type_name = row["if"]["properties"]["type"]["const"].as_str().unwrap();
        let kind = row["then"]["properties"]["meta"]["properties"]["kind"]["const"].as_str().unwrap();
        assert_eq!(row["then"]["properties"]["data"]["$ref"], format!("#/$defs/data.{type_name}"));
        (type_name, kind)
    });
    assert_eq!(rows.collect::<Vec<_>>(), Event::TYPES);
}

#[test]
fn a_changed_envelope_is_refused() {
    let event = Event::Progress(Progress { percent: 1.0, message: "m".into() });
    let good: Value = serde_json::from_slice(&encode(&event, None)).unwrap();
    assert!(contract().is_valid(&good));
    for (pointer, wrong) in [
        ("/protocol_version", json!("fcmp/2.0")),
        ("/run_id", json!("x")),
        ("/seq", json!(0)),
        ("/ts", json!("yesterday")),
        ("/engine", json!("")),
        ("/data", json!([])),
        ("/data/percent", json!("1")),
        ("/meta/kind", json!("terminal")),
        ("/meta/attempt", json!(0)),
        ("/raw_ref", json!({})),
    ] {
        let mut changed = good.clone();
        *changed.pointer_mut(pointer).unwrap() = wrong;
        assert!(!contract().is_valid(&changed), "{pointer}");
    }
}
