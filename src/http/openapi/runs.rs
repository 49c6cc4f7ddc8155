//! What can be done with one run, described once for all the paths that lead to it.

use crate::domain::codes::ErrorCode as Code;
use crate::http::openapi::operation::{Operation, operation};
use crate::http::openapi::shape::{Content, Takes};

/// The codes with which a request for a run may be refused besides those about its form.
pub(super) const PLAN: &[Code] = &[
    Code::SkillNotFound,
    Code::InputValidationFailed,
    Code::ParameterValidationFailed,
    Code::FileInputInline,
    Code::UnknownInputKey,
    Code::SkillEngineUnsupported,
    Code::SkillExecutionModeUnsupported,
    Code::SkillLimitsTooHigh,
    Code::SchemaTooCostly,
    Code::ModelNotAllowed,
    Code::EngineConfigRefused,
    Code::IdempotencyConflict,
    Code::QueueFull,
];
pub(super) const CREATED_HEADERS: &[&str] = &["Location", "Preference-Applied"];

/// The operation at this path below a run. `tag` is also the beginning of its id.
pub(super) fn described(tag: &'static str, method: &str, rest: &str) -> Option<Operation> {
    let of_run = |name: &str, summary| {
        let id = format!("{tag}_{name}");
        operation(tag, &id, summary).refuses(&[
            Code::RequestNotFound,
            Code::RunNotRecovered,
            Code::DataCorrupt,
            Code::RunFilesGone,
            Code::SeqOutOfRange,
        ])
    };
    let upload = if tag == "temp_skill_runs" { "TempUpload" } else { "Upload" };
    Some(match (method, rest) {
        ("GET", "") if tag == "management" => of_run("get", "The run, and whether its logs may still grow.")
            .json("Conversation")
            .refuses(&[Code::SeqOutOfRange]),
        ("GET", "") => of_run("get", "The run as it is now, or as it was after an event.")
            .json("Job")
            .refuses(&[Code::SeqOutOfRange]),
        ("DELETE", "") => {
            of_run("delete", "Deletes a run that has ended.").json("Deleted").refuses(&[Code::RunNotFinal])
        }
        ("POST", "/rerun") => of_run("rerun", "Creates a run that asks for the same; the body may change that.")
            .takes(Takes::JsonOrNothing("Rerun"))
            .reads(&["Idempotency-Key", "Prefer", "traceparent"])
            .answers(201, "The run is created.", Content::Json("CreatedOrFinished"))
            .with_headers(CREATED_HEADERS)
            .refuses(PLAN),
        ("POST", "/upload") => of_run("upload", "Receives the files of a run, which then starts.")
            .takes(Takes::Form(upload))
            .reads(&["Prefer"])
            .json("UploadedOrFinished")
            .refuses(PLAN)
            .refuses(&[Code::AlreadyUploaded, Code::RunFinal, Code::SkillPackageInvalid]),
        ("GET", "/result") => {
            of_run("result", "The result of a run that has ended.").json("RunResult").refuses(&[Code::ResultNotReady])
        }
        ("GET", "/artifacts") => of_run("artifacts", "The files that the run made.").json("Artifacts"),
        ("GET", "/artifacts/{*path}") => of_run("artifact", "One file that the run made.")
            .file("*/*")
            .refuses(&[Code::ArtifactNotFound, Code::UnsafePath]),
        ("GET", "/bundle") => of_run("bundle", "Result and artifacts as one zip.")
            .file("application/zip")
            .refuses(&[Code::BundleNotReady]),
        ("GET", "/explain") => of_run("explain", "Why the run failed, or where a field of its result came from.")
            .json("Explained")
            .refuses(&[Code::ResultNotReady, Code::FieldNotFound]),
        ("GET", "/explain/cache") => of_run("explain_cache", "What the cache did for the run.").json("CacheExplained"),
        ("GET", "/export") => of_run("export", "The run as one file, for `skill-runner audit` and `replay`.")
            .file("application/zip")
            .refuses(&[Code::ResultNotReady]),
        ("GET", "/logs") => of_run("logs", "The prompt and the output of the engine.").json("Logs").refuses(&[
            Code::FileNotFound,
            Code::FileNotShown,
            Code::UnsafePath,
        ]),
        ("GET", "/logs/range") => of_run("log_range", "A part of an output, and the events made of it.")
            .json("LogRange")
            .refuses(&[Code::RangeNotSatisfiable, Code::FileNotFound, Code::FileNotShown, Code::UnsafePath]),
        ("GET", "/events") => of_run("events", "The run's events as they come.")
            .reads(&["Last-Event-ID"])
            .answers(200, "The events after the cursor, until the run ends.", Content::Events)
            .with_headers(&["Cache-Control", "X-Accel-Buffering"])
            .answers(204, "The run has ended, and the cursor is at its last event.", Content::Nothing)
            .refuses(&[Code::InvalidCursor]),
        ("POST", "/events/ticket") => {
            of_run("ticket", "A ticket with which a page of another origin opens the run's events, for one minute.")
                .json("Ticket")
        }
        ("GET", "/events/history") => {
            of_run("history", "A range of the run's events.").answers(200, "Done.", Content::JsonOrLines("History"))
        }
        ("POST", "/cancel") => of_run("cancel", "Cancels the run; one that has ended stays as it is.")
            .json("Canceled")
            .refuses(&[Code::RunBusy]),
        ("GET", "/interaction/pending" | "/pending") => {
            of_run("pending", "The question that the run waits with.").json("Pending").refuses(&[Code::NotInteractive])
        }
        ("POST", "/interaction/reply" | "/reply") => {
            of_run("reply", "Answers the question.").takes(Takes::Json("Reply")).json("Replied").refuses(&[
                Code::NotInteractive,
                Code::InteractionStale,
                Code::InteractionNotPending,
                Code::RunBusy,
                Code::InputValidationFailed,
                Code::IdempotencyConflict,
                Code::QueueFull,
            ])
        }
        ("GET", "/audit") => of_run("audit", "The run checked as a whole: its log, row, raw output, result and files.")
            .json("AuditReport"),
        ("GET", "/files") => of_run("files", "The files in the run's folder.").json("FileTree"),
        ("GET", "/file") => of_run("file", "A preview of one of them.").json("FilePreview").refuses(&[
            Code::FileNotFound,
            Code::FileNotShown,
            Code::UnsafePath,
        ]),
        _ => return None,
    })
}
