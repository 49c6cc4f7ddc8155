//! Each rule of the lint, broken once in an otherwise valid package.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::super::{Finding, PackageFiles, Severity, Skill};
use super::{Intake, lint};
use crate::domain::engine::Engine;

/// A package under construction: valid at first, then changed.
pub(crate) struct Draft {
    folder: String,
    files: BTreeMap<String, Vec<u8>>,
}

impl Draft {
    /// A good script skill called `demo`.
    pub(crate) fn script() -> Self {
        let runner = json!({
            "id": "demo", "version": "1.0.0", "execution_modes": ["auto"],
            "entrypoint": { "type": "script", "script": { "command": "python3 scripts/run.py" } },
            "schemas": { "output": "assets/output.schema.json" }
        });
        Self { folder: "demo".into(), files: BTreeMap::new() }
            .text("SKILL.md", "---\nname: demo\ndescription: Shows a thing.\n---\n# Demo\n")
            .text("scripts/run.py", "print()\n")
            .json("assets/runner.json", &runner)
            .json("assets/output.schema.json", &json!({ "type": "object" }))
    }

    /// The same as a prompt skill.
    pub(crate) fn prompt() -> Self {
        Self::script().runner("/entrypoint", json!({ "type": "prompt" }))
    }

    pub(crate) fn text(mut self, path: &str, text: &str) -> Self {
        self.files.insert(path.into(), text.as_bytes().to_vec());
        self
    }

    pub(crate) fn json(self, path: &str, value: &Value) -> Self {
        self.text(path, &value.to_string())
    }

    fn without(mut self, path: &str) -> Self {
        self.files.remove(path);
        self
    }

    fn folder(self, folder: &str) -> Self {
        Self { folder: folder.into(), ..self }
    }

    fn head(self, yaml: &str) -> Self {
        self.text("SKILL.md", &format!("---\n{yaml}\n---\nbody"))
    }

    /// Sets (or, with null, removes) a key of the manifest.
    fn runner(self, pointer: &str, value: Value) -> Self {
        let mut runner: Value = serde_json::from_slice(&self.files["assets/runner.json"]).unwrap();
        let (parent, key) = pointer.rsplit_once('/').unwrap();
        let holder = runner.pointer_mut(parent).unwrap().as_object_mut().unwrap();
        match value {
            Value::Null => holder.remove(key),
            value => holder.insert(key.into(), value),
        };
        self.json("assets/runner.json", &runner)
    }

    fn files(&self) -> PackageFiles {
        let mut files = PackageFiles::new();
        self.files.iter().for_each(|(path, bytes)| files.insert(path.clone(), bytes.clone()));
        files
    }

    fn lint(&self, intake: Intake) -> Result<Skill, Vec<Finding>> {
        lint(&self.folder, &self.files(), intake)
    }

    pub(crate) fn skill(&self) -> Skill {
        self.lint(Intake::New).unwrap()
    }

    fn findings(&self, intake: Intake) -> Vec<Finding> {
        self.lint(intake).map_or_else(|findings| findings, |skill| skill.findings)
    }
}

type Brief<'a> = (Severity, &'a str, &'a str, &'a str);

fn check(draft: Draft, expected: &[Brief<'_>]) {
    let findings = draft.findings(Intake::New);
    let brief: Vec<Brief<'_>> = findings
        .iter()
        .map(|found| (found.severity, found.code.as_str(), found.file.as_str(), found.pointer.as_str()))
        .collect();
    assert_eq!(brief, expected, "{findings:#?}");
    assert!(findings.iter().all(|finding| !finding.message.is_empty() && !finding.hint.is_empty()), "{findings:#?}");
}

const RUNNER: &str = "assets/runner.json";
use Severity::{Error, Warning};

#[test]
fn a_good_package_has_no_findings() {
    check(Draft::script(), &[]);
    check(Draft::prompt(), &[]);
    let skill = Draft::script().skill();
    assert_eq!((skill.id.as_str(), skill.name.as_str(), skill.body.as_str()), ("demo", "demo", "# Demo\n"));
    assert_eq!((skill.description.as_str(), skill.version), ("Shows a thing.", semver::Version::new(1, 0, 0)));
}

#[test]
fn everything_wrong_is_told_at_once() {
    let draft = Draft::script()
        .folder("Demo_1")
        .head("name: demo\ndescription: ''\ncompatibility: 7")
        .runner("/version", json!("one"))
        .runner("/entrypoint/script/command", json!("python3 scripts/gone.py"))
        .runner("/automation", json!({ "timeout_sec": 0 }))
        .text("assets/output.schema.json", "{");
    check(
        draft,
        &[
            (Error, "DESCRIPTION_EMPTY", "SKILL.md", "/description"),
            (Error, "SHAPE_INVALID", "SKILL.md", "/compatibility"),
            (Error, "NAME_INVALID", "", ""),
            (Error, "NAME_MISMATCH", "SKILL.md", "/name"),
            (Error, "NAME_MISMATCH", RUNNER, "/id"),
            (Error, "VERSION_INVALID", RUNNER, "/version"),
            (Error, "INVALID_JSON", "assets/output.schema.json", ""),
            (Error, "FILE_MISSING", RUNNER, "/entrypoint/script/command"),
            (Error, "SHAPE_INVALID", RUNNER, "/automation/timeout_sec"),
        ],
    );
}

#[test]
fn names_that_are_one_where_case_is_ignored_are_an_error_in_a_new_package_alone() {
    let draft = || Draft::script().text("docs/a.md", "a").text("Docs/b.md", "b");
    check(draft(), &[(Error, "NAME_CLASH", "docs/a.md", "")]);
    let installed = draft().lint(Intake::Installed).unwrap();
    assert_eq!(installed.findings.iter().map(|finding| finding.severity).collect::<Vec<_>>(), [Warning]);
}

#[test]
fn ids_keep_to_their_letters() {
    for good in ["a", "demo-1", "1-2-3", &"x".repeat(64)] {
        assert!(super::is_id(good), "{good}");
    }
    for bad in ["", "-a", "a-", "a--b", "A", "a_b", "ä", "a/b", "..", &"x".repeat(65)] {
        assert!(!super::is_id(bad), "{bad}");
    }
}

#[test]
fn the_front_matter_keeps_to_its_lengths() {
    let described = |length: usize| format!("name: demo\ndescription: {}", "é".repeat(length));
    check(Draft::script().head(&described(1024)), &[]);
    check(Draft::script().head(&described(1025)), &[(Error, "SHAPE_INVALID", "SKILL.md", "/description")]);
    let compatible = |length: usize| format!("{}\ncompatibility: {}", described(1), "x".repeat(length));
    check(Draft::script().head(&compatible(500)), &[]);
    check(Draft::script().head(&compatible(501)), &[(Error, "SHAPE_INVALID", "SKILL.md", "/compatibility")]);
    check(Draft::script().head("name: demo"), &[(Error, "SHAPE_INVALID", "SKILL.md", "")]);
    let extra = "name: demo\ndescription: x\nlicense: MIT\nallowed-tools: Read\nmetadata: {a: 'b', n: 1.0}\nmodel: x";
    check(
        Draft::script().head(extra),
        &[(Error, "SHAPE_INVALID", "SKILL.md", "/metadata/n"), (Warning, "UNKNOWN_KEY", "SKILL.md", "/model")],
    );
}

#[test]
fn missing_and_unreadable_files_are_named() {
    check(Draft::script().without("SKILL.md"), &[(Error, "FILE_MISSING", "SKILL.md", "")]);
    check(Draft::script().text("SKILL.md", "# Demo"), &[(Error, "FRONT_MATTER_INVALID", "SKILL.md", "")]);
    check(Draft::script().without(RUNNER), &[(Warning, "OPEN_FORMAT", "", "")]);
    check(Draft::script().text(RUNNER, "[]"), &[(Error, "SHAPE_INVALID", RUNNER, "")]);
    check(Draft::script().text(RUNNER, &" ".repeat(1024 * 1024 + 1)), &[(Error, "FILE_TOO_LARGE", RUNNER, "")]);
    let mut latin = Draft::script();
    latin.files.insert("SKILL.md".into(), b"---\nname: \xe9\n---\n".to_vec());
    check(latin, &[(Error, "NOT_UTF8", "SKILL.md", "")]);
}

#[test]
fn every_missing_key_is_a_finding_of_its_own() {
    check(
        Draft::script().runner("/id", Value::Null).runner("/entrypoint/type", Value::Null),
        &[(Error, "SHAPE_INVALID", RUNNER, ""), (Error, "SHAPE_INVALID", RUNNER, "/entrypoint")],
    );
}

#[test]
fn the_smallest_manifest_is_a_prompt_skill_without_a_version() {
    let smallest = json!({ "id": "demo", "execution_modes": ["auto"], "schemas": {} });
    let draft = || Draft::script().json(RUNNER, &smallest).without("assets/output.schema.json");
    check(draft(), &[]);
    let skill = draft().skill();
    assert_eq!(skill.version, semver::Version::new(0, 0, 0));
    assert_eq!(json!(skill.manifest.entrypoint), json!({ "type": "prompt", "prompt": {} }));
    for schema in [skill.input_schema, skill.parameter_schema, skill.output_schema] {
        assert_eq!(schema, json!({ "type": "object", "properties": {} }));
    }
    let named = draft().head("name: demo\ndescription: Shows a thing.\nmetadata:\n  version: 2.1.0");
    assert_eq!(named.skill().version, semver::Version::new(2, 1, 0));
}

#[test]
fn the_old_name_of_a_key_is_refused_with_the_new_one() {
    let draft = Draft::script().runner("/unsupport_engine", json!(["codex"]));
    assert!(draft.findings(Intake::Installed)[0].message.contains("unsupported_engines"));
    check(draft, &[(Error, "OLD_KEY", RUNNER, "/unsupport_engine")]);
}

#[test]
fn unknown_keys_are_warnings_wherever_they_stand() {
    let draft = Draft::script()
        .runner("/colour", json!("red"))
        .runner("/$schema", json!("x"))
        .runner("/artifacts", json!([{ "pattern": "a", "size": 1 }]))
        .runner("/normalizer", json!({ "command": "true", "when": 1 }));
    check(
        draft,
        &[
            (Warning, "UNKNOWN_KEY", RUNNER, "/colour"),
            (Warning, "UNKNOWN_KEY", RUNNER, "/artifacts/0/size"),
            (Warning, "UNKNOWN_KEY", RUNNER, "/normalizer/when"),
        ],
    );
}

#[test]
fn execution_modes_may_be_missing_only_in_an_installed_package() {
    let draft = Draft::script().runner("/execution_modes", Value::Null);
    let installed = draft.lint(Intake::Installed).unwrap();
    assert_eq!(installed.manifest.execution_modes, [super::manifest::ExecutionMode::Auto]);
    assert_eq!(installed.findings[0].code, "EXECUTION_MODES_MISSING");
    check(draft, &[(Error, "EXECUTION_MODES_MISSING", RUNNER, "/execution_modes")]);
    let empty = Draft::script().runner("/execution_modes", json!([]));
    assert!(empty.lint(Intake::Installed).is_err());
    check(empty, &[(Error, "SHAPE_INVALID", RUNNER, "/execution_modes")]);
}

#[test]
fn engines_are_those_named_or_all_less_the_unsupported() {
    let effective = |draft: Draft| draft.skill().effective_engines();
    assert_eq!(effective(Draft::script()), [Engine::Script]);
    assert_eq!(effective(Draft::prompt()), Engine::AGENTS);
    assert_eq!(effective(Draft::prompt().runner("/engines", json!(["qwen", "codex"]))), [Engine::Qwen, Engine::Codex]);
    let less = Draft::prompt().runner("/unsupported_engines", json!(["codex", "gemini", "script", "iflow"]));
    assert_eq!(effective(less), [Engine::Opencode, Engine::Claude, Engine::Qwen]);
}

#[test]
fn contradictory_engines_are_errors() {
    let engines = |draft: Draft, engines: Value| draft.runner("/engines", engines);
    check(engines(Draft::prompt(), json!(["vim"])), &[(Error, "ENGINE_UNKNOWN", RUNNER, "/engines/0")]);
    check(engines(Draft::prompt(), json!(["script"])), &[(Error, "ENGINE_UNFIT", RUNNER, "/engines")]);
    check(engines(Draft::script(), json!(["codex"])), &[(Error, "ENGINE_UNFIT", RUNNER, "/engines")]);
    check(engines(Draft::script(), json!(["script"])), &[]);
    check(engines(Draft::prompt(), json!([])), &[(Error, "ENGINES_EMPTY", RUNNER, "/engines")]);
    check(
        engines(Draft::prompt(), json!(["codex", "qwen"])).runner("/unsupported_engines", json!(["qwen"])),
        &[(Error, "ENGINES_OVERLAP", RUNNER, "/unsupported_engines")],
    );
    check(
        Draft::script().runner("/unsupported_engines", json!(["script"])),
        &[(Error, "ENGINES_EMPTY", RUNNER, "/engines")],
    );
    check(
        Draft::prompt().runner("/entrypoint/prompts", json!({ "vim": "{{ body }}" })),
        &[(Error, "ENGINE_UNKNOWN", RUNNER, "/entrypoint/prompts/vim")],
    );
}

#[test]
fn entrypoints_name_what_is_there() {
    let template = |text: &str| Draft::prompt().runner("/entrypoint/prompt", json!({ "template": text }));
    check(template("Do {{ body }}"), &[]);
    check(template("assets/prompt.md").text("assets/prompt.md", "x"), &[]);
    let at = "/entrypoint/prompt/template";
    check(template("assets/prompt.md"), &[(Error, "FILE_MISSING", RUNNER, at)]);
    check(template("../prompt.md"), &[(Error, "PATH_UNSAFE", RUNNER, at)]);
    let command = |text: &str| Draft::script().runner("/entrypoint/script/command", json!(text));
    check(command("python3 './scripts/run.py' --out artifacts/x"), &[]);
    check(command("python3 'scripts/run.py"), &[(Error, "COMMAND_INVALID", RUNNER, "/entrypoint/script/command")]);
    let hybrid = Draft::script().runner("/entrypoint", json!({ "type": "hybrid" }));
    check(hybrid, &[(Error, "SCRIPT_MISSING", RUNNER, "/entrypoint/script")]);
    let unused = Draft::prompt().runner("/entrypoint/script", json!({ "command": "true" }));
    check(unused, &[(Warning, "SCRIPT_UNUSED", RUNNER, "/entrypoint/script")]);
    let result = Draft::prompt().runner("/entrypoint/prompt", json!({ "result_file": "/tmp/x" }));
    check(result, &[(Error, "PATH_UNSAFE", RUNNER, "/entrypoint/prompt/result_file")]);
    let kind = Draft::script().runner("/entrypoint/type", json!("wish"));
    check(kind, &[(Error, "SHAPE_INVALID", RUNNER, "/entrypoint/type")]);
    let asks = Draft::script().runner("/execution_modes", json!(["auto", "interactive"]));
    check(asks, &[(Warning, "MODE_UNFIT", RUNNER, "/execution_modes")]);
    let config = Draft::prompt().runner("/engine_configs", json!({ "codex": "assets/c.toml" }));
    check(config, &[(Error, "FILE_MISSING", RUNNER, "/engine_configs/codex")]);
}

#[test]
fn templates_compile_and_configurations_can_be_read() {
    let template = |text: &str| Draft::prompt().runner("/entrypoint/prompt", json!({ "template": text }));
    check(template("{{ input.x"), &[(Error, "TEMPLATE_INVALID", RUNNER, "/entrypoint/prompt/template")]);
    check(template("p.md").text("p.md", "{% if %}"), &[(Error, "TEMPLATE_INVALID", "p.md", "")]);
    check(template("p.md").text("p.md", "{% if body %}{{ body }}{% endif %}"), &[]);
    let unknown = &[(Error, "TEMPLATE_INVALID", RUNNER, "/entrypoint/prompt/template")];
    for name in ["input.x", "parameter.x", "skill.title", "titel"] {
        check(template(&format!("Do {{{{ {name} }}}}")), unknown);
    }
    let prompts = Draft::prompt().runner("/entrypoint/prompts", json!({ "codex": "{{ }}" }));
    check(prompts, &[(Error, "TEMPLATE_INVALID", RUNNER, "/entrypoint/prompts/codex")]);
    assert!(template("{{ input.x").lint(Intake::Installed).is_ok(), "another engine's may still be good");
    let config = |path: &str, text: &str| Draft::prompt().text(path, text);
    let codex = "assets/codex_config.toml";
    check(config(codex, "model_verbosity = \"low\""), &[]);
    check(config(codex, "notify = [\"sh\"]"), &[(Error, "CONFIG_KEY_REFUSED", codex, "/notify")]);
    check(
        config(codex, "[mcp_servers.\"a/b\"]\ncommand = \"sh\"\nargs = []"),
        &[
            (Error, "CONFIG_KEY_REFUSED", codex, "/mcp_servers/a~1b/command"),
            (Error, "CONFIG_KEY_REFUSED", codex, "/mcp_servers/a~1b/args"),
        ],
    );
    check(config(codex, "model_verbosity = 3"), &[(Error, "CONFIG_KEY_REFUSED", codex, "/model_verbosity")]);
    let installed = config(codex, "notify = [\"sh\"]").lint(Intake::Installed);
    assert!(installed.is_ok(), "on other engines it can run; on this one it is refused before its start");
    check(config("assets/codex_config.toml", "a ="), &[(Error, "CONFIG_INVALID", "assets/codex_config.toml", "")]);
    let gemini = "assets/gemini_settings.json";
    check(config(gemini, "[]"), &[(Error, "CONFIG_INVALID", gemini, "")]);
    let named = config(gemini, "[]").text("assets/g.json", "{}");
    check(named.runner("/engine_configs", json!({ "gemini": "assets/g.json" })), &[]);
}

#[test]
fn the_published_schema_names_every_engine() {
    let schema: Value = serde_json::from_str(include_str!("../../../schema/runner.schema.json")).unwrap();
    assert_eq!(schema["$defs"]["engines"]["items"]["enum"], json!(Engine::ALL));
}

#[test]
fn default_options_are_ones_that_a_run_takes() {
    let options = |value: Value| Draft::prompt().runner("/runtime", json!({ "default_options": value }));
    check(options(json!({ "no_cache": true, "execution_mode": "auto" })), &[]);
    check(options(json!({ "cache": 1 })), &[(Error, "OPTION_UNKNOWN", RUNNER, "/runtime/default_options/cache")]);
    check(
        options(json!({ "execution_mode": "interactive" })),
        &[(Error, "MODE_UNFIT", RUNNER, "/runtime/default_options/execution_mode")],
    );
    check(
        options(json!({ "hard_timeout_seconds": 0 })),
        &[(Error, "SHAPE_INVALID", RUNNER, "/runtime/default_options/hard_timeout_seconds")],
    );
}

#[test]
fn schemas_are_there_valid_and_of_objects() {
    let path = "assets/output.schema.json";
    let output = |schema: Value| Draft::script().json(path, &schema);
    check(Draft::script().without(path), &[(Error, "FILE_MISSING", path, "")]);
    check(
        Draft::script().runner("/schemas/output", json!("../o.json")),
        &[(Error, "PATH_UNSAFE", RUNNER, "/schemas/output")],
    );
    check(output(json!({})), &[(Error, "SCHEMA_NOT_OBJECT", path, "/type")]);
    check(output(json!({ "type": "array" })), &[(Error, "SCHEMA_NOT_OBJECT", path, "/type")]);
    check(
        output(json!([])),
        &[(Error, "SCHEMA_NOT_OBJECT", path, "/type"), (Error, "SCHEMA_EXTENSION_INVALID", path, "")],
    );
    check(output(json!({ "type": "object", "required": "a" })), &[(Error, "SCHEMA_INVALID", path, "/required")]);
    let far = json!({ "type": "object", "properties": { "a": { "$ref": "https://example.com/a.json" } } });
    assert_eq!(output(far).findings(Intake::New)[0].code, "SCHEMA_INVALID");
    let field = |field: Value| output(json!({ "type": "object", "properties": { "f": field } }));
    check(field(json!({ "x-type": "artifact", "x-filename": "a.md", "extensions": 7 })), &[]);
    check(field(json!({ "x-type": "picture" })), &[(Error, "SCHEMA_EXTENSION_INVALID", path, "/properties/f/x-type")]);
    check(
        field(json!({ "x-type": "file", "x-filename": "../a" })),
        &[(Error, "ARTIFACT_PATTERN_INVALID", path, "/properties/f")],
    );
}

#[test]
fn inputs_have_a_source_and_a_name_that_can_be_a_file() {
    let path = "assets/input.schema.json";
    let input = |properties: Value| Draft::script().json(path, &json!({ "type": "object", "properties": properties }));
    check(input(json!({ "a": {}, "b": { "x-input-source": "inline" }, "c": true })), &[]);
    check(
        input(json!({ "a": { "x-input-source": "web" } })),
        &[(Error, "SCHEMA_EXTENSION_INVALID", path, "/properties/a/x-input-source")],
    );
    check(input(json!({ "a/b": {} })), &[(Error, "INPUT_NAME_UNSAFE", path, "/properties/a~1b")]);
    check(input(json!({ "..": {} })), &[(Error, "INPUT_NAME_UNSAFE", path, "/properties/..")]);
    check(input(json!({ "a/b": { "x-input-source": "inline" } })), &[]);
    let required = |more: bool| {
        let schema = json!({ "type": "object", "properties": { "a": {} }, "required": ["a", "b"], "additionalProperties": more });
        Draft::script().json(path, &schema)
    };
    check(required(false), &[(Error, "REQUIRED_UNKNOWN", path, "/required/1")]);
    check(required(true), &[]);
}

#[test]
fn an_input_and_a_parameter_of_one_name_clash() {
    let one = json!({ "type": "object", "properties": { "n": { "x-input-source": "inline" } } });
    let path = "assets/parameter.schema.json";
    let draft = Draft::script().json("assets/input.schema.json", &one).json(path, &one);
    assert_eq!(draft.lint(Intake::Installed).unwrap().findings.len(), 1);
    check(draft, &[(Error, "NAME_CLASH", path, "/properties/n")]);
}

#[test]
fn artifacts_stay_below_their_folder_and_limits_make_sense() {
    let artifact = |pattern: &str| Draft::script().runner("/artifacts", json!([{ "role": "r", "pattern": pattern }]));
    check(artifact("artifacts/a/*.md"), &[]);
    check(artifact("../a"), &[(Error, "ARTIFACT_PATTERN_INVALID", RUNNER, "/artifacts/0/pattern")]);
    let automation = |value: Value| Draft::script().runner("/automation", value);
    check(automation(json!({ "timeout_sec": 5, "network": "off", "fs_scope": "run" })), &[]);
    for scope in ["run", "workspace", "workspace_only", "read_only"] {
        check(automation(json!({ "fs_scope": scope })), &[]);
    }
    check(
        automation(json!({ "fs_scope": "galaxy" })),
        &[(Warning, "FS_SCOPE_UNKNOWN", RUNNER, "/automation/fs_scope")],
    );
    check(automation(json!({ "network": "sometimes" })), &[(Error, "SHAPE_INVALID", RUNNER, "/automation/network")]);
    check(
        automation(json!({ "network": "allowlist" })),
        &[(Warning, "ALLOWLIST_UNUSED", RUNNER, "/automation/allowlist")],
    );
    let hosts =
        json!(["packages.example", "https://packages.example/simple", "*.pkg.dev:443", "packages.example:https"]);
    check(
        automation(json!({ "network": "allowlist", "allowlist": hosts })),
        &[
            (Warning, "ALLOWLIST_HOST_INVALID", RUNNER, "/automation/allowlist/1"),
            (Warning, "ALLOWLIST_HOST_INVALID", RUNNER, "/automation/allowlist/3"),
        ],
    );
    check(automation(json!({ "limits": { "processes": 8, "memory_bytes": 1 << 30 } })), &[]);
    let limits = "/automation/limits";
    check(
        automation(json!({ "limits": { "processes": 0 } })),
        &[(Error, "SHAPE_INVALID", RUNNER, &format!("{limits}/processes"))],
    );
    check(
        automation(json!({ "limits": { "memory": 5 } })),
        &[(Warning, "UNKNOWN_KEY", RUNNER, &format!("{limits}/memory"))],
    );
    assert_eq!(automation(json!({ "timeout_sec": 5 })).skill().timeout_seconds(), Some(5));
    assert_eq!(Draft::script().skill().timeout_seconds(), Some(300));
    assert_eq!(Draft::prompt().skill().timeout_seconds(), None);
    check(Draft::script().runner("/max_attempt", json!(1u64 << 40)), &[(Error, "VALUE_OUT_OF_RANGE", RUNNER, "")]);
}

#[test]
fn declared_python_packages_are_checked() {
    let declared = |python: Value| Draft::script().runner("/runtime", json!({ "python": python }));
    check(declared(json!({ "requirements": ["requests>=2.31"], "python": ">=3.10,<4" })), &[]);
    let in_file = || declared(json!({ "requirements": "requirements.txt" }));
    check(in_file().text("requirements.txt", "# what it needs\nrequests==2.31.0\n"), &[]);
    let invalid = |pointer: &'static str| [(Error, "DEPENDENCIES_INVALID", RUNNER, pointer)];
    check(in_file(), &invalid("/runtime/python/requirements"));
    check(in_file().text("requirements.txt", "-r other.txt\n"), &invalid("/runtime/python/requirements"));
    check(declared(json!({ "requirements": ["a", "b=1"] })), &invalid("/runtime/python/requirements/1"));
    check(declared(json!({ "requirements": [], "python": "3.10" })), &invalid("/runtime/python/python"));
    let unknown = declared(json!({ "requirements": [], "pythn": ">=3" }));
    check(unknown, &[(Warning, "UNKNOWN_KEY", RUNNER, "/runtime/python/pythn")]);
    check(declared(json!({ "requirements": 7 })), &[(Error, "SHAPE_INVALID", RUNNER, "/runtime/python/requirements")]);
    let unused = Draft::prompt().runner("/runtime", json!({ "python": { "requirements": ["a"] } }));
    check(unused, &[(Warning, "DEPENDENCIES_UNUSED", RUNNER, "/runtime/python")]);
}

#[test]
fn packages_declared_in_the_head_of_a_script_are_checked_and_stand_alone() {
    let script = |head: &str| Draft::script().text("scripts/run.py", &format!("# /// script\n{head}# ///\n"));
    let good = script("# dependencies = [\"requests\"]\n");
    assert_eq!(good.skill().python.script.unwrap().requirements[0].text(), "requests");
    let bad = || script("# dependencies = [\"requests=2\"]\n");
    check(bad(), &[(Error, "DEPENDENCIES_INVALID", "scripts/run.py", "")]);
    assert_eq!(bad().findings(Intake::Installed)[0].severity, Warning, "it used to be a comment");
    let both = good.runner("/runtime", json!({ "python": { "requirements": ["requests"] } }));
    check(both, &[(Error, "DEPENDENCIES_TWICE", RUNNER, "/runtime/python")]);
}
