//! What each route does: the operation of every method and path.

use crate::domain::codes::ErrorCode as Code;
use crate::http::openapi::operation::{Operation, operation};
use crate::http::openapi::runs::{self, CREATED_HEADERS, PLAN};
use crate::http::openapi::shape::{Content, Takes};

pub(super) const TAGS: [(&str, &str); 7] = [
    ("jobs", "Runs of installed skills."),
    ("temp_skill_runs", "Runs of skills that come with their upload."),
    ("skills", "Installed skills, and the installation of new ones."),
    ("engines", "The agent CLIs of the machine, their models, their installation."),
    ("management", "What front ends need: the same runs, skills and engines, and more about them."),
    ("system", "The service itself."),
    ("pages", "The user interface and this reference."),
];

/// The operation of a route; none if nothing describes it.
pub(super) fn described(method: &str, path: &str) -> Option<Operation> {
    let below = |prefix: &str| path.strip_prefix(prefix).filter(|rest| rest.is_empty() || rest.starts_with('/'));
    if let Some(rest) = below("/v1/jobs/{id}") {
        return runs::described("jobs", method, rest);
    }
    if let Some(rest) = below("/v1/temp-skill-runs/{id}") {
        return runs::described("temp_skill_runs", method, rest);
    }
    if let Some(rest) = below("/v1/management/runs/{id}") {
        return runs::described("management", method, rest);
    }
    lists(method, path)
        .or_else(|| skills(method, path))
        .or_else(|| engines(method, path))
        .or_else(|| service(method, path))
}

fn lists(method: &str, path: &str) -> Option<Operation> {
    let create = |tag, schema| {
        operation(tag, &format!("{tag}_create"), "Creates a run.")
            .takes(Takes::Json(schema))
            .reads(&["Idempotency-Key", "Prefer", "traceparent"])
            .answers(201, "The run is created.", Content::Json("CreatedOrFinished"))
            .with_headers(CREATED_HEADERS)
            .refuses(PLAN)
    };
    Some(match (method, path) {
        ("GET", "/v1/jobs") => operation("jobs", "jobs_list", "Runs, newest first.").json("JobList"),
        ("POST", "/v1/jobs") => create("jobs", "NewRun"),
        ("POST", "/v1/jobs/check") => {
            operation("jobs", "jobs_check", "Tells whether a run could be created, without creating it.")
                .takes(Takes::Json("NewRun"))
                .json("Planned")
                .refuses(PLAN)
        }
        ("POST", "/v1/jobs/cleanup") => operation("jobs", "jobs_cleanup", "Deletes runs that have ended.")
            .takes(Takes::JsonOrNothing("CleanUp"))
            .json("Cleaned"),
        ("GET", "/v1/temp-skill-runs") => {
            operation("temp_skill_runs", "temp_skill_runs_list", "Those runs that bring their skill, newest first.")
                .json("JobList")
        }
        ("POST", "/v1/temp-skill-runs") => create("temp_skill_runs", "NewTempRun"),
        ("GET", "/v1/management/runs") => {
            operation("management", "management_list", "Runs, newest first, and how many there are.").json("RunList")
        }
        _ => return None,
    })
}

fn skills(method: &str, path: &str) -> Option<Operation> {
    let of = |id, summary| operation("skills", id, summary);
    let managed = |id, summary| operation("management", id, summary);
    const CHANGES: &[Code] = &[
        Code::SkillNotFound,
        Code::SkillVersionNotFound,
        Code::SkillVersionInPlace,
        Code::SkillNotRemovable,
        Code::SkillPackageInvalid,
        Code::QueueFull,
    ];
    Some(match (method, path) {
        ("GET", "/v1/skills") => of("skills_list", "The installed skills.").json("Skills"),
        ("GET", "/v1/skills/{id}") => {
            of("skills_get", "A skill, with its schemas.").json("Skill").refuses(&[Code::SkillNotFound])
        }
        ("GET", "/v1/skills/{id}/versions") => of("skills_versions", "The version in place and those in the archive.")
            .json("Versions")
            .refuses(&[Code::SkillNotFound]),
        ("POST", "/v1/skills/{id}/rollback") => of("skills_rollback", "Puts an archived version in place again.")
            .takes(Takes::Json("Rollback"))
            .json("Installation")
            .refuses(CHANGES),
        ("DELETE", "/v1/skills/{id}") => {
            of("skills_uninstall", "Moves a skill to the archive.").json("Installation").refuses(CHANGES)
        }
        ("POST", "/v1/skill-packages/install") => of("skill_packages_install", "Installs a skill package.")
            .takes(Takes::Form("Package"))
            .reads(&["Prefer"])
            .answers(202, "The package is unpacked, and its installation begun.", Content::Json("InstallBegun"))
            .with_headers(CREATED_HEADERS)
            .refuses(CHANGES)
            .refuses(&[Code::VersionNotNewer, Code::OrchestratorRestartInterrupted])
            .refused_as("InstallFailed"),
        ("POST", "/v1/skill-packages/check") => {
            of("skill_packages_check", "Tells what an installation of the package would change, without installing it.")
                .takes(Takes::Form("Package"))
                .json("PackageCheck")
                .refuses(&[Code::SkillPackageInvalid])
        }
        ("GET", "/v1/skill-packages/{id}") => of("skill_packages_get", "The state of an installation.")
            .json("Installation")
            .refuses(&[Code::InstallNotFound]),
        ("GET", "/v1/management/skills") => {
            managed("management_skills", "The installed skills, with their health.").json("ManagedSkills")
        }
        ("GET", "/v1/management/skills/{id}") => {
            managed("management_skill", "A skill, with its readme, files and schemas.")
                .json("ManagedSkill")
                .refuses(&[Code::SkillNotFound])
        }
        ("GET", "/v1/management/skills/{id}/file") => {
            managed("management_skill_file", "A preview of one of its files.").json("SkillFile").refuses(&[
                Code::SkillNotFound,
                Code::SkillVersionNotFound,
                Code::FileNotFound,
                Code::FileNotShown,
                Code::UnsafePath,
            ])
        }
        ("GET", "/v1/management/skills/{id}/changes") => {
            managed("management_skill_changes", "What differs between two of its versions.")
                .json("SkillChanges")
                .refuses(&[Code::SkillNotFound, Code::SkillVersionNotFound])
        }
        ("GET", "/v1/management/skills/{id}/schemas") => managed("management_skill_schemas", "Its schemas alone.")
            .json("SkillSchemas")
            .refuses(&[Code::SkillNotFound]),
        _ => return None,
    })
}

fn engines(method: &str, path: &str) -> Option<Operation> {
    let of = |id, summary| operation("engines", id, summary);
    let managed = |id, summary| operation("management", id, summary);
    Some(match (method, path) {
        ("GET", "/v1/engines") => of("engines_list", "The engines, with version and login.").json("Engines"),
        ("GET", "/v1/engines/auth-status") => of("engines_logins", "Their logins alone.").json("Logins"),
        ("POST", "/v1/engines/upgrades") => of("engines_upgrade", "Begins to install agent CLIs.")
            .takes(Takes::Json("NewUpgrade"))
            .answers(202, "It is begun.", Content::Json("UpgradeBegun"))
            .refuses(&[Code::EngineNotFound, Code::QueueFull]),
        ("GET", "/v1/engines/upgrades/{id}") => {
            of("engines_upgrade_get", "The state of an upgrade, and the end of its log.")
                .json("Upgrade")
                .refuses(&[Code::UpgradeNotFound])
        }
        ("GET", "/v1/engines/{engine}/models") => {
            of("engines_models", "The models of an engine.").json("Models").refuses(&[Code::EngineNotFound])
        }
        ("GET", "/v1/engines/{engine}/models/manifest") => {
            of("engines_model_manifest", "The snapshots that list its models.")
                .json("ModelManifest")
                .refuses(&[Code::EngineNotFound])
        }
        ("POST", "/v1/engines/{engine}/models/snapshots") => of("engines_add_snapshot", "Adds such a snapshot.")
            .takes(Takes::Json("NewSnapshot"))
            .answers(201, "It is added.", Content::Json("ModelManifest"))
            .refuses(&[Code::EngineNotFound]),
        ("GET", "/v1/management/engines") => {
            managed("management_engines", "The engines, with the number of their models.").json("ManagedEngines")
        }
        ("GET", "/v1/management/engines/{engine}") => {
            managed("management_engine", "An engine, with its models, its last upgrade and its last error.")
                .json("ManagedEngine")
                .refuses(&[Code::EngineNotFound])
        }
        _ => return None,
    })
}

fn service(method: &str, path: &str) -> Option<Operation> {
    let of = |id, summary| operation("system", id, summary);
    let file = |id, summary| {
        operation("pages", id, summary)
            .reads(&["If-None-Match"])
            .answers(200, "The page.", Content::Page)
            .with_headers(&["ETag"])
            .answers(304, "The client has it already.", Content::Nothing)
    };
    let page = |id, summary| {
        file(id, summary)
            .answers(401, "The page, which asks to log in first.", Content::Page)
            .with_headers(&["WWW-Authenticate"])
    };
    let old = |id, summary, schema| {
        operation("pages", id, summary)
            .json(schema)
            .with_headers(&["Deprecation", "Sunset", "Link"])
            .refuses(&[Code::LegacyRouteGone])
    };
    let of_run = [
        Code::RequestNotFound,
        Code::RunNotRecovered,
        Code::DataCorrupt,
        Code::RunFilesGone,
        Code::UnsafePath,
        Code::FileNotFound,
    ];
    Some(match (method, path) {
        ("GET", "/healthz") => of("alive", "Whether the process lives.").json("Alive"),
        ("GET", "/readyz") => of("ready", "Whether new runs are taken.").json("Ready").only_unavailable().refuses(&[
            Code::InsufficientStorage,
            Code::ShuttingDown,
            Code::Internal,
        ]),
        ("POST", "/v1/backups") => of("backups_begin", "Begins a backup of the data folder.")
            .takes(Takes::Json("NewBackup"))
            .reads(&["Prefer"])
            .answers(202, "It is begun.", Content::Json("Backup"))
            .with_headers(CREATED_HEADERS)
            .refuses(&[Code::BackupRunning, Code::BackupExists]),
        ("GET", "/v1/backups/{id}") => {
            of("backups_get", "How far the backup has come.").json("Backup").refuses(&[Code::BackupNotFound])
        }
        ("GET", "/metrics") => of("metrics", "All metrics, for Prometheus.").answers(
            200,
            "The metrics as text.",
            Content::File("text/plain"),
        ),
        ("GET", "/v1/system") => of("system", "Version, load, limits and disk.").json("System"),
        ("POST", "/v1/management/audit") => {
            operation("management", "management_audit_export", "Checks an export of a run; nothing of it is kept.")
                .takes(Takes::Form("ExportedRun"))
                .json("AuditReport")
        }
        ("GET", "/v1/management/settings") => {
            operation("management", "management_settings", "Every setting in force, and where its value comes from.")
                .json("SettingsInForce")
        }
        ("GET", "/v1/management/nodes") => {
            operation("management", "management_nodes", "The services that share the store with this one.")
                .json("Nodes")
        }
        ("POST", "/v1/management/nodes/{id}/drain") => {
            operation("management", "management_node_drain", "Lets a service start no more runs, or some again.")
                .takes(Takes::JsonOrNothing("Drain"))
                .json("Drained")
                .refuses(&[Code::NodeNotFound])
        }
        ("GET", "/v1/openapi.json") => of("openapi", "This document.").json("OpenApi"),
        ("GET", "/docs") => file("docs", "This document, to read.")
            .answers(303, "To the log-in page, for a browser.", Content::Nothing)
            .with_headers(&["Location"]),
        ("GET", "/ui/session") => {
            operation("pages", "session_get", "What this browser may do, and how to log in.").json("Session")
        }
        ("POST", "/ui/session") => operation("pages", "session_log_in", "Logs this browser in.")
            .takes(Takes::Json("LogIn"))
            .json("Session")
            .with_headers(&["Set-Cookie"])
            .refuses(&[Code::Unauthorized, Code::TooManyFailedLogins]),
        ("DELETE", "/ui/session") => operation("pages", "session_log_out", "Logs this browser out.")
            .json("Session")
            .with_headers(&["Set-Cookie"]),
        ("GET", "/ui/skills/table") => {
            old("legacy_skills", "Old: the skills. For a browser, the page of a skill with that name.", "ManagedSkills")
                .pages_too()
        }
        ("GET", "/ui/engines/table") => old("legacy_engines", "Old: the engines.", "ManagedEngines"),
        ("GET", "/ui/runs/table") => old("legacy_runs", "Old: runs, newest first.", "RunList"),
        ("GET", "/ui/runs/{id}/view") => old("legacy_file", "Old: a preview of a file of a run.", "FilePreview")
            .refuses(&of_run)
            .refuses(&[Code::FileNotShown]),
        ("GET", "/ui/runs/{id}/logs/tail") => old("legacy_logs", "Old: the output of a run.", "Logs")
            .refuses(&of_run)
            .refuses(&[Code::FileNotShown, Code::SeqOutOfRange]),
        ("GET", "/ui") => page("ui", "The user interface."),
        ("GET", "/ui/") => page("ui_home", "The same."),
        ("GET", "/ui/{*page}") => page("ui_page", "A page of the user interface."),
        ("GET", "/ui/static/{*path}") => operation("pages", "ui_file", "A file of the user interface.")
            .reads(&["If-None-Match"])
            .answers(200, "The file.", Content::File("*/*"))
            .with_headers(&["ETag"])
            .answers(304, "The client has it already.", Content::Nothing),
        _ => return None,
    })
}
