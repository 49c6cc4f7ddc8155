//! How each engine is launched, compared whole.

use std::path::Path;

use serde_json::{Value, json};

use super::turn::TurnRefused;
use super::*;
use crate::domain::codes::ErrorCode;
use crate::domain::outcome::RunError;
use crate::domain::request::ExecutionMode;

const UUID: &str = "01a1e212-7b08-7880-8338-1569b3c6ebe6";

/// A turn, and the model that its request names.
struct Asked<'a> {
    model: Option<&'a str>,
    turn: Turn<'a>,
}

impl<'a> std::ops::Deref for Asked<'a> {
    type Target = Turn<'a>;

    fn deref(&self) -> &Turn<'a> {
        &self.turn
    }
}

impl std::ops::DerefMut for Asked<'_> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.turn
    }
}

fn plan(name: &str, change: impl FnOnce(&mut Asked<'_>)) -> Result<LaunchPlan, TurnRefused> {
    plan_with(name, &json!({}), change)
}

fn plan_with(name: &str, request: &Value, change: impl FnOnce(&mut Asked<'_>)) -> Result<LaunchPlan, TurnRefused> {
    let env = [("KEY".to_owned(), "secret".to_owned()), ("HOME".to_owned(), "/root".to_owned())];
    plan_passing(name, &env, request, change)
}

fn plan_passing(
    name: &str,
    env: &[(String, String)],
    request: &Value,
    change: impl FnOnce(&mut Asked<'_>),
) -> Result<LaunchPlan, TurnRefused> {
    let adapter = adapter_named(name).unwrap();
    let schema =
        json!({ "type": "object", "properties": { "a": {} }, "required": ["a"], "additionalProperties": false });
    let turn = Turn {
        program: &["/bin/engine".to_owned()],
        run_dir: Path::new("/run"),
        engine_home: Path::new("/home/engine"),
        tmp: Path::new("/tmp/turn"),
        path: "/usr/bin",
        env,
        has_login: false,
        secrets: &[],
        prompt: "Do it",
        resume: None,
        config: &json!({}),
        shown_config: &json!({}),
        mode: ExecutionMode::Auto,
        output_schema: Some(OutputSchema { value: &schema, path: Path::new("/run/schema.json") }),
        own_sandbox: true,
        network: false,
        tools: None,
    };
    let mut asked = Asked { model: None, turn };
    change(&mut asked);
    let Asked { model, turn } = asked;
    let layers = config::Layers {
        operator: &config::Operator::default(),
        skill_file: None,
        request: Some(request),
        model,
        mode: turn.mode,
    };
    let config = config::merge(&adapter.config, &layers).unwrap();
    adapter.launch(&Turn { config: &config, shown_config: &config, ..turn })
}

fn argv(plan: &LaunchPlan) -> String {
    plan.launch.argv.join(" ")
}

fn variable<'a>(plan: &'a LaunchPlan, name: &str) -> Option<&'a str> {
    plan.launch.env.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
}

fn file(plan: &LaunchPlan, path: &str) -> Option<(Value, bool)> {
    let file = plan.files.iter().find(|file| file.path == Path::new(path))?;
    Some((serde_json::from_slice(&file.bytes).unwrap(), file.keep_existing))
}

#[test]
fn every_engine_gets_its_prompt_its_home_and_its_own_environment_and_nothing_secret_in_its_arguments() {
    for adapter in adapters() {
        let plan = plan(adapter.name(), |_| {}).unwrap();
        assert_eq!(plan.launch.argv[0], "/bin/engine");
        assert_eq!(plan.launch.cwd, Path::new("/run"));
        assert_eq!(variable(&plan, "HOME"), Some("/home/engine"), "{}", adapter.name());
        assert_eq!(variable(&plan, "TMPDIR"), Some("/tmp/turn"));
        assert_eq!(variable(&plan, "KEY"), Some("secret"));
        assert_eq!(plan.launch.env.iter().filter(|(name, _)| name == "HOME").count(), 1);
        assert!(!argv(&plan).contains("secret") && !plan.shown_argv.join(" ").contains("Do it"));
        let in_arguments = adapter.name() == "iflow";
        let stdin: &[u8] = if in_arguments { b"" } else { b"Do it" };
        assert_eq!(plan.launch.stdin, stdin, "{}", adapter.name());
        assert_eq!(argv(&plan).contains("Do it"), in_arguments, "{}", adapter.name());
    }
}

#[test]
fn codex_takes_its_configuration_as_overrides_and_its_schema_as_a_file() {
    let first = plan("codex", |turn| turn.model = Some("m")).unwrap();
    let expected = "/bin/engine exec --json --skip-git-repo-check -s workspace-write -C /run \
        -c skills.bundled.enabled=false -c model=\"m\" -c approval_policy=\"never\" \
        -c check_for_update_on_startup=false -c analytics.enabled=false -c features.plugins=false \
        -c features.apps=false -c features.unbounded_connection_retries=false \
        -c features.skill_mcp_dependency_install=false -c features.shell_snapshot=false \
        -c sandbox_workspace_write.exclude_slash_tmp=true --output-schema /run/schema.json -";
    assert_eq!(argv(&first), expected);
    assert_eq!(variable(&first, "CODEX_HOME"), Some("/home/engine/.codex"));
    assert_eq!(file(&first, "/run/schema.json").map(|(_, keep)| keep), Some(false));
    let resumed = plan("codex", |turn| {
        turn.resume = Some(UUID);
        turn.mode = ExecutionMode::Interactive;
        turn.network = true;
    });
    let resumed = argv(&resumed.unwrap());
    let sandbox =
        "-c sandbox_workspace_write.network_access=true -c sandbox_workspace_write.exclude_slash_tmp=true resume";
    assert!(resumed.ends_with(&format!("{sandbox} {UUID} -")), "{resumed}");
    assert!(!resumed.contains("--output-schema"));
    assert!(argv(&plan("codex", |turn| turn.own_sandbox = false).unwrap()).contains("-s danger-full-access"));
}

#[test]
fn tools_that_a_skill_does_not_allow_are_taken_from_the_model_in_each_engines_own_way() {
    let written = json!("Read Bash(git add:*) Bash(git log) WebFetch mcp__x");
    let tools: &[_] = tools::read(Some(&written)).unwrap().leak();
    let with = |name: &str| plan(name, |turn| turn.tools = Some(tools)).unwrap();
    let claude = argv(&with("claude"));
    let expected = "--permission-mode default --tools Bash,Read,Skill,WebFetch,mcp__x \
        --allowedTools Read Bash(git add:*) Bash(git log) WebFetch mcp__x Skill --json-schema";
    assert!(claude.contains(expected), "{claude}");
    let core =
        |name: &str| file(&with(name), &format!("/run/.{name}/settings.json")).unwrap().0["tools"]["core"].take();
    let gemini = ["run_shell_command(git add)", "run_shell_command(git log)", "web_fetch", "activate_skill"];
    let read = ["read_file", "read_many_files", "list_directory"];
    assert_eq!(core("gemini"), json!([&read[..], &gemini].concat()));
    let qwen = ["read_file", "list_directory", "run_shell_command", "run_shell_command", "web_fetch", "skill"];
    assert_eq!(core("qwen"), json!(qwen));
    let opencode = with("opencode");
    let config: Value = serde_json::from_str(variable(&opencode, "OPENCODE_CONFIG_CONTENT").unwrap()).unwrap();
    let bash =
        json!({ "*": "deny", "git add": "allow", "git add *": "allow", "git log": "allow", "git log *": "allow" });
    let permission = json!({
        "*": "deny", "question": "deny", "skill": "allow", "external_directory": "allow",
        "read": "allow", "list": "allow", "bash": bash, "webfetch": "allow",
    });
    // The order counts: the last rule that fits decides.
    assert_eq!(config["permission"].to_string(), permission.to_string());
    let codex = argv(&with("codex"));
    let off = "-c tools.experimental_request_user_input.enabled=false -c tools.update_plan.enabled=false \
        -c agents.enabled=false -c web_search=\"disabled\"";
    assert!(codex.contains("-s workspace-write") && codex.contains(off), "{codex}");
    assert!(codex.contains("features.multi_agent=false") && codex.contains("features.goals=false"), "{codex}");
    assert!(!codex.contains("shell_tool") && !codex.contains("view_image"), "{codex}");
    let iflow = file(&with("iflow"), "/run/.iflow/settings.json").unwrap().0["coreTools"].take();
    let others = ["run_shell_command(git add)", "run_shell_command(git log)", "web_fetch", "Skill"];
    assert_eq!(iflow, json!([&read[..], &others].concat()));
    let parentheses = "what stands in parentheses in allowed-tools";
    for (name, not_kept) in [
        ("claude", vec![]),
        ("gemini", vec![]),
        ("opencode", vec![]),
        ("qwen", vec![parentheses]),
        ("codex", vec![parentheses, "allowed-tools without Edit and Write"]),
        ("iflow", vec!["allowed-tools"]),
    ] {
        let adapter = adapter_named(name).unwrap();
        let asked: Vec<&str> = adapter.does_not_keep(Some(tools)).iter().map(|not_kept| not_kept.asked).collect();
        assert_eq!(asked, not_kept, "{name}");
        assert_eq!(adapter.does_not_keep(None), [], "{name}");
    }
}

#[test]
fn codex_without_a_tool_that_writes_is_held_to_read_in_every_sandbox() {
    for (written, own_sandbox, expected) in [
        ("Read Grep", true, "read-only"),
        ("Read Grep", false, "read-only"),
        ("Read Write", true, "workspace-write"),
        ("Read Edit", false, "danger-full-access"),
        ("Bash", false, "danger-full-access"),
    ] {
        let tools: &[_] = tools::read(Some(&json!(written))).unwrap().leak();
        let plan = plan("codex", |turn| {
            turn.tools = Some(tools);
            turn.own_sandbox = own_sandbox;
        });
        let argv = argv(&plan.unwrap());
        assert!(argv.contains(&format!("-s {expected} ")), "{written}: {argv}");
        let shell = "-c features.shell_tool=false -c features.unified_exec=false";
        assert_eq!(argv.contains(shell), written != "Bash", "{written}: {argv}");
    }
}

#[test]
fn keys_that_an_engine_logs_in_with_are_kept_from_its_commands_and_other_variables_are_not() {
    for (name, key, how) in [
        ("codex", "MY_PROVIDER_KEY", "-c shell_environment_policy.set.MY_PROVIDER_KEY=\"\""),
        ("gemini", "GEMINI_API_KEY", ".gemini/settings.json"),
        ("opencode", "OPENROUTER_API_KEY", "BASH_ENV"),
        ("claude", "ANTHROPIC_API_KEY", "CLAUDE_ENV_FILE"),
        ("qwen", "OPENAI_API_KEY", "BASH_ENV"),
    ] {
        let passed = [(key, "sk-secret"), ("GITHUB_TOKEN", "for a command")];
        let passed = passed.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let plan = plan_passing(name, &passed, &json!({}), |_| {}).unwrap();
        assert_eq!(variable(&plan, key), Some("sk-secret"), "{name} itself has it");
        let told = match how {
            "BASH_ENV" | "CLAUDE_ENV_FILE" => {
                assert_eq!(variable(&plan, how), Some("/home/engine/.hidden-keys.sh"), "{name}");
                let file = plan.files.iter().find(|file| file.path == Path::new("/home/engine/.hidden-keys.sh"));
                String::from_utf8(file.unwrap().bytes.clone()).unwrap()
            }
            ".gemini/settings.json" => {
                let (settings, _) = file(&plan, "/run/.gemini/settings.json").unwrap();
                let redaction = &settings["security"]["environmentVariableRedaction"];
                let expected = json!({ "enabled": true, "blocked": [key], "allowed": ["GITHUB_TOKEN"] });
                assert_eq!(*redaction, expected);
                key.to_owned()
            }
            argument => {
                assert!(argv(&plan).contains(argument), "{}", argv(&plan));
                argv(&plan)
            }
        };
        assert!(told.contains(key) && !told.contains("GITHUB_TOKEN") && !told.contains("sk-secret"), "{name}: {told}");
    }
}

#[test]
fn codex_gets_a_models_name_and_its_effort_apart() {
    let plan = plan("codex", |turn| turn.model = Some("gpt-5.2-codex@high")).unwrap();
    let argv = argv(&plan);
    assert!(argv.contains(r#"-c model="gpt-5.2-codex""#), "{argv}");
    assert!(argv.contains(r#"-c model_reasoning_effort="high""#), "{argv}");
}

#[test]
fn gemini_logs_in_as_its_variables_say_else_by_the_login_in_its_home() {
    let chosen = |env: &[(&str, &str)], has_login: bool| {
        let env: Vec<(String, String)> =
            env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let plan = plan_passing("gemini", &env, &json!({}), |asked| asked.turn.has_login = has_login).unwrap();
        let (run, _) = file(&plan, "/run/.gemini/settings.json").unwrap();
        assert_eq!(run["security"].get("auth"), None, "a run's settings force no login");
        assert_eq!(run["experimental"]["skills"], true);
        let (home, keep) = file(&plan, "/home/engine/.gemini/settings.json").unwrap();
        assert!(keep, "what the operator chose there stays");
        home["security"]["auth"]["selectedType"].as_str().unwrap().to_owned()
    };
    let key = [("GEMINI_API_KEY", "k")];
    assert_eq!([chosen(&[], true), chosen(&[], false)], ["oauth-personal", "gemini-api-key"]);
    assert_eq!([chosen(&key, true), chosen(&key, false)], ["gemini-api-key", "gemini-api-key"]);
    assert_eq!(chosen(&[("GOOGLE_GENAI_USE_GCA", "true")], false), "oauth-personal");
    assert_eq!(chosen(&[("GOOGLE_GENAI_USE_VERTEXAI", "true"), ("GOOGLE_API_KEY", "k")], false), "vertex-ai");
}

#[test]
fn gemini_and_qwen_write_settings_for_the_run_and_leave_those_of_their_home() {
    let gemini = plan("gemini", |turn| {
        turn.model = Some("m");
        turn.resume = Some(UUID);
    });
    let gemini = gemini.unwrap();
    let expected = format!("/bin/engine --output-format stream-json --yolo --skip-trust -m m --resume {UUID}");
    assert_eq!(argv(&gemini), expected);
    let (settings, keep) = file(&gemini, "/home/engine/.gemini/settings.json").unwrap();
    assert!(keep && settings["security"]["auth"]["selectedType"] == "gemini-api-key");
    let (of_run, keep) = file(&gemini, "/run/.gemini/settings.json").unwrap();
    assert!(!keep && of_run["model"]["name"] == "m", "{of_run}");
    let qwen = plan("qwen", |turn| turn.model = Some("m")).unwrap();
    let expected = "/bin/engine --output-format stream-json --yolo --model m --json-schema @/run/schema.json";
    assert_eq!(argv(&qwen), expected);
    let (settings, keep) = file(&qwen, "/home/engine/.qwen/settings.json").unwrap();
    assert!(keep && settings["security"]["auth"]["selectedType"] == "openai");
    let (of_run, _) = file(&qwen, "/run/.qwen/settings.json").unwrap();
    assert_eq!(of_run.get("security"), None, "the operator's way to log in holds");
}

#[test]
fn opencode_is_told_its_folder_when_it_goes_on_with_a_session() {
    let first = plan("opencode", |turn| turn.model = Some("p/m")).unwrap();
    assert_eq!(argv(&first), "/bin/engine run --format json --auto --title run");
    let config: Value = serde_json::from_str(variable(&first, "OPENCODE_CONFIG_CONTENT").unwrap()).unwrap();
    assert_eq!((&config["model"], &config["permission"]["question"]), (&json!("p/m"), &json!("deny")));
    let resumed = plan("opencode", |turn| turn.resume = Some("ses_1")).unwrap();
    assert_eq!(argv(&resumed), "/bin/engine run --format json --auto --dir /run --session ses_1");
}

#[test]
fn claude_gets_an_allow_list_and_a_settings_file_only_when_there_is_something_to_set() {
    let first = plan("claude", |turn| turn.mode = ExecutionMode::Interactive).unwrap();
    let expected = "/bin/engine -p --output-format stream-json --verbose --permission-mode acceptEdits \
        --allowedTools Bash,Edit,Write,Read,Glob,Grep,Skill,Task,WebFetch";
    assert_eq!(argv(&first), expected);
    assert_eq!(first.files, Vec::new());
    let settings = json!({ "model": "x" });
    let second = plan_with("claude", &settings, |_| {}).unwrap();
    assert!(
        argv(&second).contains("--model x --settings /run/.claude/settings.json --json-schema {\"type\":\"object\"")
    );
    assert_eq!(file(&second, "/run/.claude/settings.json"), Some((settings.clone(), false)));
}

#[test]
fn a_handle_or_model_an_engine_could_misread_is_refused() {
    for adapter in adapters() {
        for handle in ["nonsense", "--last", "-", ""] {
            let refused = plan(adapter.name(), |turn| turn.resume = Some(handle)).unwrap_err();
            assert_eq!(RunError::from(refused).code, "SESSION_RESUME_FAILED", "{} {handle}", adapter.name());
        }
        for model in ["--yolo", "", "a\nb", "{env:KEY}", "$KEY", "m@$KEY"] {
            let refused = plan(adapter.name(), |turn| turn.model = Some(model)).unwrap_err();
            assert_eq!(RunError::from(refused).code, ErrorCode::EngineConfigInvalid, "{} {model}", adapter.name());
        }
    }
}

#[test]
fn every_agent_has_an_adapter_that_keeps_its_files_under_its_own_name() {
    for (adapter, engine) in adapters().zip(Engine::AGENTS) {
        assert_eq!(adapter.engine, *engine);
        assert_eq!(adapter.skills_folder, format!(".{engine}/skills"));
        assert!(adapter.parser_version.starts_with(&format!("{engine}/")), "{engine}");
        assert!(adapter.config.skill_file.starts_with(&format!("assets/{engine}_")), "{engine}");
    }
    assert_eq!(adapters().count(), Engine::AGENTS.len());
    assert!(adapter(Engine::Script).is_none() && adapter_named("nope").is_none());
    assert!(adapter(Engine::Iflow).unwrap().warning().is_some_and(|warning| warning.code == "ENGINE_SUNSET"));
}
