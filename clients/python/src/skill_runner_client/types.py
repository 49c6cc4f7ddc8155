"""What the service takes and answers. Made of the OpenAPI document by clients/generate.py; changes belong there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypedDict, Union

if TYPE_CHECKING:
    from typing_extensions import NotRequired


class Flaw(TypedDict):
    """One value that is wrong."""

    #: A JSON pointer, or the name of the parameter.
    path: str
    message: str


class ErrorError(TypedDict):
    code: ErrorCode
    #: What was wrong, and what to do.
    message: str
    #: The flaws of a request as a list, or more about the cause as an object.
    details: dict[str, Any] | list[Flaw]
    #: The request id of the run in the path, if there is one.
    request_id: Uuid | None


class Error(TypedDict):
    """The envelope of every answer that is not a success."""

    error: ErrorError


class Warning(TypedDict):
    code: str
    message: str
    level: Literal['info', 'warning']
    normalization_level: NormalizationLevel | None
    details: dict[str, Any]


class RunError(TypedDict):
    #: A code of docs/errors.md, or one of the skill's own.
    code: str
    message: str
    details: dict[str, Any]


class Usage(TypedDict):
    input_tokens: int
    cached_input_tokens: int
    output_tokens: int
    cost_usd: float | None


class Isolation2(TypedDict):
    tier: Literal['sandbox', 'process-tree']
    parts: list[str]
    files: Literal['machine', 'run', 'read-only']
    network: Literal['machine', 'none', 'model', 'allowlist', 'open']


class IntegrityDamagedItem(TypedDict):
    file: str
    message: str
    found_at: Timestamp


class Integrity(TypedDict):
    """Stored files that differ from what they were."""

    damaged: list[IntegrityDamagedItem]


class JobFields(TypedDict):
    """A run, its status and its summary."""

    #: The client's name for the run.
    request_id: Uuid
    run_id: Uuid
    status: RunStatus
    skill_id: str
    skill_version: str
    engine: str
    engine_version: str | None
    isolation: Isolation | None
    model: str | None
    effort: str | None
    engine_options: dict[str, Any]
    execution_mode: ExecutionMode
    created_at: Timestamp
    updated_at: Timestamp
    attempt: int
    retries: int
    retry_at: Timestamp | None
    #: The last event: the cursor of a reader who has seen everything.
    head_seq: int
    awaiting_upload: bool
    cache_hit: bool
    pending_interaction_id: int | None
    interaction_count: int
    recovery_state: Literal['none', 'recovered_waiting', 'failed_reconciled']
    recovered_at: Timestamp | None
    recovery_reason: str | None
    auto_decision_count: int
    last_auto_decision_at: Timestamp | None
    warnings: list[Warning]
    error: RunError | None
    usage: Usage
    awaiting_files: list[str]
    #: What the client finds it by.
    labels: dict[str, str]
    #: How many runs are to start before it; null when it is not in the queue.
    queue_position: int | None
    integrity: Integrity | None
    #: Left out if it is 0.
    priority: NotRequired[int]
    #: What the client keeps with it; not in lists.
    metadata: NotRequired[dict[str, Any]]


class Job(JobFields):
    pass


class JobWithResult(JobFields):
    """The job as it is after a wait, with its result when it has ended."""

    #: Once the run has ended.
    result: NotRequired[Result]


class Conversation(JobFields):
    """The job, and what a front end needs besides."""

    #: Whether its logs may still grow.
    poll_logs: bool


class JobList(TypedDict):
    """Runs, newest first."""

    jobs: list[Job]
    #: Pass it as before for the next page; null on the last one.
    next_before: Uuid | None


class RunCountsByStatus(TypedDict):
    queued: int
    running: int
    waiting_user: int
    succeeded: int
    failed: int
    canceled: int


class RunCounts(TypedDict):
    total: int
    by_status: RunCountsByStatus


class RunList(TypedDict):
    """Runs, newest first, and how many there are."""

    jobs: list[Job]
    next_before: Uuid | None
    #: All runs that the filter finds, on this page or another; status does not count.
    counts: RunCounts


class RuntimeOptionsRetry(TypedDict):
    times: int
    backoff_seconds: NotRequired[int]


class RuntimeOptions(TypedDict):
    execution_mode: NotRequired[ExecutionMode]
    no_cache: NotRequired[bool | None]
    debug: NotRequired[bool | None]
    debug_keep_temp: NotRequired[bool | None]
    verbose: NotRequired[bool | None]
    interactive_auto_reply: NotRequired[bool | None]
    interactive_reply_timeout_sec: NotRequired[int | None]
    hard_timeout_seconds: NotRequired[int | None]
    stall_timeout_seconds: NotRequired[int | None]
    retry: NotRequired[RuntimeOptionsRetry | None]


class OverridesContext(TypedDict):
    user_id: NotRequired[str | None]
    agent_id: NotRequired[str | None]


class Overrides(TypedDict):
    """What a run is asked to do. A configuration for an engine (codex_config and its like) needs admin."""

    engine: NotRequired[str | None]
    input: NotRequired[dict[str, Any] | None]
    parameter: NotRequired[dict[str, Any] | None]
    model: NotRequired[str | None]
    runtime_options: NotRequired[RuntimeOptions]
    await_upload: NotRequired[bool | None]
    labels: NotRequired[Labels | None]
    priority: NotRequired[int | None]
    #: At most 16 KiB.
    metadata: NotRequired[dict[str, Any] | None]
    context: NotRequired[OverridesContext | None]
    #: Configuration for this engine; needs admin.
    codex_config: NotRequired[dict[str, Any] | None]
    #: Configuration for this engine; needs admin.
    gemini_config: NotRequired[dict[str, Any] | None]
    #: Configuration for this engine; needs admin.
    opencode_config: NotRequired[dict[str, Any] | None]
    #: Configuration for this engine; needs admin.
    iflow_config: NotRequired[dict[str, Any] | None]
    #: Configuration for this engine; needs admin.
    claude_config: NotRequired[dict[str, Any] | None]
    #: Configuration for this engine; needs admin.
    qwen_config: NotRequired[dict[str, Any] | None]


class NewRun(Overrides):
    """A run of an installed skill."""

    skill_id: str


class NewTempRun(Overrides):
    """A run of a skill that comes with its upload."""



class Rerun(Overrides):
    """What is to be different from the earlier run."""

    skill_id: NotRequired[str]


class Created(TypedDict):
    request_id: Uuid
    run_id: Uuid
    cache_hit: bool
    status: RunStatus
    #: Whether it waits for POST …/upload.
    awaiting_upload: bool


class Uploaded(TypedDict):
    request_id: Uuid
    cache_hit: bool
    status: RunStatus
    extracted_files: list[str]


class Upload(TypedDict):
    """The zip file, or one part per file input, named like it. Several parts may have the same name."""

    #: A zip; an entry named like a file input is that input.
    file: NotRequired[str]


class TempUpload(TypedDict):
    """The skill, and the files of the run as for other runs."""

    #: The zip with the skill.
    skill_package: str
    file: NotRequired[str]


class ArtifactEntry(TypedDict):
    role: str
    #: Its path in the run's folder; begins with artifacts/.
    path_rel: str
    filename: str
    mime: str
    size: int
    sha256: Sha256
    required: bool


class ListedArtifact(TypedDict):
    role: str
    #: Its path in the run's folder; begins with artifacts/.
    path_rel: str
    filename: str
    mime: str
    size: int
    sha256: Sha256
    required: bool
    url: str


class Result(TypedDict):
    status: Literal['succeeded', 'failed', 'canceled']
    #: What the skill's output schema says; null unless the run succeeded.
    data: Any
    artifacts: list[ListedArtifact]
    validation_warnings: list[Warning]
    error: RunError | None
    #: What a script says of its success.
    message: NotRequired[Any]
    metadata: NotRequired[Any]


class RunResult(TypedDict):
    request_id: Uuid
    result: Result


class Artifacts(TypedDict):
    request_id: Uuid
    artifacts: list[str]
    manifest: list[ArtifactEntry]


class Logs(TypedDict):
    request_id: Uuid
    prompt: str
    stdout: str
    stderr: str
    #: Those whose beginning was left out: the last 8 MiB of each are told.
    truncated: list[Literal['prompt', 'stdout', 'stderr']]


class LogRange(TypedDict):
    stream: Literal['stdout', 'stderr', 'pty']
    byte_from: int
    byte_to: int
    content: str
    encoding: Literal['utf-8', 'base64']
    total_bytes: int
    #: The events made of these bytes.
    events: list[int]


class StreamEvent(TypedDict):
    """One server-sent event; docs/api.md tells how streams go on and end."""

    event: Literal['snapshot', 'chat_event', 'heartbeat']
    #: JSON: for chat_event, an Event.
    data: str
    #: The seq of a chat_event.
    id: NotRequired[str | int]
    retry: NotRequired[int]


class History(TypedDict):
    request_id: Uuid
    run_id: Uuid
    events: list[Event]
    count: int
    #: The from_seq of the next page; null at the end.
    next_seq: int | None


class InteractionOptionsItem(TypedDict):
    label: str
    value: Any


class Interaction(TypedDict):
    """A question to the user."""

    interaction_id: int
    kind: Literal['choose_one', 'confirm', 'fill_fields', 'open_text', 'risk_ack']
    prompt: str
    options: list[InteractionOptionsItem]
    ui_hints: Any
    required_fields: list[str]
    default_decision_policy: str
    context: Any


class Pending(TypedDict):
    request_id: Uuid
    status: RunStatus
    pending: Interaction | None


class Reply(TypedDict):
    interaction_id: int
    #: Any JSON.
    response: Any
    #: The same key gets the first answer again.
    idempotency_key: NotRequired[str | None]


class Replied(TypedDict):
    request_id: Uuid
    status: RunStatus
    accepted: Literal[True]


class Canceled(TypedDict):
    request_id: Uuid
    run_id: Uuid
    status: RunStatus
    #: Whether the cancel has an effect.
    accepted: bool
    message: str


class Deleted(TypedDict):
    request_id: Uuid
    run_id: Uuid
    deleted: Literal[True]
    bytes_freed: int


class CleanUp(TypedDict):
    #: Only runs that ended so many seconds ago; left out, all.
    older_than_sec: NotRequired[int | None]
    #: So many of the newest stay.
    keep_last: NotRequired[int | None]


class Cleaned(TypedDict):
    runs_deleted: int
    requests_deleted: int
    cache_entries_deleted: int
    bytes_freed: int
    environments_deleted: int


class Place(TypedDict):
    file: str
    byte_from: int
    byte_to: int


class Origin1(TypedDict):
    kind: Literal['stream']
    precision: Literal['field', 'event', 'file']
    seq: int
    type: str
    stream: Literal['stdout', 'stderr', 'pty']
    byte_from: int
    byte_to: int


class Origin2(TypedDict):
    kind: Literal['file']
    precision: Literal['field', 'event', 'file']
    file: str
    byte_from: int
    byte_to: int


class Origin3(TypedDict):
    kind: Literal['run']
    seq: int
    source_run_id: Uuid


class Origin4(TypedDict):
    kind: Literal['unknown']


class FieldExplainedValidationStepsItem(TypedDict):
    step: str
    ok: bool
    detail: str


class FieldExplainedValidation(TypedDict):
    seq: int
    level: NormalizationLevel
    valid: bool
    source: str
    steps: list[FieldExplainedValidationStepsItem]


class FieldExplained(TypedDict):
    request_id: Uuid
    run_id: Uuid
    path: str
    value: Any
    result: Place
    validation: FieldExplainedValidation | None
    origin: Origin


class FailureExplainedDecidedBy(TypedDict):
    seq: int
    type: str


class FailureExplainedViolationsItem(TypedDict):
    path: str
    message: str
    value: Any
    origin: Origin


class FailureExplained(TypedDict):
    request_id: Uuid
    run_id: Uuid
    status: RunStatus
    code: str
    cause: str
    decided_by: FailureExplainedDecidedBy
    violations: list[FailureExplainedViolationsItem]
    details: dict[str, Any]
    stderr_tail: str
    #: What to do.
    next: str


class CacheExplainedDifferingPartsItem(TypedDict):
    part: str
    sha256: str
    nearest_sha256: str


class CacheExplained(TypedDict):
    request_id: Uuid
    run_id: Uuid
    outcome: Literal['hit', 'miss', 'not_cacheable']
    reason: str
    key: str | None
    nearest_run: Uuid | None
    differing_parts: list[CacheExplainedDifferingPartsItem]


class FileTreeFilesItem(TypedDict):
    path: str
    kind: Literal['file', 'folder', 'other']
    size: int | None


class FileTree(TypedDict):
    request_id: Uuid
    run_id: Uuid
    files: list[FileTreeFilesItem]
    truncated: bool


class FilePreview(TypedDict):
    request_id: Uuid
    path: str
    size: int
    preview: Preview
    mime: str | None
    #: Text as it is, an image in base64.
    content: str | None


class Planned(TypedDict):
    skill_id: str
    skill_version: str
    engine: str
    model: str | None
    execution_mode: ExecutionMode
    #: The files that would have to be uploaded.
    awaiting_files: list[str]


class ExportedRun(TypedDict):
    #: The export of a run.
    file: str


class AuditReportSignedOn(TypedDict):
    """Where several services share the store: the one whose key signed the run, also if it is gone."""

    node_id: Uuid
    name: str


class AuditReportViolationsItem(TypedDict):
    rule: str
    file: str
    seq: int | None
    byte: int | None
    message: str


class AuditReport(TypedDict):
    ok: bool
    run_id: Uuid | None
    status: RunStatus | None
    events: int
    #: trusted: a key of this service signed the run, or of one that shares its store; unknown_key: another did; self_consistent: it is not signed.
    trust: Literal['trusted', 'unknown_key', 'self_consistent']
    signed_by: str | None
    #: Where several services share the store: the one whose key signed the run, also if it is gone.
    signed_on: NotRequired[AuditReportSignedOn]
    checked: list[str]
    not_checked: list[str]
    violations: list[AuditReportViolationsItem]


class Finding(TypedDict):
    severity: Literal['error', 'warning']
    code: str
    file: str
    pointer: str
    message: str
    hint: str


class SkillSummaryFields(TypedDict):
    id: str
    version: str
    name: str
    description: str
    type: Literal['prompt', 'script', 'hybrid']
    #: Those it can run on.
    engines: list[Engine]
    execution_modes: list[ExecutionMode]
    warnings: list[Finding]


class SkillSummary(SkillSummaryFields):
    pass


class SkillsInvalidItem(TypedDict):
    folder: str
    findings: list[Finding]


class Skills(TypedDict):
    skills: list[SkillSummary]
    #: Folders that are not valid skills.
    invalid: list[SkillsInvalidItem]


class Schemas(TypedDict):
    #: A JSON Schema.
    input: dict[str, Any] | bool
    #: A JSON Schema.
    parameter: dict[str, Any] | bool
    #: A JSON Schema.
    output: dict[str, Any] | bool


class SkillFieldsFileInputsItem(TypedDict):
    name: str
    required: bool


class SkillFieldsArtifactsItem(TypedDict):
    role: str
    pattern: str
    mime: str | None
    required: bool


class SkillFields(SkillSummaryFields):
    fingerprint: str
    entrypoint: dict[str, Any]
    runtime: dict[str, Any] | None
    unsupported_engines: list[str]
    max_attempt: int | None
    timeout_seconds: int | None
    front_matter: dict[str, Any]
    file_inputs: list[SkillFieldsFileInputsItem]
    artifacts: list[SkillFieldsArtifactsItem]
    schemas: Schemas


class Skill(SkillFields):
    pass


class ManagedSkillSummary(SkillSummaryFields):
    unsupported_engines: list[str]
    effective_engines: list[Engine]
    health: Health


class ManagedSkillsInvalidItem(TypedDict):
    folder: str
    health: Literal['invalid']
    findings: list[Finding]


class ManagedSkills(TypedDict):
    skills: list[ManagedSkillSummary]
    invalid: list[ManagedSkillsInvalidItem]


class IsolationOfSkill(TypedDict):
    sandbox: Literal['auto', 'on', 'off']
    tier: Literal['sandbox', 'process-tree']
    engine_sandbox: bool
    reason: str | None
    asked: list[str]
    not_enforced: list[str]


class ManagedSkill(SkillFields):
    effective_engines: list[Engine]
    health: Health
    readme: str
    files: list[str]
    automation: dict[str, Any]
    models: dict[str, Any]
    isolation: IsolationOfSkill


class SkillSchemas(TypedDict):
    skill_id: str
    #: A JSON Schema.
    input: dict[str, Any] | bool
    #: A JSON Schema.
    parameter: dict[str, Any] | bool
    #: A JSON Schema.
    output: dict[str, Any] | bool


class VersionsVersionsItem(TypedDict):
    version: str | None
    fingerprint: str | None
    current: bool
    since: Timestamp
    findings: list[Finding]


class Versions(TypedDict):
    skill_id: str
    versions: list[VersionsVersionsItem]


class Rollback(TypedDict):
    version: str


class InstallationError(TypedDict):
    code: str
    message: str
    details: dict[str, Any] | list[Any]


class Installation(TypedDict):
    request_id: Uuid
    status: Literal['queued', 'running', 'succeeded', 'failed']
    skill_id: str | None
    version: str | None
    action: Literal['install', 'update', 'rollback', 'uninstall', None]
    error: InstallationError | None
    warnings: list[dict[str, Any]]
    created_at: Moment
    finished_at: Moment | None


class Package(TypedDict):
    #: The zip with the skill.
    file: str


class InstallBegun1(TypedDict):
    request_id: Uuid
    status: Literal['queued']


class InstallFailed2Error(TypedDict):
    code: str
    message: str
    details: dict[str, Any] | list[Any]
    request_id: None


class InstallFailed2(TypedDict):
    request_id: Uuid
    status: Literal['failed']
    skill_id: str | None
    version: str | None
    action: str | None
    error: InstallFailed2Error
    warnings: list[dict[str, Any]]
    created_at: Moment
    finished_at: Moment | None


class SkillFile(TypedDict):
    skill_id: str
    version: str
    path: str
    size: int
    preview: Preview
    mime: str | None
    #: Text as it is, an image in base64.
    content: str | None


class PackageChange(TypedDict):
    path: str
    change: Literal['added', 'removed', 'changed']
    #: The lines that differ, in the unified form; null for what is not text, is long, or is not shown.
    diff: str | None


class SkillChangesFrom(TypedDict):
    version: str
    fingerprint: str


class SkillChangesTo(TypedDict):
    version: str
    fingerprint: str


SkillChanges = TypedDict("SkillChanges", {"skill_id": "str", "from": "SkillChangesFrom", "to": "SkillChangesTo", "changes": "list[PackageChange]"})


class PackageCheckReplaces(TypedDict):
    version: str
    fingerprint: str
    automation: dict[str, Any]


class PackageCheckRefused(TypedDict):
    code: str
    message: str
    details: dict[str, Any] | list[Any]


class PackageCheck(TypedDict):
    #: What the package says; null if it breaks the rules.
    skill: dict[str, Any] | None
    #: What is in its place now.
    replaces: PackageCheckReplaces | None
    #: What an installation would be; null if it would be refused.
    action: Literal['install', 'update', None]
    refused: PackageCheckRefused | None
    findings: list[Finding]
    changes: list[PackageChange]


class IsolationHere(TypedDict):
    sandbox: Literal['auto', 'on', 'off']
    tier: Literal['sandbox', 'process-tree']
    engine_sandbox: bool
    reason: str | None


class EngineFields(TypedDict):
    engine: Engine
    state: Literal['active', 'sunset', 'built_in']
    installed: bool
    program: str | None
    source: Literal['configured', 'managed', 'on_path', None]
    cli_version_detected: str | None
    pinned_version: str | None
    #: Whether it has a key or a login.
    auth_ready: bool
    auth_detail: str
    #: Why it cannot be started.
    problem: str | None
    advice: str | None
    install_command: str | None
    isolation: IsolationHere


class LoginsItem(TypedDict):
    engine: Engine
    installed: bool
    auth_ready: bool
    auth_detail: str


class Model(TypedDict):
    #: The value for model of a request.
    id: str
    display_name: str
    provider: str | None
    effort: str | None
    deprecated: bool
    notes: str | None


class Models(TypedDict):
    engine: Engine
    cli_version_detected: str | None
    source: Literal['cli', 'snapshot', 'none']
    snapshot_version: str | None
    #: Why this is not the exact list.
    fallback_reason: str | None
    models: list[Model]


class ModelManifestSnapshotsItem(TypedDict):
    cli_version: str
    origin: Literal['embedded', 'added']
    models: int


class ModelManifest(TypedDict):
    engine: Engine
    cli_version_detected: str | None
    snapshots: list[ModelManifestSnapshotsItem]
    snapshot_version: str | None
    fallback_reason: str | None


class NewSnapshotModelsItem(TypedDict):
    id: str
    display_name: NotRequired[str | None]
    efforts: NotRequired[list[str]]
    deprecated: NotRequired[bool]
    notes: NotRequired[str | None]


class NewSnapshot(TypedDict):
    models: list[NewSnapshotModelsItem]
    #: Left out: the installed one.
    cli_version: NotRequired[str | None]


class NewUpgrade(TypedDict):
    mode: Literal['single', 'all']
    #: With mode single.
    engine: NotRequired[str | None]


class UpgradeBegun(TypedDict):
    upgrade_id: Uuid
    status: Literal['queued', 'running', 'succeeded', 'failed']


class UpgradeResultsValue(TypedDict):
    status: Literal['queued', 'running', 'succeeded', 'failed']
    package: str
    cli_version_detected: str | None
    message: str | None


class Upgrade(TypedDict):
    upgrade_id: Uuid
    status: Literal['queued', 'running', 'succeeded', 'failed']
    created_at: Moment
    started_at: Moment | None
    finished_at: Moment | None
    results: dict[str, UpgradeResultsValue]
    log_tail: str


class ManagedEngineFields(EngineFields):
    #: The same as cli_version_detected.
    cli_version: str | None
    sandbox_status: SandboxStatus
    models_count: int


class ManagedEngines(TypedDict):
    engines: list[ManagedEngineFields]


class ManagedEngineUpgradeStatus(TypedDict):
    upgrade_id: Uuid
    status: Literal['queued', 'running', 'succeeded', 'failed']
    created_at: Moment
    finished_at: Moment | None
    package: str
    message: str | None


class ManagedEngineLastError(TypedDict):
    source: Literal['program', 'upgrade']
    message: str


class ManagedEngine(ManagedEngineFields):
    models: Models
    #: Its last upgrade.
    upgrade_status: ManagedEngineUpgradeStatus | None
    #: Why it cannot be started, else why its last upgrade failed.
    last_error: ManagedEngineLastError | None


class Alive(TypedDict):
    status: Literal['ok']


class Ready(TypedDict):
    status: Literal['ready']


class NewBackup(TypedDict):
    #: The name of the backup's folder below backup_dir.
    name: str


class Backup(TypedDict):
    backup_id: Uuid
    status: Literal['running', 'succeeded', 'failed']
    folder: str
    began_at: Timestamp
    ended_at: Timestamp | None
    runs: int
    bytes: int
    error: str | None


class SystemQueue(TypedDict):
    queued: int
    running: int
    max_queued_jobs: int
    max_running_jobs: int
    max_running_per_engine: int
    max_running_per_skill: int
    fair_label: str | None
    fair_tokens: bool


class SystemLimitsRun(TypedDict):
    memory_bytes: int | None
    processes: int | None
    cpu_seconds: int | None
    file_bytes: int | None
    disk_bytes: int | None
    open_files: int | None


class SystemLimits(TypedDict):
    run: SystemLimitsRun
    max_upload_bytes: int
    max_unpacked_bytes: int
    max_entries: int
    max_log_bytes: int
    min_free_bytes: int
    hard_timeout_seconds: int
    stall_timeout_seconds: int


class SystemDataDir(TypedDict):
    path: str
    free_bytes: int
    size_bytes: int
    #: As last measured; null until it was.
    used_bytes: int | None
    folders: dict[str, int] | None
    measured_at: Timestamp | None


class SystemPythonEnvironments(TypedDict):
    count: int
    bytes: int


class SystemStore(TypedDict):
    kind: str
    bytes: int | None
    trouble: str | None


class SystemSeveral(TypedDict):
    """Only where several services share the store. The queue's length and limits per engine and skill are then those of all; slots, disk, process and readers those of this service."""

    node_id: Uuid
    name: str
    works: bool
    has_lease: bool
    starts_runs: bool


class SystemProcess(TypedDict):
    pid: int
    started_at: Timestamp
    resident_bytes: int
    open_descriptors: int
    threads: int


class SystemRetention(TypedDict):
    keep_days: int
    keep_last: int
    keep_labels: list[str]
    summary: str


class SystemTelemetry(TypedDict):
    otlp_endpoint: str | None


class SystemIntegrityScrub(TypedDict):
    bytes_per_second: int
    runs_checked: int
    passes: int
    last_pass_ended_at: Timestamp | None


class SystemIntegrity(TypedDict):
    damaged: int
    damaged_runs: list[Uuid]
    scrub: SystemIntegrityScrub


class System(TypedDict):
    version: str
    protocol_version: str
    queue: SystemQueue
    limits: SystemLimits
    data_dir: SystemDataDir
    python_environments: SystemPythonEnvironments
    store: SystemStore
    #: Only where several services share the store. The queue's length and limits per engine and skill are then those of all; slots, disk, process and readers those of this service.
    several: NotRequired[SystemSeveral]
    process: SystemProcess
    sse_readers: int
    retention: SystemRetention
    telemetry: SystemTelemetry
    integrity: SystemIntegrity


class OpenApi(TypedDict):
    """This document."""

    openapi: Literal['3.1.0']


class NodesNodesItem(TypedDict):
    node_id: Uuid
    name: str
    version: str
    address: str | None
    answers_this_request: bool
    #: Whether it starts runs.
    works: bool
    #: Whether it starts no more.
    draining: bool
    running: int
    slots: int
    #: Runs that it owns.
    leases: int
    joined_at: Timestamp
    #: Whether its lease is good.
    alive: bool
    lease_left_ms: int | None


class Nodes(TypedDict):
    #: Empty where the service has its store alone.
    nodes: list[NodesNodesItem]
    #: Services that are alive have versions that do not fit together.
    warning: str | None


class Drain(TypedDict):
    #: false lets it start runs again.
    draining: NotRequired[bool]


class Drained(TypedDict):
    node_id: Uuid
    draining: bool


class SettingsInForceSettingsItem(TypedDict):
    key: str
    value: str
    source: str
    variable: str
    about: str


class SettingsInForce(TypedDict):
    settings: list[SettingsInForceSettingsItem]


class Session(TypedDict):
    """What a browser may do, and how to log in."""

    #: Whether a person has to log in before the user interface is shown.
    log_in: bool
    #: What can be logged in with.
    ways: list[Literal['password', 'token']]
    #: What the request was granted.
    access: Literal['open', 'read', 'run', 'admin']
    #: The name of the token or of the login.
    name: str | None
    #: Whether the browser is logged in.
    session: bool


class LogIn1(TypedDict):
    token: str


class LogIn2(TypedDict):
    username: str
    password: str


class Ticket(TypedDict):
    """Opens the events of one run, as the parameter ticket, without any other credentials."""

    ticket: str
    expires_at: Timestamp


class EventUsage(TypedDict):
    input_tokens: int
    cached_input_tokens: int
    output_tokens: int
    cost_usd: float | None


class EventStreamProof(TypedDict):
    bytes: int
    sha256: str


class EventProofSignature(TypedDict):
    public_key: str
    ed25519: str


class EventProof(TypedDict):
    events: int
    chain_sha256: str
    streams: dict[str, EventStreamProof]
    artifacts_sha256: str
    files_sha256: NotRequired[str]
    result_sha256: NotRequired[str]
    signature: NotRequired[EventProofSignature]


class EventError(TypedDict):
    code: str
    message: str
    details: dict[str, Any]


class EventRawRef(TypedDict):
    attempt_number: int
    stream: Literal['stdout', 'stderr', 'pty']
    byte_from: int
    byte_to: int
    encoding: Literal['utf-8']


class EventMeta(TypedDict):
    attempt: int
    local_seq: int
    kind: str


class EventDataConversationStartedSkill(TypedDict):
    id: str
    version: str
    fingerprint: str


class EventDataConversationStartedRuntimeOptionsRetry(TypedDict):
    times: int
    backoff_seconds: int


class EventDataConversationStartedRuntimeOptions(TypedDict):
    execution_mode: Literal['auto', 'interactive']
    no_cache: bool
    debug: bool
    debug_keep_temp: bool
    verbose: bool
    interactive_auto_reply: bool
    interactive_reply_timeout_sec: int
    hard_timeout_seconds: int
    stall_timeout_seconds: int
    retry: NotRequired[EventDataConversationStartedRuntimeOptionsRetry]


class EventDataConversationStartedContext(TypedDict):
    user_id: NotRequired[str]
    agent_id: NotRequired[str]


class EventDataConversationStartedDefaults(TypedDict):
    input: NotRequired[dict[str, Any]]
    parameter: NotRequired[dict[str, Any]]


class EventDataConversationStarted(TypedDict):
    requested_by: NotRequired[str]
    traceparent: NotRequired[str]
    request_id: str
    skill: EventDataConversationStartedSkill
    engine: str
    model: str | None
    execution_mode: Literal['auto', 'interactive']
    runtime_options: EventDataConversationStartedRuntimeOptions
    input: dict[str, Any]
    parameter: dict[str, Any]
    awaiting_upload: bool
    idempotency_sha256: str | None
    cache_key: NotRequired[str]
    engine_config_sha256: NotRequired[str]
    temporary: NotRequired[bool]
    labels: NotRequired[dict[str, str]]
    metadata: NotRequired[dict[str, Any]]
    context: NotRequired[EventDataConversationStartedContext]
    priority: NotRequired[int]
    awaiting_files: NotRequired[list[str]]
    defaults: NotRequired[EventDataConversationStartedDefaults]


class EventDataInputUploadedFilesItem(TypedDict):
    name: str
    size: int
    sha256: str
    file_name: NotRequired[str]


class EventDataInputUploadedPackageSkill(TypedDict):
    id: str
    version: str
    fingerprint: str


class EventDataInputUploadedPackageRuntimeOptionsRetry(TypedDict):
    times: int
    backoff_seconds: int


class EventDataInputUploadedPackageRuntimeOptions(TypedDict):
    execution_mode: Literal['auto', 'interactive']
    no_cache: bool
    debug: bool
    debug_keep_temp: bool
    verbose: bool
    interactive_auto_reply: bool
    interactive_reply_timeout_sec: int
    hard_timeout_seconds: int
    stall_timeout_seconds: int
    retry: NotRequired[EventDataInputUploadedPackageRuntimeOptionsRetry]


class EventDataInputUploadedPackageDefaults(TypedDict):
    input: NotRequired[dict[str, Any]]
    parameter: NotRequired[dict[str, Any]]


class EventDataInputUploadedPackage(TypedDict):
    skill: EventDataInputUploadedPackageSkill
    engine: str
    runtime_options: EventDataInputUploadedPackageRuntimeOptions
    engine_config_sha256: NotRequired[str]
    sha256: str
    defaults: NotRequired[EventDataInputUploadedPackageDefaults]


class EventDataInputUploaded(TypedDict):
    files: list[EventDataInputUploadedFilesItem]
    manifest_sha256: str
    cache_key: str
    package: NotRequired[EventDataInputUploadedPackage]


class EventDataRunCacheHit(TypedDict):
    source_run_id: str
    cache_key: str


EventDataConversationStateChanged = TypedDict("EventDataConversationStateChanged", {"from": "Literal['queued', 'running', 'waiting_user', 'succeeded', 'failed', 'canceled']", "to": "Literal['queued', 'running', 'waiting_user', 'succeeded', 'failed', 'canceled']", "trigger": "Literal['turn.started', 'turn.needs_input', 'turn.succeeded', 'turn.failed', 'turn.retry', 'interaction.reply.accepted', 'interaction.auto_decide.timeout', 'run.canceled', 'restart.preserve_waiting', 'restart.reconcile_failed', 'run.cache_hit', 'run.rejected']", "updated_at": "str", "pending_interaction_id": "int | None"})


class EventDataTurnStartedIsolation2(TypedDict):
    tier: Literal['sandbox', 'process-tree']
    parts: list[Literal['process-tree', 'own-tmp', 'read-only-root', 'hidden-homes', 'minimal-dev', 'pid-namespace', 'ipc-namespace', 'uts-namespace', 'user-namespace', 'network-namespace', 'egress-proxy', 'no-new-privileges', 'seccomp', 'control-group', 'engine-sandbox']]
    files: Literal['machine', 'run', 'read-only']
    network: Literal['machine', 'none', 'model', 'allowlist', 'open']


class EventDataTurnStartedLimits(TypedDict):
    memory_bytes: int
    processes: int
    cpu_seconds: int
    file_bytes: int
    disk_bytes: int
    open_files: int


class EventDataTurnStarted(TypedDict):
    attempt: int
    command: list[str]
    pid: int
    engine_version: str
    parser_version: str
    isolation: str | EventDataTurnStartedIsolation2
    limits: NotRequired[EventDataTurnStartedLimits]
    resumed_from: str | None
    model: NotRequired[str]
    effort: NotRequired[str]
    options: NotRequired[dict[str, Any]]


class EventDataSessionBound(TypedDict):
    handle_kind: str
    handle: str


class EventDataAssistantMessageFinal(TypedDict):
    message_id: str
    text: str


class EventDataAssistantReasoning(TypedDict):
    text: str


class EventDataAssistantToolCall(TypedDict):
    call_id: str
    tool: str
    input: Any
    output: str
    status: str


class EventDataAssistantCommandExecution(TypedDict):
    command: str
    exit_code: int | None
    output: str
    status: str


class EventDataRunProgress(TypedDict):
    percent: float
    message: str


class EventDataUsageReported(EventUsage):
    pass


class EventDataRawStdout(TypedDict):
    text: str


class EventDataRawStderr(TypedDict):
    text: str


class EventDataUserInputRequiredOptionsItem(TypedDict):
    label: str
    value: Any


class EventDataUserInputRequired(TypedDict):
    interaction_id: int
    kind: Literal['choose_one', 'confirm', 'fill_fields', 'open_text', 'risk_ack']
    prompt: str
    options: list[EventDataUserInputRequiredOptionsItem]
    ui_hints: Any
    required_fields: list[str]
    default_decision_policy: str
    context: Any


class EventDataInteractionReplyAccepted(TypedDict):
    requested_by: NotRequired[str]
    interaction_id: int
    resolution_mode: Literal['user_reply']
    accepted_at: str
    response: Any
    response_preview: str
    idempotency_key: str | None


class EventDataInteractionAutoDecideTimeout(TypedDict):
    interaction_id: int
    resolution_mode: Literal['auto_decide_timeout']
    timeout_sec: int
    policy: str
    accepted_at: str


class EventDataRunRetryScheduled(TypedDict):
    retry: int
    times: int
    not_before: str
    wait_seconds: int
    error: EventError


class EventDataOutputNormalizedStepsItem(TypedDict):
    step: str
    ok: bool
    detail: str


class EventDataOutputNormalizedValidationErrorsItem(TypedDict):
    path: str
    message: str


class EventDataOutputNormalized(TypedDict):
    level: Literal['none', 'N0', 'N1', 'N2', 'N3']
    valid: bool
    source: str
    steps: list[EventDataOutputNormalizedStepsItem]
    validation_errors: list[EventDataOutputNormalizedValidationErrorsItem]


class EventDataArtifactIndexed(TypedDict):
    role: str
    path_rel: str
    filename: str
    mime: str
    size: int
    sha256: str
    required: bool


class EventDataDiagnosticWarning(TypedDict):
    code: str
    message: str
    level: Literal['info', 'warning']
    normalization_level: Literal['none', 'N0', 'N1', 'N2', 'N3', None]
    details: dict[str, Any]


class EventDataRunCancelRequested(TypedDict):
    requested_by: str
    reason: str


class EventDataRunRecovered(TypedDict):
    recovery_state: Literal['none', 'recovered_waiting', 'failed_reconciled']
    recovery_reason: str
    recovered_at: str


class EventDataConversationCompleted(TypedDict):
    status: Literal['succeeded']
    completion: Literal['done_marker', 'schema', 'exit', 'cache']
    result_path: str
    usage: EventUsage
    proof: EventProof


class EventDataConversationFailed(TypedDict):
    status: Literal['failed', 'canceled']
    error: EventError
    usage: EventUsage
    proof: EventProof


class ConversationStartedEvent(TypedDict):
    protocol_version: Literal['fcmp/1.0']
    run_id: str
    seq: int
    ts: str
    engine: str
    type: Literal['conversation.started']
    data: EventDataConversationStarted
    meta: EventMeta
    raw_ref: EventRawRef | None


class InputUploadedEvent(TypedDict):
    protocol_version: Literal['fcmp/1.0']
    run_id: str
    seq: int
    ts: str
    engine: str
    type: Literal['input.uploaded']
    data: EventDataInputUploaded
    meta: EventMeta
    raw_ref: EventRawRef | None


class RunCacheHitEvent(TypedDict):
    protocol_version: Literal['fcmp/1.0']
    run_id: str
    seq: int
    ts: str
    engine: str
    type: Literal['run.cache_hit']
    data: EventDataRunCacheHit
    meta: EventMeta
    raw_ref: EventRawRef | None


class ConversationStateChangedEvent(TypedDict):
    protocol_version: Literal['fcmp/1.0']
    run_id: str
    seq: int
    ts: str
    engine: str
    type: Literal['conversation.state.changed']
    data: EventDataConversationStateChanged
    meta: EventMeta
    raw_ref: EventRawRef | None


class TurnStartedEvent(TypedDict):
    protocol_version: Literal['fcmp/1.0']
    run_id: str
    seq: int
    ts: str
    engine: str
    type: Literal['turn.started']
    data: EventDataTurnStarted
    meta: EventMeta
    raw_ref: EventRawRef | None


class SessionBoundEvent(TypedDict):
    protocol_version: Literal['fcmp/1.0']
    run_id: str
    seq: int
    ts: str
    engine: str
    type: Literal['session.bound']
    data: EventDataSessionBound
    meta: EventMeta
    raw_ref: EventRawRef | None


class AssistantMessageFinalEvent(TypedDict):
    protocol_version: Literal['fcmp/1.0']
    run_id: str
    seq: int
    ts: str
    engine: str
    type: Literal['assistant.message.final']
    data: EventDataAssistantMessageFinal
    meta: EventMeta
    raw_ref: EventRawRef | None


class AssistantReasoningEvent(TypedDict):
    protocol_version: Literal['fcmp/1.0']
    run_id: str
    seq: int
    ts: str
    engine: str
    type: Literal['assistant.reasoning']
    data: EventDataAssistantReasoning
    meta: EventMeta
    raw_ref: EventRawRef | None


class AssistantToolCallEvent(TypedDict):
    protocol_version: Literal['fcmp/1.0']
    run_id: str
    seq: int
    ts: str
    engine: str
    type: Literal['assistant.tool_call']
    data: EventDataAssistantToolCall
    meta: EventMeta
    raw_ref: EventRawRef | None


class AssistantCommandExecutionEvent(TypedDict):
    protocol_version: Literal['fcmp/1.0']
    run_id: str
    seq: int
    ts: str
    engine: str
    type: Literal['assistant.command_execution']
    data: EventDataAssistantCommandExecution
    meta: EventMeta
    raw_ref: EventRawRef | None


class RunProgressEvent(TypedDict):
    protocol_version: Literal['fcmp/1.0']
    run_id: str
    seq: int
    ts: str
    engine: str
    type: Literal['run.progress']
    data: EventDataRunProgress
    meta: EventMeta
    raw_ref: EventRawRef | None


class UsageReportedEvent(TypedDict):
    protocol_version: Literal['fcmp/1.0']
    run_id: str
    seq: int
    ts: str
    engine: str
    type: Literal['usage.reported']
    data: EventDataUsageReported
    meta: EventMeta
    raw_ref: EventRawRef | None


class RawStdoutEvent(TypedDict):
    protocol_version: Literal['fcmp/1.0']
    run_id: str
    seq: int
    ts: str
    engine: str
    type: Literal['raw.stdout']
    data: EventDataRawStdout
    meta: EventMeta
    raw_ref: EventRawRef | None


class RawStderrEvent(TypedDict):
    protocol_version: Literal['fcmp/1.0']
    run_id: str
    seq: int
    ts: str
    engine: str
    type: Literal['raw.stderr']
    data: EventDataRawStderr
    meta: EventMeta
    raw_ref: EventRawRef | None


class UserInputRequiredEvent(TypedDict):
    protocol_version: Literal['fcmp/1.0']
    run_id: str
    seq: int
    ts: str
    engine: str
    type: Literal['user.input.required']
    data: EventDataUserInputRequired
    meta: EventMeta
    raw_ref: EventRawRef | None


class InteractionReplyAcceptedEvent(TypedDict):
    protocol_version: Literal['fcmp/1.0']
    run_id: str
    seq: int
    ts: str
    engine: str
    type: Literal['interaction.reply.accepted']
    data: EventDataInteractionReplyAccepted
    meta: EventMeta
    raw_ref: EventRawRef | None


class InteractionAutoDecideTimeoutEvent(TypedDict):
    protocol_version: Literal['fcmp/1.0']
    run_id: str
    seq: int
    ts: str
    engine: str
    type: Literal['interaction.auto_decide.timeout']
    data: EventDataInteractionAutoDecideTimeout
    meta: EventMeta
    raw_ref: EventRawRef | None


class RunRetryScheduledEvent(TypedDict):
    protocol_version: Literal['fcmp/1.0']
    run_id: str
    seq: int
    ts: str
    engine: str
    type: Literal['run.retry.scheduled']
    data: EventDataRunRetryScheduled
    meta: EventMeta
    raw_ref: EventRawRef | None


class OutputNormalizedEvent(TypedDict):
    protocol_version: Literal['fcmp/1.0']
    run_id: str
    seq: int
    ts: str
    engine: str
    type: Literal['output.normalized']
    data: EventDataOutputNormalized
    meta: EventMeta
    raw_ref: EventRawRef | None


class ArtifactIndexedEvent(TypedDict):
    protocol_version: Literal['fcmp/1.0']
    run_id: str
    seq: int
    ts: str
    engine: str
    type: Literal['artifact.indexed']
    data: EventDataArtifactIndexed
    meta: EventMeta
    raw_ref: EventRawRef | None


class DiagnosticWarningEvent(TypedDict):
    protocol_version: Literal['fcmp/1.0']
    run_id: str
    seq: int
    ts: str
    engine: str
    type: Literal['diagnostic.warning']
    data: EventDataDiagnosticWarning
    meta: EventMeta
    raw_ref: EventRawRef | None


class RunCancelRequestedEvent(TypedDict):
    protocol_version: Literal['fcmp/1.0']
    run_id: str
    seq: int
    ts: str
    engine: str
    type: Literal['run.cancel.requested']
    data: EventDataRunCancelRequested
    meta: EventMeta
    raw_ref: EventRawRef | None


class RunRecoveredEvent(TypedDict):
    protocol_version: Literal['fcmp/1.0']
    run_id: str
    seq: int
    ts: str
    engine: str
    type: Literal['run.recovered']
    data: EventDataRunRecovered
    meta: EventMeta
    raw_ref: EventRawRef | None


class ConversationCompletedEvent(TypedDict):
    protocol_version: Literal['fcmp/1.0']
    run_id: str
    seq: int
    ts: str
    engine: str
    type: Literal['conversation.completed']
    data: EventDataConversationCompleted
    meta: EventMeta
    raw_ref: EventRawRef | None


class ConversationFailedEvent(TypedDict):
    protocol_version: Literal['fcmp/1.0']
    run_id: str
    seq: int
    ts: str
    engine: str
    type: Literal['conversation.failed']
    data: EventDataConversationFailed
    meta: EventMeta
    raw_ref: EventRawRef | None


Uuid = str
Timestamp = str
Moment = str
Sha256 = str
Labels = dict[str, str]
Preview = Literal['text', 'image', 'binary', 'too_large']
NormalizationLevel = Literal['none', 'N0', 'N1', 'N2', 'N3']
ExecutionMode = Literal['auto', 'interactive']
Isolation = Union[str, Isolation2]
CreatedOrFinished = Union[Created, JobWithResult]
UploadedOrFinished = Union[Uploaded, JobWithResult]
Origin = Union[Origin1, Origin2, Origin3, Origin4]
Explained = Union[FieldExplained, FailureExplained]
Health = Literal['ok', 'warning']
InstallBegun = Union[InstallBegun1, Installation]
InstallFailed = Union[Error, InstallFailed2]
Engines = list[EngineFields]
Logins = list[LoginsItem]
SandboxStatus = Literal['active', 'engine', 'off', 'missing']
LogIn = Union[LogIn1, LogIn2]
ErrorCode = Literal['ENGINE_CONFIG_REFUSED', 'RESOURCE_LIMIT_EXCEEDED', 'SKILL_LIMITS_TOO_HIGH', 'SCHEMA_TOO_COSTLY', 'INVALID_JSON', 'INVALID_REQUEST', 'INPUT_VALIDATION_FAILED', 'PARAMETER_VALIDATION_FAILED', 'FILE_INPUT_INLINE', 'UNKNOWN_INPUT_KEY', 'SKILL_ENGINE_UNSUPPORTED', 'SKILL_EXECUTION_MODE_UNSUPPORTED', 'MODEL_NOT_ALLOWED', 'NOT_INTERACTIVE', 'INVALID_ZIP', 'UNSAFE_PATH', 'SKILL_PACKAGE_INVALID', 'INVALID_CURSOR', 'SEQ_OUT_OF_RANGE', 'UNAUTHORIZED', 'FORBIDDEN_SCOPE', 'FORBIDDEN_HOST', 'FORBIDDEN_ORIGIN', 'FILE_NOT_SHOWN', 'REQUEST_NOT_FOUND', 'SKILL_NOT_FOUND', 'SKILL_VERSION_NOT_FOUND', 'ENGINE_NOT_FOUND', 'ARTIFACT_NOT_FOUND', 'FIELD_NOT_FOUND', 'FILE_NOT_FOUND', 'INSTALL_NOT_FOUND', 'NODE_NOT_FOUND', 'UPGRADE_NOT_FOUND', 'BACKUP_NOT_FOUND', 'ROUTE_NOT_FOUND', 'RUN_FILES_GONE', 'LEGACY_ROUTE_GONE', 'METHOD_NOT_ALLOWED', 'REQUEST_TIMEOUT', 'URI_TOO_LONG', 'HEADERS_TOO_LARGE', 'PAYLOAD_TOO_LARGE', 'UNSUPPORTED_MEDIA_TYPE', 'RANGE_NOT_SATISFIABLE', 'INTERACTION_STALE', 'INTERACTION_NOT_PENDING', 'IDEMPOTENCY_CONFLICT', 'ALREADY_UPLOADED', 'BACKUP_RUNNING', 'BACKUP_EXISTS', 'RUN_FINAL', 'RUN_NOT_FINAL', 'SKILL_VERSION_IN_PLACE', 'SKILL_NOT_REMOVABLE', 'VERSION_NOT_NEWER', 'RESULT_NOT_READY', 'BUNDLE_NOT_READY', 'QUEUE_FULL', 'TOO_MANY_FAILED_LOGINS', 'TOO_MANY_CONNECTIONS', 'RUN_BUSY', 'SHUTTING_DOWN', 'RUN_NOT_RECOVERED', 'STORE_UNREACHABLE', 'INSUFFICIENT_STORAGE', 'DATA_CORRUPT', 'INTERNAL']
RunStatus = Literal['queued', 'running', 'waiting_user', 'succeeded', 'failed', 'canceled']
Engine = Literal['codex', 'gemini', 'opencode', 'iflow', 'claude', 'qwen', 'script']
Event = Union[ConversationStartedEvent, InputUploadedEvent, RunCacheHitEvent, ConversationStateChangedEvent, TurnStartedEvent, SessionBoundEvent, AssistantMessageFinalEvent, AssistantReasoningEvent, AssistantToolCallEvent, AssistantCommandExecutionEvent, RunProgressEvent, UsageReportedEvent, RawStdoutEvent, RawStderrEvent, UserInputRequiredEvent, InteractionReplyAcceptedEvent, InteractionAutoDecideTimeoutEvent, RunRetryScheduledEvent, OutputNormalizedEvent, ArtifactIndexedEvent, DiagnosticWarningEvent, RunCancelRequestedEvent, RunRecoveredEvent, ConversationCompletedEvent, ConversationFailedEvent]
