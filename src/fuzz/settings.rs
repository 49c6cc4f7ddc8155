//! What operators and skills write about settings: those of the service and of engines, tools, and tests of a skill.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::texts::text;
use super::ways::{about, way};
use crate::domain::engine::Engine;
use crate::domain::request::ExecutionMode;
use crate::engine::config::{Layers, Operator, OperatorLayer, lay_over, merge, sources};
use crate::engine::{adapter, tools};
use crate::settings::{BlobsPlace, Settings};
use crate::skill::own_tests;

pub(super) const SERVICE: &[&str] = &[
    "port: ",
    "host: 0.0.0.0\n",
    "token: ",
    "otlp_endpoint: ",
    "otlp_headers: a=b\n",
    "store: ",
    "blobs: ",
    "http://",
    "https://",
    "[::1]",
    ":4318",
    "/path",
    "?",
    "#",
    "@",
    "limits:\n  ",
    "memory_bytes: 1 GiB\n",
    "keep_labels: [\"a:b=3\"]\n",
    "allowed_hosts: [",
    "]",
    ": ",
    "\n",
    "1 KiB",
    "18446744073709551616",
    "-1",
    "~",
];
pub(super) const ENGINE: &[&str] = &[
    "{",
    "}",
    "[",
    "]",
    "\"model\":",
    "model = ",
    "\"a\"",
    "\"permissions\":",
    "\"env\":",
    "\"mcpServers\":",
    "sandbox_mode = ",
    "approval_policy = ",
    "[mcp_servers.a]\n",
    "model_reasoning_effort = ",
    "a.b = 1\n",
    "[[a]]\n",
    "\"$serde_json::private::RawValue\":",
    ":",
    ",",
    "null",
    "\n",
    "1e400",
];
pub(super) const TOOLS: &[&str] =
    &["Bash", "Bash(git:*)", "Read", "(", ")", ",", " ", "*", "--", "\n", "mcp__a__b", "\u{0}"];
pub(super) const OWN_TESTS: &[&str] = &[
    "\"name\":",
    "\"input\":",
    "\"files\":",
    "\"recording\":",
    "\"replies\":",
    "\"expect\":",
    "\"output\":",
    "\"schema\":",
    "\"status\":",
    "\"error\":",
    "\"succeeded\"",
    "[",
    "]",
    "{",
    "}",
    ",",
    "null",
];

/// What is accepted can be used: every URL is one.
pub(super) fn service(bytes: &[u8]) -> u64 {
    match Settings::load(Some(("a file", &text(bytes))), &BTreeMap::new(), &[], 2) {
        Ok(settings) => {
            if let Some(otlp) = &settings.otlp {
                let url = format!("{}/v1/traces", otlp.endpoint);
                let read: axum::http::Uri = url.parse().unwrap();
                assert!(read.host().is_some() && read.path().ends_with("/v1/traces"), "{url}");
            }
            if let Some(bucket) = settings.several.blobs.as_ref().and_then(BlobsPlace::url) {
                let url = format!("{bucket}/key");
                let read: axum::http::Uri = url.parse().unwrap();
                assert!(read.host().is_some() && read.path().ends_with("/key"), "{url}");
            }
            way(settings.describe().iter().map(|one| about(one.value.len())).collect::<Vec<_>>())
        }
        Err(problems) => {
            way(problems.iter().map(|problem| (problem.key.clone(), about(problem.message.len()))).collect::<Vec<_>>())
        }
    }
}

/// Whatever a skill or a request says, what the runner needs of an engine's configuration holds.
pub(super) fn engine(bytes: &[u8]) -> u64 {
    let text = text(bytes);
    let operator = Operator::default();
    way(Engine::AGENTS
        .iter()
        .map(|engine| {
            let kind = &adapter(*engine).unwrap().config;
            let request = kind.format.read(&text).ok();
            let merged = [(Some(text.as_str()), None), (None, request.as_ref())].map(|(skill_file, request)| {
                let mode = ExecutionMode::Auto;
                let merged = merge(kind, &Layers { operator: &operator, skill_file, request, model: None, mode });
                if let Ok(config) = &merged {
                    let mut held = config.clone();
                    lay_over(&mut held, (kind.enforced)(mode));
                    assert_eq!(held, *config, "{engine:?}");
                }
                merged.map(|config| about(config.to_string().len())).map_err(|error| about(error.to_string().len()))
            });
            let layer = OperatorLayer::read(kind, "a file".to_owned(), &text);
            let listed = layer.ok().map(|layer| {
                let operator = Operator { default: Some(layer), enforced: None };
                about(sources(kind, &operator).len())
            });
            (merged, listed)
        })
        .collect::<Vec<_>>())
}

/// What is read of a tool is an argument of a CLI, and no option.
pub(super) fn allowed_tools(bytes: &[u8]) -> u64 {
    let text = text(bytes);
    let lines: Vec<&str> = text.lines().collect();
    way([Value::from(text.as_str()), json!(lines)].map(|written| {
        let tools = tools::read(Some(&written));
        for tool in tools.iter().flatten() {
            let written = tool.written();
            assert!(written.starts_with(|c: char| c.is_ascii_alphabetic()), "{written:?}");
            assert!(!written.chars().any(char::is_control), "{written:?}");
            assert_eq!(tools::read(Some(&json!([written]))).as_deref(), Some(std::slice::from_ref(tool)));
        }
        tools.map(|tools| about(tools.len()))
    }))
}

pub(super) fn own_tests(bytes: &[u8]) -> u64 {
    let read = own_tests::read(&text(bytes));
    way(read.map(|tests| about(tests.len())).map_err(|wrong| wrong.split(' ').take(6).collect::<String>()))
}
