//! The codes of the runner: complete, consistent, and documented in docs/errors.md.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::{env, fs};

use skill_runner::domain::codes::{ErrorCode, Exit, FindingCode, Kind, WarningCode};

/// The codes that the contract of the API promises, with the status of those that answer a request.
const PROMISED: &[(u16, &[&str])] = &[
    (
        400,
        &[
            "INVALID_JSON",
            "INVALID_REQUEST",
            "INPUT_VALIDATION_FAILED",
            "PARAMETER_VALIDATION_FAILED",
            "FILE_INPUT_INLINE",
            "UNKNOWN_INPUT_KEY",
            "SKILL_ENGINE_UNSUPPORTED",
            "SKILL_EXECUTION_MODE_UNSUPPORTED",
            "MODEL_NOT_ALLOWED",
            "NOT_INTERACTIVE",
            "INVALID_ZIP",
            "UNSAFE_PATH",
            "SKILL_PACKAGE_INVALID",
            "INVALID_CURSOR",
            "SEQ_OUT_OF_RANGE",
        ],
    ),
    (401, &["UNAUTHORIZED"]),
    (403, &["FORBIDDEN_HOST", "FORBIDDEN_ORIGIN"]),
    (
        404,
        &[
            "REQUEST_NOT_FOUND",
            "SKILL_NOT_FOUND",
            "ENGINE_NOT_FOUND",
            "ARTIFACT_NOT_FOUND",
            "FILE_NOT_FOUND",
            "INSTALL_NOT_FOUND",
            "UPGRADE_NOT_FOUND",
            "ROUTE_NOT_FOUND",
        ],
    ),
    (405, &["METHOD_NOT_ALLOWED"]),
    (
        409,
        &[
            "INTERACTION_STALE",
            "INTERACTION_NOT_PENDING",
            "IDEMPOTENCY_CONFLICT",
            "ALREADY_UPLOADED",
            "RUN_FINAL",
            "RESULT_NOT_READY",
            "BUNDLE_NOT_READY",
        ],
    ),
    (410, &["RUN_FILES_GONE"]),
    (413, &["PAYLOAD_TOO_LARGE"]),
    (415, &["UNSUPPORTED_MEDIA_TYPE"]),
    (416, &["RANGE_NOT_SATISFIABLE"]),
    (429, &["QUEUE_FULL"]),
    (500, &["INTERNAL", "DATA_CORRUPT"]),
    (503, &["SHUTTING_DOWN"]),
    (507, &["INSUFFICIENT_STORAGE"]),
];

/// The codes of failed runs that the contract promises.
const PROMISED_RUNS: &[&str] = &[
    "ENGINE_FAILED",
    "ENGINE_NOT_INSTALLED",
    "ENGINE_AUTH_REQUIRED",
    "ENGINE_RATE_LIMITED",
    "TIMEOUT",
    "STALLED",
    "OUTPUT_LIMIT_EXCEEDED",
    "SCHEMA_VALIDATION_FAILED",
    "OUTPUT_MISSING",
    "ARTIFACT_MISSING",
    "MISSING_INPUT_FILES",
    "PROMPT_TEMPLATE_FAILED",
    "SESSION_RESUME_FAILED",
    "INTERACTIVE_MAX_ATTEMPT_EXCEEDED",
    "ORCHESTRATOR_RESTART_INTERRUPTED",
    "CANCELED_BY_USER",
    "INSUFFICIENT_STORAGE",
    "RESOURCE_LIMIT_EXCEEDED",
    "SCHEMA_TOO_COSTLY",
];

#[test]
fn every_promised_code_is_in_the_table_with_its_status() {
    for (status, codes) in PROMISED {
        for text in *codes {
            let code = ErrorCode::from_text(text).unwrap_or_else(|| panic!("{text} is in no table"));
            assert_eq!(code.info().http, Some(*status), "{text}");
        }
    }
    for text in PROMISED_RUNS {
        let code = ErrorCode::from_text(text).unwrap_or_else(|| panic!("{text} is in no table"));
        assert!(code.info().kinds.contains(&Kind::Run), "{text}");
    }
}

#[test]
fn every_row_is_whole_and_no_two_have_the_same_text() {
    let mut texts = BTreeSet::new();
    for code in ErrorCode::ALL {
        let info = code.info();
        assert!(texts.insert(code.as_str()), "{code} stands twice");
        assert_eq!(info.http.is_some(), info.kinds.contains(&Kind::Request), "{code}");
        assert!(info.http.is_none_or(|status| (400..600).contains(&status)), "{code}");
        assert!(!info.kinds.is_empty() && info.exit != Exit::Interrupted, "{code}");
        check_words(code.as_str(), code.means(), &[info.hint.api, info.hint.cli]);
        if info.hint.api != info.hint.cli {
            assert!(!info.hint.cli.contains("GET ") && !info.hint.cli.contains("POST "), "{code}");
            assert!(!info.hint.api.contains("`skill-runner "), "{code}");
        }
    }
    for code in WarningCode::ALL {
        assert!(texts.insert(code.as_str()), "{code} stands twice");
        check_words(code.as_str(), code.means(), &[code.hint()]);
    }
    for code in FindingCode::ALL {
        check_words(code.as_str(), code.means(), &[code.hint()]);
    }
}

fn check_words(code: &str, means: &str, hints: &[&str]) {
    assert!(code.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_'), "{code}");
    assert!(means.ends_with('.'), "{code}: {means}");
    assert!(hints.iter().all(|hint| !hint.is_empty() && !hint.ends_with('.')), "{code}: {hints:?}");
}

const INTRODUCTION: &str = "\
# Errors

<!-- Made from src/domain/codes. To write it anew: UPDATE_DOCS=1 cargo test --test it codes:: -->

Every code that the runner gives. An answer of the API that is not 2xx has the code in `error.code`, a failed run has it in
the `error` of its result, and a command prints it after `error:`. Script skills give codes of their own to failed runs.
";

fn place(kind: Kind) -> &'static str {
    match kind {
        Kind::Request => "request",
        Kind::Run => "run",
        Kind::Installation => "installation",
        Kind::Command => "command",
    }
}

/// Text inside a cell: Markdown takes `<` for the start of a tag.
fn cell(text: &str) -> String {
    text.replace('<', "&lt;").replace('|', "\\|")
}

fn document() -> String {
    let mut page = INTRODUCTION.to_owned();
    page.push_str(
        "\n## Errors of requests, runs and commands\n\n`exit` is the exit status of a command that ends with the code; [operations.md](operations.md) lists them all.\n\n\
         | code | given to | HTTP | exit | what it means | what to do |\n| --- | --- | --- | --- | --- | --- |\n",
    );
    for code in ErrorCode::ALL {
        let info = code.info();
        let kinds: Vec<&str> = info.kinds.iter().copied().map(place).collect();
        let status = info.http.map_or(String::new(), |status| status.to_string());
        let hint = if info.hint.api == info.hint.cli {
            cell(info.hint.api)
        } else {
            format!("API: {}<br>CLI: {}", cell(info.hint.api), cell(info.hint.cli))
        };
        let (kinds, exit, means) = (kinds.join(", "), info.exit.status(), cell(code.means()));
        let _ = writeln!(page, "| `{code}` | {kinds} | {status} | {exit} | {means} | {hint} |");
    }
    page.push_str("\n## Warnings of runs\n\nThe run goes on; its log and its result carry the warning.\n\n");
    page.push_str("| code | what it means | what to do |\n| --- | --- | --- |\n");
    for code in WarningCode::ALL {
        let _ = writeln!(page, "| `{code}` | {} | {} |", cell(code.means()), cell(code.hint()));
    }
    page.push_str("\n## Findings about skill packages\n\n`skill-runner skill lint` and installations list them. Each finding names the place.\n\n");
    page.push_str("| code | what it means | what to do |\n| --- | --- | --- |\n");
    for code in FindingCode::ALL {
        let _ = writeln!(page, "| `{code}` | {} | {} |", cell(code.means()), cell(code.hint()));
    }
    page
}

#[test]
fn the_page_about_errors_is_made_from_the_tables() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/errors.md");
    let page = document();
    if env::var_os("UPDATE_DOCS").is_some() {
        fs::write(path, &page).unwrap();
    }
    assert!(
        fs::read_to_string(path).is_ok_and(|written| written == page),
        "docs/errors.md differs from src/domain/codes; run: UPDATE_DOCS=1 cargo test --test it codes::"
    );
}
