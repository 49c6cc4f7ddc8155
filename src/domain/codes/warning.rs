//! The codes of warnings: what a run's log says although the run goes on.

use super::table::codes;

codes! {
    /// Every code that the runner gives to a warning.
    WarningCode, hint: &'static str {
        ArtifactRefused = "ARTIFACT_REFUSED", "A file in the artifacts folder is not a plain file, or its path is too long or would lead elsewhere."
            => "let the skill write plain files with plain names, and no links",
        AskBlockInvalid = "ASK_BLOCK_INVALID", "The engine asked in a form that cannot be read; its question is put as plain text."
            => "compare the question with the contract at the end of the prompt",
        EgressRefused = "EGRESS_REFUSED", "The run tried to reach a host that it may not."
            => "name the host in automation.allowlist of the skill's runner.json, or let the operator name it in egress_allow",
        EngineDidNotExit = "ENGINE_DID_NOT_EXIT", "The engine finished its turn and did not exit, so it was ended."
            => "raise the setting exit_grace_seconds if the engine needs longer",
        EngineError = "ENGINE_ERROR", "The engine reported an error that need not end its turn."
            => "read the message if the run fails later",
        EngineOutputRewritten = "ENGINE_OUTPUT_REWRITTEN", "The engine changed or cut off what it had already written to its standard output or standard error."
            => "let what the engine starts append to its standard error (>> /dev/stderr or >&2) instead of opening it anew",
        EngineOutputUnrecognized = "ENGINE_OUTPUT_UNRECOGNIZED", "The engine wrote lines of a kind that is not known."
            => "the lines are kept as they are; compare the version of the engine with the tested one",
        EnginePermissionDenied = "ENGINE_PERMISSION_DENIED", "The engine refused itself the use of a tool."
            => "allow the tool in the skill's engine configuration if the skill needs it",
        EngineRemark = "ENGINE_REMARK", "The engine has something to say that is not an error."
            => "nothing",
        EngineRetrying = "ENGINE_RETRYING", "The engine had an error and tries again."
            => "nothing, unless it goes on for long",
        EngineSunset = "ENGINE_SUNSET", "The maker of the engine has announced its end."
            => "move the skill to another engine",
        InputExtensionUnexpected = "INPUT_EXTENSION_UNEXPECTED", "The name of an uploaded file does not end as the skill expects."
            => "check that it is the right file; the run goes on with it",
        InteractiveCompletedWithoutDoneMarker = "INTERACTIVE_COMPLETED_WITHOUT_DONE_MARKER", "The output is valid, but the engine did not say that it is done."
            => "check that the result is complete",
        IsolationNotEnforced = "ISOLATION_NOT_ENFORCED", "Something of the run is not confined, though the skill asks for it or the rest of the run is: the message says what."
            => "run `skill-runner doctor`, which says why there is no sandbox; run only skills that you trust until then",
        LogChanged = "LOG_CHANGED", "A process of the run changed the log of its own output, so raw output and events differ."
            => "let the skill write into its own folders only",
        LogLimitExceeded = "LOG_LIMIT_EXCEEDED", "The engine wrote more than max_log_bytes; the rest was dropped."
            => "raise the setting max_log_bytes if the rest matters",
        ModelNotInCatalog = "MODEL_NOT_IN_CATALOG", "The model is not in the list of models of this version of the engine's CLI."
            => "check its name; add it to the list if it is right: POST /v1/engines/NAME/models/snapshots",
        NormalizationFailed = "NORMALIZATION_FAILED", "A step that should make the output valid did not."
            => "read the detail of the step",
        OutputAmbiguous = "OUTPUT_AMBIGUOUS", "The engine's answer holds different JSON objects; the last one that matches the schema was taken."
            => "compare the places that the message names; let the skill say that the answer is one object alone",
        OutputNormalized = "OUTPUT_NORMALIZED", "The output was made valid without changing what it says."
            => "nothing; `skill-runner explain` shows the steps",
        OutputRepaired = "OUTPUT_REPAIRED", "The engine was asked again to make its output valid."
            => "compare the result with the first output; it may have changed",
        ProcessesLeftBehind = "PROCESSES_LEFT_BEHIND", "Processes outlived the engine and were ended."
            => "let the skill wait for the processes that it starts",
        RawOutputRestored = "RAW_OUTPUT_RESTORED", "A raw output file was changed during the run and was written again from the log."
            => "let the skill write into its own folders only",
        SessionHandleChanged = "SESSION_HANDLE_CHANGED", "The engine began another session than the one it should continue."
            => "start a new run; the session of the engine is lost",
        SessionHandleInvalid = "SESSION_HANDLE_INVALID", "The engine's name for its session cannot be used."
            => "the run cannot be continued after a question",
        UploadEntryIgnored = "UPLOAD_ENTRY_IGNORED", "An entry of the uploaded zip is for no input of the skill and was left out."
            => "name it like the input it is for, with or without an extension; GET /v1/skills/{id} lists them as file_inputs",
    }
}
