//! The codes of failed runs and refused requests, each with its HTTP status, exit status, meaning and advice.

use super::exit::Exit::{self, Failed, NotFound, Refused, Unreachable, Usage};
use super::table::codes;

/// Where a code appears.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// In the answer to a request.
    Request,
    /// In the error of a failed or canceled run.
    Run,
    /// In the record of an installation of a skill package.
    Installation,
    /// In the output of a command that asks no service.
    Command,
}

/// What to do about an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hint {
    /// In the words of the API: fields, headers and routes.
    pub api: &'static str,
    /// In the words of the command line: flags and commands.
    pub cli: &'static str,
}

/// What is known about an error code apart from its text and its meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ErrorInfo {
    pub kinds: &'static [Kind],
    /// The status of an answer with this code; none if no answer has it.
    pub http: Option<u16>,
    /// The exit status of a command that ends with this code.
    pub exit: Exit,
    pub hint: Hint,
}

impl ErrorInfo {
    const fn in_kinds(mut self, kinds: &'static [Kind]) -> Self {
        self.kinds = kinds;
        self
    }
}

const fn request(http: u16, exit: Exit, hint: Hint) -> ErrorInfo {
    ErrorInfo { kinds: &[Kind::Request], http: Some(http), exit, hint }
}

const fn run(hint: Hint) -> ErrorInfo {
    ErrorInfo { kinds: &[Kind::Run], http: None, exit: Failed, hint }
}

const fn local(kind: &'static [Kind], exit: Exit, hint: Hint) -> ErrorInfo {
    ErrorInfo { kinds: kind, http: None, exit, hint }
}

const fn both(hint: &'static str) -> Hint {
    Hint { api: hint, cli: hint }
}

const fn each(api: &'static str, cli: &'static str) -> Hint {
    Hint { api, cli }
}

codes! {
    /// Every code that the runner itself gives to a failed run or a refused request; script skills add their own.
    ErrorCode, info: ErrorInfo {
        // Runs.
        EngineFailed = "ENGINE_FAILED", "The engine or the script failed, or ended without saying how."
            => run(each("GET …/logs shows what the engine wrote to standard error", "`skill-runner logs --stream stderr` shows what the engine said about it")),
        EngineNotInstalled = "ENGINE_NOT_INSTALLED", "The program of the engine or of the script was not found."
            => run(each("install the engine: POST /v1/engines/upgrades", "install the engine: `skill-runner engines --install NAME`")),
        DependenciesUnavailable = "DEPENDENCIES_UNAVAILABLE", "The Python packages that the skill declares could not be installed."
            => run(both("details have the installer's own words; give the machine access to a package index (PIP_INDEX_URL), or put the wheels into the package")),
        EngineConfigInvalid = "ENGINE_CONFIG_INVALID", "The engine cannot be given its configuration or the model."
            => run(both("correct the skill's engine configuration, or the model of the request")),
        EngineConfigRefused = "ENGINE_CONFIG_REFUSED", "The skill or the request sets a key of the engine's configuration that is for the operator alone, or to a value it does not take."
            => request(400, Refused, both("remove the keys that the message names; docs/engines lists those that may be set, and where the operator sets the others"))
                .in_kinds(&[Kind::Request, Kind::Run]),
        EngineAuthRequired = "ENGINE_AUTH_REQUIRED", "The engine has no login, or its login is refused."
            => run(each("log in with the engine's own command on the machine of the service; GET /v1/engines/auth-status shows the logins", "log in with the engine's own command; `skill-runner engines` shows the logins")),
        EngineRateLimited = "ENGINE_RATE_LIMITED", "The model's service accepts no more requests at present."
            => run(both("run it again later, or choose another model")),
        Timeout = "TIMEOUT", "The run exceeded its time limit."
            => run(each("raise runtime_options.hard_timeout_seconds", "raise --timeout")),
        Stalled = "STALLED", "The engine wrote nothing for too long."
            => run(both("details name the processes that were running; raise the setting stall_timeout_seconds if silence is normal")),
        OutputLimitExceeded = "OUTPUT_LIMIT_EXCEEDED", "The script wrote more than the limit for its output."
            => run(both("let the script write large data into artifacts and print only its answer")),
        LogChangedByRun = "LOG_CHANGED_BY_RUN", "A process of the run changed the log of its own output."
            => run(both("let the skill write into its own folders, and not into logs")),
        ResourceLimitExceeded = "RESOURCE_LIMIT_EXCEEDED", "The run used more of a resource than it may, or the machine had none left for it."
            => request(503, Failed, both("try it again later, use less, or raise the limit that the message names"))
                .in_kinds(&[Kind::Request, Kind::Run]),
        SkillLimitsTooHigh = "SKILL_LIMITS_TOO_HIGH", "The skill asks for more memory, processes, processor time, disk space or open files than the settings allow."
            => request(400, Refused, both("raise the settings that the message names, or lower automation.limits in runner.json")),
        SchemaValidationFailed = "SCHEMA_VALIDATION_FAILED", "The output does not match the skill's output schema."
            => run(each(
                "change what the skill writes at these places, or its output schema; GET …/logs shows the whole output",
                "change what the skill writes at these places, or its output schema; `skill-runner logs` shows the whole output",
            )),
        SchemaTooCostly = "SCHEMA_TOO_COSTLY", "Checking the input or the output against the skill's schema takes too long."
            => request(400, Failed, both("simplify the schema: fewer alternatives, bounded arrays, plain patterns")).in_kinds(&[Kind::Request, Kind::Run]),
        OutputMissing = "OUTPUT_MISSING", "The engine ended without an output."
            => run(each("GET …/logs shows what the engine wrote", "`skill-runner logs` shows what the engine wrote")),
        ArtifactMissing = "ARTIFACT_MISSING", "A file that the skill promises was not written."
            => run(both("let the skill write the files that are missing, or correct `artifacts` in its runner.json")),
        MissingInputFiles = "MISSING_INPUT_FILES", "A required input file was not given."
            => run(each("create the run again, and upload each file that details name in a part named like its input: POST /v1/jobs/{id}/upload", "give each file with --file KEY=PATH")),
        PromptTemplateFailed = "PROMPT_TEMPLATE_FAILED", "The skill's prompt template cannot be rendered."
            => run(both("correct the template at the place that the message names")),
        SessionResumeFailed = "SESSION_RESUME_FAILED", "The engine cannot continue the conversation of the run."
            => run(both("start a new run; the session of the engine is lost")),
        InteractiveMaxAttemptExceeded = "INTERACTIVE_MAX_ATTEMPT_EXCEEDED", "The conversation used all its attempts without a valid output."
            => run(both("raise max_attempt in the skill's manifest, or let the skill ask less")),
        OrchestratorRestartInterrupted = "ORCHESTRATOR_RESTART_INTERRUPTED", "The service ended while the run or the installation was in progress."
            => run(both("send it again")).in_kinds(&[Kind::Run, Kind::Installation]),
        CanceledByUser = "CANCELED_BY_USER", "The run was canceled on request."
            => run(both("nothing: start a new run if it is still needed")),
        InternalError = "INTERNAL_ERROR", "The script reported a failure without a code."
            => run(both("let the script give error.code in its answer")),

        // Requests that are wrong.
        InvalidJson = "INVALID_JSON", "The body is not JSON."
            => request(400, Refused, both("correct the syntax at the line and column in details")),
        InvalidRequest = "INVALID_REQUEST", "A value of the request is missing or wrong."
            => request(400, Refused, each("details list the fields that are wrong", "correct the flag or the value that the message names")),
        InputValidationFailed = "INPUT_VALIDATION_FAILED", "The input, or the answer to a question, does not match its schema."
            => request(400, Refused, each("correct the places of input or response that details list", "correct the values of --input, or the answer")),
        ParameterValidationFailed = "PARAMETER_VALIDATION_FAILED", "The parameters do not match the skill's parameter schema."
            => request(400, Refused, each("correct the places of parameter that details list", "correct the values of --param")),
        FileInputInline = "FILE_INPUT_INLINE", "A file was given as a value of the input."
            => request(400, Refused, each("leave the key out of input and upload the file: POST …/upload", "give the file with --file KEY=PATH instead of --input")),
        UnknownInputKey = "UNKNOWN_INPUT_KEY", "The input or the upload has a field that the skill does not have."
            => request(400, Refused, each("remove the field; GET /v1/skills/{id} shows the skill's fields", "remove the value; the message names the fields of the skill")),
        SkillEngineUnsupported = "SKILL_ENGINE_UNSUPPORTED", "The skill does not run on this engine, or no engine has this name."
            => request(400, Refused, each("choose one of the skill's engines in engine, or leave it out", "choose one of the skill's engines with --engine, or leave it out")),
        SkillExecutionModeUnsupported = "SKILL_EXECUTION_MODE_UNSUPPORTED", "The skill does not run in this execution mode."
            => request(400, Refused, each("choose one of the skill's execution_modes in runtime_options.execution_mode", "add or remove --interactive")),
        ModelNotAllowed = "MODEL_NOT_ALLOWED", "A model was given for a run that uses none, or one that the skill does not list."
            => request(400, Refused, each("leave model out", "leave --model out")),
        NotInteractive = "NOT_INTERACTIVE", "The run cannot be answered because it is not interactive."
            => request(400, Refused, each("create the run with runtime_options.execution_mode \"interactive\"", "start the run with --interactive")),
        InvalidZip = "INVALID_ZIP", "The upload is not a readable zip."
            => request(400, Refused, both("make the zip again; encrypted zips and zips of several parts are not read. A file without a zip is sent in a part named like its input")),
        UnsafePath = "UNSAFE_PATH", "A path leads outside its folder or to something that is not a plain file."
            => request(400, Refused, both("use relative paths of plain files, without .. and links")),
        SkillPackageInvalid = "SKILL_PACKAGE_INVALID", "The skill package breaks rules."
            => request(400, Refused, each("correct what the findings in details name", "correct what the findings name; `skill-runner skill lint DIR` lists them"))
                .in_kinds(&[Kind::Request, Kind::Installation, Kind::Command]),
        InvalidCursor = "INVALID_CURSOR", "The cursor of an event stream is not a number of 0 or more."
            => request(400, Refused, both("send the id of the last event that was received, or 0")),
        SeqOutOfRange = "SEQ_OUT_OF_RANGE", "The log of the run has no event with this number."
            => request(400, Refused, both("choose a number between 1 and the head_seq of the run")),
        Unauthorized = "UNAUTHORIZED", "The service requires a token or a login."
            => request(401, Usage, each("send the header Authorization: Bearer <token>, or Basic where the answer asks for it", "give the token of the service in the setting token")),
        ForbiddenScope = "FORBIDDEN_SCOPE", "The token does not allow this."
            => request(403, Usage, each("use a token with the scope that details.needed names", "use a token with a larger scope: `skill-runner token new NAME --scope SCOPE` makes one")),
        ForbiddenHost = "FORBIDDEN_HOST", "The service does not answer under this host name."
            => request(403, Usage, each("add the host to the setting allowed_hosts", "use another address with --server, or add the host to the setting allowed_hosts")),
        ForbiddenOrigin = "FORBIDDEN_ORIGIN", "A page of another origin may not change anything."
            => request(403, Usage, each("send the request without the header Origin, or from a page of the service", "send it without a header Origin")),
        FileNotShown = "FILE_NOT_SHOWN", "The file is not one that a run shows: it may hold the configuration of an engine, or the run has closed it."
            => request(403, Refused, each("GET /v1/management/runs/{id}/files lists the files that are shown; let the skill write what it wants to show into artifacts", "the operator finds the file in the folder of the run")),

        // Things that do not exist.
        RequestNotFound = "REQUEST_NOT_FOUND", "No run has this request id or run id."
            => request(404, NotFound, each("GET /v1/jobs lists the runs there are", "use the id that `skill-runner run` printed, and the --data-dir of that run")),
        SkillNotFound = "SKILL_NOT_FOUND", "No usable skill with this id is installed."
            => request(404, NotFound, each("GET /v1/skills lists the skills there are", "`skill-runner skill list` lists the skills")),
        SkillVersionNotFound = "SKILL_VERSION_NOT_FOUND", "The archive has no such version of the skill."
            => request(404, NotFound, each("GET /v1/skills/{id}/versions lists the versions", "`skill-runner skill versions NAME` lists the versions")),
        EngineNotFound = "ENGINE_NOT_FOUND", "No engine has this name."
            => request(404, NotFound, each("GET /v1/engines lists the engines", "`skill-runner engines` lists the engines")),
        ArtifactNotFound = "ARTIFACT_NOT_FOUND", "The run has no artifact with this path."
            => request(404, NotFound, each("GET …/artifacts lists the artifacts", "the result of the run lists its artifacts")),
        FieldNotFound = "FIELD_NOT_FOUND", "The result of the run has no such field."
            => request(404, NotFound, each("GET …/result shows what it has", "give --path a JSON pointer into the result, such as /data")),
        FileNotFound = "FILE_NOT_FOUND", "The run's folder has no file with this path."
            => request(404, NotFound, each("GET /v1/management/runs/{id}/files lists the files", "look into the folder of the run")),
        InstallNotFound = "INSTALL_NOT_FOUND", "No installation has this id."
            => request(404, NotFound, both("use the id that the installation was answered with")),
        NodeNotFound = "NODE_NOT_FOUND", "No service on this store has this id."
            => request(404, NotFound, each("GET /v1/management/nodes lists the services", "`skill-runner nodes` lists the services")),
        UpgradeNotFound = "UPGRADE_NOT_FOUND", "No engine upgrade has this id."
            => request(404, NotFound, both("use the id that the upgrade was answered with")),
        BackupNotFound = "BACKUP_NOT_FOUND", "The service has made no backup with this id since its start, or another one since then."
            => request(404, NotFound, both("use the id that the backup was answered with; a backup that is complete is in the folder backup_dir")),
        RouteNotFound = "ROUTE_NOT_FOUND", "The API has no such route."
            => request(404, NotFound, each("the API is below /v1, its reference at /docs, the user interface at /ui", "check --server: is it a skill-runner of this version?")),
        RunFilesGone = "RUN_FILES_GONE", "The files of the run were removed."
            => request(410, NotFound, both("run it again")),
        LegacyRouteGone = "LEGACY_ROUTE_GONE", "An old route of the user interface has ended."
            => request(410, NotFound, both("use the route that details.successor and the header Link name")),

        // Requests that do not fit HTTP or the limits.
        MethodNotAllowed = "METHOD_NOT_ALLOWED", "The route does not support this method."
            => request(405, Refused, each("the header Allow lists the methods", "check --server: is it a skill-runner of this version?")),
        RequestTimeout = "REQUEST_TIMEOUT", "The request did not come in time."
            => request(408, Unreachable, both("send it again; the message names the setting that limits the time")),
        UriTooLong = "URI_TOO_LONG", "The path and the query string of the request are too long."
            => request(414, Refused, both("shorten them; ids and cursors are short")),
        HeadersTooLarge = "HEADERS_TOO_LARGE", "The request's line and headers are too large or too many."
            => request(431, Refused, both("send fewer and shorter headers, cookies above all")),
        PayloadTooLarge = "PAYLOAD_TOO_LARGE", "The body, the upload or what it unpacks to exceeds a limit."
            => request(413, Refused, both("send less, or raise the limit that the message names")),
        UnsupportedMediaType = "UNSUPPORTED_MEDIA_TYPE", "The route does not read this content type."
            => request(415, Refused, each("send the Content-Type that the message names", "check --server: is it a skill-runner of this version?")),
        RangeNotSatisfiable = "RANGE_NOT_SATISFIABLE", "The requested range begins after the end of the file."
            => request(416, Refused, both("details give the size of the file")),

        // Requests that conflict with the state of a run.
        InteractionStale = "INTERACTION_STALE", "Another question is open than the one that was answered."
            => request(409, Refused, each("GET …/interaction/pending shows the open question", "`skill-runner reply` without --interaction answers the open question")),
        InteractionNotPending = "INTERACTION_NOT_PENDING", "The run waits for no answer."
            => request(409, Refused, each("GET the run to see its status", "`skill-runner watch` shows what the run does")),
        IdempotencyConflict = "IDEMPOTENCY_CONFLICT", "The idempotency key was used before with a different request."
            => request(409, Refused, each("use a new Idempotency-Key or idempotency_key for a new request", "use a new --key for a new answer")),
        AlreadyUploaded = "ALREADY_UPLOADED", "The run already has its upload."
            => request(409, Refused, both("create a new run for other files")),
        BackupRunning = "BACKUP_RUNNING", "A backup is being made, and there is one at a time."
            => request(409, Refused, both("wait until it has ended, then ask again")),
        BackupExists = "BACKUP_EXISTS", "There is a backup with this name, and none is written over."
            => request(409, Refused, both("choose another name, or remove the old backup")),
        RunFinal = "RUN_FINAL", "The run has ended."
            => request(409, Refused, both("start a new run")),
        RunNotFinal = "RUN_NOT_FINAL", "The run has not ended."
            => request(409, Refused, each("cancel it first: POST …/cancel", "cancel it first: `skill-runner cancel`")),
        SkillVersionInPlace = "SKILL_VERSION_IN_PLACE", "This version of the skill is the installed one."
            => request(409, Refused, each("nothing: runs use it; GET /v1/skills/{id}/versions lists the others", "nothing: runs use it; `skill-runner skill versions NAME` lists the others")),
        SkillNotRemovable = "SKILL_NOT_REMOVABLE", "The skill is not a folder of the skills folder, so it can neither be uninstalled nor replaced."
            => request(409, Refused, both("remove it where it comes from: the agent's folder, the program, or the target of the link")),
        VersionNotNewer = "VERSION_NOT_NEWER", "The same or a newer version of the skill is installed."
            => request(409, Refused, both("raise version in assets/runner.json")).in_kinds(&[Kind::Request, Kind::Installation, Kind::Command]),
        ResultNotReady = "RESULT_NOT_READY", "The run has not ended, so there is no result."
            => request(409, Failed, each("follow …/events, or ask again later", "`skill-runner watch` waits for the end")),
        BundleNotReady = "BUNDLE_NOT_READY", "The run has not ended, so there is no bundle."
            => request(409, Failed, each("follow …/events, or ask again later", "`skill-runner watch` waits for the end")),

        // The state of the service.
        QueueFull = "QUEUE_FULL", "Too many runs, installations or upgrades are waiting."
            => request(429, Failed, each("send it again after the seconds in the header Retry-After", "try again later, or raise the setting max_queued_jobs")),
        TooManyFailedLogins = "TOO_MANY_FAILED_LOGINS", "The client sent too many wrong tokens or passwords."
            => request(429, Usage, each("send the right one after the seconds in the header Retry-After", "wait the seconds that the message names, and give the right token")),
        TooManyConnections = "TOO_MANY_CONNECTIONS", "The service has as many connections as it may."
            => request(503, Unreachable, each("send it again after the seconds in the header Retry-After, or raise the setting max_connections", "try again later, or raise the setting max_connections of the service")),
        RunBusy = "RUN_BUSY", "Others write to the run at present, or it is being recovered."
            => request(503, Failed, each("send it again after the seconds in the header Retry-After", "try again later")),
        ShuttingDown = "SHUTTING_DOWN", "The service is shutting down."
            => request(503, Unreachable, both("send it again when the service runs again")),
        RunNotRecovered = "RUN_NOT_RECOVERED", "The run was at work when the service ended, and what became of it is not known yet."
            => request(503, Unreachable, each("send it again after the seconds in the header Retry-After", "try again in a few seconds")),
        StoreUnreachable = "STORE_UNREACHABLE", "The database with the logs of runs cannot be reached."
            => request(503, Unreachable, each("send it again after the seconds in the header Retry-After; store.trouble of GET /v1/system tells the cause", "start the database that the setting store names, and try again")),
        InsufficientStorage = "INSUFFICIENT_STORAGE", "The disk has less free space than the setting min_free_bytes asks for."
            => request(507, Failed, each("free space, for example with POST /v1/jobs/cleanup", "free space on the disk of --data-dir"))
                .in_kinds(&[Kind::Request, Kind::Run]),
        DataCorrupt = "DATA_CORRUPT", "A stored file differs from what the run's proof says."
            => request(500, Failed, each("restore the file that the message names from a backup", "`skill-runner audit` names every difference; restore the file from a backup")),
        Internal = "INTERNAL", "The runner itself failed."
            => request(500, Failed, each("look for the log_id of details in the log of the service", "read the message, and the log of the service"))
                .in_kinds(&[Kind::Request, Kind::Run, Kind::Installation, Kind::Command]),

        // Outside the API.
        ServiceUnreachable = "SERVICE_UNREACHABLE", "The service does not answer."
            => local(&[Kind::Command], Unreachable, each("start the service", "start it with `skill-runner serve`, or check --server")),
    }
}
