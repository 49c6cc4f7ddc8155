//! Configuration: which layer wins, what is refused, and that every message names the key and the place.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use skill_runner::domain::engine::Engine;
use skill_runner::settings::{
    BlobsPlace, Described, EngineSettings, LegacyMode, LogLevel, RestartQueued, Sandbox, Settings, Several, Source,
    UiLogin,
};

fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

fn load(file: &str, env: &[(&str, &str)], flags: &[(&str, &str)]) -> Result<Settings, Vec<String>> {
    let env: BTreeMap<String, String> = pairs(env).into_iter().collect();
    Settings::load(Some(("skill-runner.yaml", file)), &env, &pairs(flags), 6)
        .map_err(|problems| problems.iter().map(ToString::to_string).collect())
}

fn described(settings: &Settings, key: &str) -> (String, String) {
    let found = settings.describe().iter().find(|described| described.key == key).unwrap();
    (found.value.clone(), found.source.to_string())
}

#[test]
fn without_any_configuration_every_setting_has_its_documented_default() {
    let settings = Settings::load(None, &BTreeMap::new(), &[], 6).unwrap();
    let listed: Vec<(&str, &str)> = settings
        .describe()
        .iter()
        .filter(|found| !found.key.starts_with("engines."))
        .map(|found| (found.key.as_str(), found.value.as_str()))
        .collect();
    assert_eq!(
        listed,
        [
            ("host", "127.0.0.1"),
            ("port", "8000"),
            ("token", "none"),
            ("allowed_hosts", "localhost,127.0.0.1,[::1]"),
            ("allowed_origins", ""),
            ("session_hours", "168"),
            ("max_failed_logins", "10"),
            ("ui_basic_auth_enabled", "off"),
            ("ui_basic_auth_username", "none"),
            ("ui_basic_auth_password", "none"),
            ("heartbeat_seconds", "15"),
            ("drain_grace_seconds", "30"),
            ("max_connections", "1024"),
            ("max_connections_per_address", "256"),
            ("header_timeout_seconds", "30"),
            ("body_timeout_seconds", "30"),
            ("send_timeout_seconds", "60"),
            ("data_dir", "./data"),
            ("skills_dir", "./skills"),
            ("agents_dir", "./agents"),
            ("configs_dir", "./configs"),
            ("agent_home", "./data/agent-home"),
            ("npm_prefix", "./data/npm"),
            ("backup_dir", "./backups"),
            ("store", "sled"),
            ("seal_grace_seconds", "60"),
            ("blobs", "none"),
            ("s3_endpoint", "none"),
            ("s3_region", "none"),
            ("s3_addressing", "auto"),
            ("s3_access_key_id", "none"),
            ("s3_secret_access_key", "none"),
            ("s3_session_token", "none"),
            ("s3_credentials_file", "none"),
            ("node_name", "none"),
            ("lease_seconds", "15"),
            ("work", "on"),
            ("shared_files_grace_seconds", "86400"),
            ("cache_max_bytes", "21474836480"),
            ("scrub", "4194304"),
            ("scrub_pause_seconds", "3600"),
            ("max_running_jobs", "24"),
            ("max_queued_jobs", "1000"),
            ("max_awaiting_upload", "10000"),
            ("max_running_per_engine", "0"),
            ("max_running_per_skill", "0"),
            ("fair_label", "none"),
            ("fair_tokens", "on"),
            ("restart_queued", "fail"),
            ("repair", "off"),
            ("sandbox", "auto"),
            ("control_groups", "auto"),
            ("sandbox_read", ""),
            ("sandbox_write", ""),
            ("egress_allow", ""),
            ("python_packages", "on"),
            ("python_install_timeout_seconds", "900"),
            ("python_environment_days", "30"),
            ("hard_timeout_seconds", "1200"),
            ("stall_timeout_seconds", "600"),
            ("rate_limit_wait_seconds", "120"),
            ("exit_grace_seconds", "10"),
            ("kill_grace_seconds", "5"),
            ("max_upload_bytes", "67108864"),
            ("max_unpacked_bytes", "536870912"),
            ("max_entries", "10000"),
            ("temp_skill_package_max_bytes", "20000000"),
            ("max_log_bytes", "268435456"),
            ("min_free_bytes", "134217728"),
            ("limits.memory_bytes", "6442450944"),
            ("limits.processes", "4096"),
            ("limits.cpu_seconds", "86400"),
            ("limits.file_bytes", "8589934592"),
            ("limits.disk_bytes", "17179869184"),
            ("limits.open_files", "65536"),
            ("log_level", "INFO"),
            ("log_file", "./data/logs/skill-runner.log"),
            ("log_max_bytes", "5000000"),
            ("log_backup_count", "5"),
            ("log_format", "text"),
            ("access_log", "on"),
            ("keep_days", "0"),
            ("keep_last", "0"),
            ("keep_labels", ""),
            ("otlp_endpoint", "none"),
            ("otlp_headers", "none"),
            ("otlp_service_name", "skill-runner"),
            ("otlp_interval_seconds", "60"),
            ("e2e_client_port", "8011"),
            ("e2e_client_backend_base_url", "http://127.0.0.1:8000"),
            ("e2e_client_recordings_dir", "replay/recordings"),
            ("ui_legacy_api_mode", "warn"),
            ("ui_legacy_api_sunset", "2026-06-30"),
        ]
    );
    assert!(settings.describe().iter().all(|found| found.source == Source::Default));
    assert_eq!(settings.engines.keys().collect::<BTreeSet<_>>(), Engine::AGENTS.iter().collect());
}

#[test]
fn flags_win_over_the_environment_which_wins_over_the_file() {
    let file = "port: 1001\nheartbeat_seconds: 21\nkill_grace_seconds: 31\n";
    let env = [("SKILL_RUNNER_PORT", "1002"), ("SKILL_RUNNER_HEARTBEAT_SECONDS", "22")];
    let settings = load(file, &env, &[("port", "1003")]).unwrap();
    let found = (settings.http.port, settings.http.heartbeat_seconds, settings.times.kill_grace_seconds);
    assert_eq!(found, (1003, 22, 31));
    assert_eq!(described(&settings, "port"), ("1003".into(), "--port".into()));
    assert_eq!(described(&settings, "heartbeat_seconds"), ("22".into(), "SKILL_RUNNER_HEARTBEAT_SECONDS".into()));
    assert_eq!(described(&settings, "kill_grace_seconds"), ("31".into(), "skill-runner.yaml".into()));
    assert_eq!(described(&settings, "exit_grace_seconds"), ("10".into(), "default".into()));
}

#[test]
fn every_setting_can_be_given_in_the_environment_under_its_own_name() {
    let defaults = Settings::load(None, &BTreeMap::new(), &[], 6).unwrap();
    for Described { key, value, source: _ } in defaults.describe() {
        let value = match (key.as_str(), value.as_str()) {
            ("ui_basic_auth_enabled", _) => "off",
            ("sandbox_read" | "sandbox_write" | "blobs", _) => "/x",
            ("keep_labels", _) => "a:b=1",
            ("otlp_endpoint" | "s3_endpoint", _) => "http://x",
            ("otlp_headers", _) => "a=b",
            ("allowed_origins", _) => "https://app.example",
            (_, "none" | "") => "X",
            (_, value) => value,
        };
        let variable = format!("SKILL_RUNNER_{}", key.to_uppercase().replace('.', "_"));
        let settings = load("", &[(&variable, value)], &[]).unwrap();
        assert_eq!(described(&settings, key).1, variable);
    }
}

#[test]
fn what_a_service_of_several_is_told_is_checked() {
    let given = [("blobs", "/srv/shared"), ("node_name", "a-1.b_c"), ("lease_seconds", "5"), ("work", "off")];
    let file: String = given.iter().map(|(key, value)| format!("{key}: {value}\n")).collect();
    let several = load(&file, &[], &[]).unwrap().several;
    let expected = Several {
        blobs: Some(BlobsPlace::Folder("/srv/shared".into())),
        node_name: Some("a-1.b_c".to_owned()),
        lease_seconds: 5,
        work: false,
        shared_files_grace_seconds: 24 * 3600,
        cache_max_bytes: 20 << 30,
    };
    assert_eq!(several, expected);
    for wrong in
        ["blobs: shared", "blobs: ftp://x", "node_name: a b", "lease_seconds: 4", "lease_seconds: 301", "work: x"]
    {
        let problems = load(wrong, &[], &[]).unwrap_err();
        let key = wrong.split_once(':').unwrap().0;
        assert!(problems.len() == 1 && problems[0].contains(key), "{wrong}: {problems:?}");
    }
}

/// A bucket, its server, region, host and path in URLs.
fn reached(file: &str, env: &[(&str, &str)]) -> Result<[String; 5], Vec<String>> {
    let keys = [("AWS_ACCESS_KEY_ID", "id-of-it"), ("AWS_SECRET_ACCESS_KEY", "secret-of-it")];
    let settings = load(file, &[env, &keys].concat(), &[])?;
    let Some(BlobsPlace::S3(place)) = &settings.several.blobs else { panic!("{:?}", settings.several) };
    let (scheme, host, path) = place.url();
    for hidden in ["id-of-it", "secret-of-it"] {
        assert!(!format!("{settings:?}").contains(hidden), "{hidden}");
        assert!(settings.describe().iter().all(|found| !found.value.contains(hidden)), "{hidden}");
    }
    Ok([place.bucket.to_string(), place.endpoint.clone(), place.region.clone(), format!("{scheme}://{host}"), path])
}

#[test]
fn a_bucket_is_named_by_blobs_and_reached_by_settings_of_its_own() {
    for (file, env, expected) in [
        (
            "blobs: s3://my-bucket/a/b/\ns3_region: eu-west-1",
            &[][..],
            [
                "s3://my-bucket/a/b",
                "https://s3.eu-west-1.amazonaws.com",
                "eu-west-1",
                "https://my-bucket.s3.eu-west-1.amazonaws.com",
                "",
            ],
        ),
        (
            "blobs: s3://my.bucket",
            &[("AWS_REGION", "eu-west-1")],
            [
                "s3://my.bucket",
                "https://s3.eu-west-1.amazonaws.com",
                "eu-west-1",
                "https://s3.eu-west-1.amazonaws.com",
                "/my.bucket",
            ],
        ),
        (
            "blobs: s3://my-bucket/a\ns3_endpoint: https://Minio.example:443/s3/",
            &[("AWS_ENDPOINT_URL", "http://of-another-program")],
            ["s3://my-bucket/a", "https://minio.example/s3", "us-east-1", "https://minio.example", "/s3/my-bucket"],
        ),
        (
            "blobs: s3://my-bucket/a\ns3_addressing: virtual",
            &[("AWS_ENDPOINT_URL", "http://store.example:9000"), ("SKILL_RUNNER_S3_REGION", "x"), ("AWS_REGION", "y")],
            ["s3://my-bucket/a", "http://store.example:9000", "x", "http://my-bucket.store.example:9000", ""],
        ),
    ] {
        assert_eq!(reached(file, env).unwrap(), expected.map(str::to_owned), "{file}");
    }
    for (file, words) in [
        ("blobs: s3://", "blobs"),
        ("blobs: s3://ab", "blobs"),
        ("blobs: s3://my_bucket/a//b", "prefix"),
        ("blobs: s3://my-bucket/../x", "prefix"),
        ("blobs: s3://my-bucket/a b", "prefix"),
        ("blobs: s3://key:secret@my-bucket/a", "settings of their own"),
        ("blobs: s3://my-bucket/a?region=x", "settings of their own"),
        ("blobs: s3://my-bucket\n", "s3_region"),
        ("blobs: s3://my-bucket\ns3_endpoint: ftp://x", "s3_endpoint"),
        ("blobs: s3://my-bucket\ns3_endpoint: https://a:b@x", "s3_endpoint"),
        ("blobs: s3://my-bucket\ns3_endpoint: https://a:port", "s3_endpoint"),
        ("blobs: s3://my-bucket\ns3_region: a b", "s3_region"),
    ] {
        let problems = reached(file, &[]).unwrap_err();
        assert!(problems.iter().any(|problem| problem.contains(words)), "{file}: {problems:?}");
    }
    let bucket = "blobs: s3://my-bucket\ns3_region: x";
    for (env, key) in [
        (&[][..], "s3_access_key_id"),
        (&[("AWS_ACCESS_KEY_ID", "i")], "s3_secret_access_key"),
        (&[("AWS_SECRET_ACCESS_KEY", "s")], "s3_access_key_id"),
    ] {
        let problems = load(bucket, env, &[]).unwrap_err();
        assert!(problems.len() == 1 && problems[0].starts_with(key), "{problems:?}");
    }
    // Variables for other programs alone change nothing.
    assert_eq!(load("", &[("AWS_REGION", "x"), ("AWS_ACCESS_KEY_ID", "i")], &[]).unwrap().several.blobs, None);
}

#[test]
fn the_special_variables_are_known() {
    let env = [
        ("SKILL_RUNNER_ENGINE_HARD_TIMEOUT_SECONDS", "77"),
        ("SKILL_RUNNER_CODEX_BIN", "/opt/codex"),
        ("SKILL_RUNNER_ENGINES_CLAUDE_ENV_PASS", "ANTHROPIC_API_KEY, HTTPS_PROXY"),
        ("LOG_LEVEL", "warning"),
        ("LOG_FILE", "/var/log/x.log"),
        ("LOG_MAX_BYTES", "5MB"),
        ("LOG_BACKUP_COUNT", "0"),
        ("UI_BASIC_AUTH_ENABLED", "true"),
        ("UI_BASIC_AUTH_USERNAME", "ann"),
        ("UI_BASIC_AUTH_PASSWORD", "pass word"),
        ("SKILL_RUNNER_UI_LEGACY_API_MODE", "gone"),
        ("SKILL_RUNNER_TOKEN", ""),
        ("PATH", "/bin"),
    ];
    let settings = load("", &env, &[]).unwrap();
    assert_eq!(settings.times.hard_timeout_seconds, 77);
    assert_eq!(
        settings.engines[&Engine::Codex],
        EngineSettings { command: Some("/opt/codex".into()), env_pass: vec![] }
    );
    assert_eq!(settings.engines[&Engine::Claude].env_pass, ["ANTHROPIC_API_KEY", "HTTPS_PROXY"]);
    assert_eq!((settings.log.level, settings.log.file.as_path()), (LogLevel::Warn, Path::new("/var/log/x.log")));
    assert_eq!((settings.log.max_bytes, settings.log.backup_count), (5_000_000, 0));
    let Some(UiLogin { username, password }) = settings.http.ui_login else { panic!("no login") };
    assert_eq!((username.as_str(), password.expose()), ("ann", "pass word"));
    assert_eq!(settings.legacy_ui_api.mode, LegacyMode::Gone);
    assert_eq!(settings.http.token, None, "an empty variable is not set");
}

#[test]
fn the_file_may_use_booleans_or_words_lists_and_units() {
    let file = "
repair: on
sandbox: false
restart_queued: requeue
max_upload_bytes: 1 GiB
allowed_hosts: [runner.local, 10.0.0.1]
data_dir: /srv/data
engines:
  codex: { command: /opt/codex, env_pass: [OPENAI_API_KEY] }
  qwen:
    command: qwen
";
    let settings = load(file, &[], &[]).unwrap();
    assert_eq!((settings.runs.repair, settings.runs.sandbox), (true, Sandbox::Off));
    assert_eq!((settings.runs.restart_queued, settings.limits.max_upload_bytes), (RestartQueued::Requeue, 1 << 30));
    assert_eq!(settings.http.allowed_hosts, ["runner.local", "10.0.0.1"]);
    assert_eq!(settings.paths.agent_home, Path::new("/srv/data/agent-home"));
    assert_eq!(settings.log.file, Path::new("/srv/data/logs/skill-runner.log"));
    assert_eq!(
        settings.engines[&Engine::Codex],
        EngineSettings { command: Some("/opt/codex".into()), env_pass: vec!["OPENAI_API_KEY".into()] }
    );
    assert_eq!(settings.engines[&Engine::Qwen].command.as_deref(), Some("qwen"));
    assert!(load("repair: true\n", &[], &[]).unwrap().runs.repair);
    assert!(!load("repair: 'off'\n", &[], &[]).unwrap().runs.repair);
    assert_eq!(load("# nothing yet\n", &[], &[]), load("", &[], &[]));
}

#[test]
fn unknown_names_are_refused_wherever_they_stand_and_all_are_reported() {
    let file = "prot: 1\nengines: { codx: { command: x }, codex: { colour: red } }\n";
    assert_eq!(
        load(file, &[("SKILL_RUNNER_PROT", "1"), ("PROT", "1")], &[("prot", "1")]),
        Err(vec![
            "prot (skill-runner.yaml): there is no such setting; did you mean port?".into(),
            "engines.codx.command (skill-runner.yaml): there is no such setting; did you mean engines.codex.command?"
                .into(),
            "engines.codex.colour (skill-runner.yaml): there is no such setting; did you mean engines.codex.command?"
                .into(),
            "SKILL_RUNNER_PROT (environment): there is no such setting; did you mean SKILL_RUNNER_PORT?".into(),
            "prot (--prot): there is no such setting; did you mean port?".into(),
        ])
    );
}

#[test]
fn values_out_of_range_are_refused_with_key_and_place() {
    for (file, expected) in [
        ("port: 65536", "port (skill-runner.yaml): must be a whole number from 0 to 65535, not \"65536\""),
        ("port: [1, 2]", "port (skill-runner.yaml): must be one value, not a list"),
        ("port:", "port (skill-runner.yaml): must be one value or a list of values"),
        ("port: { a: 1 }", "port.a (skill-runner.yaml): there is no such setting; did you mean port?"),
        (
            "max_running_jobs: 0",
            "max_running_jobs (skill-runner.yaml): must be a whole number from 1 to 4096, not \"0\"",
        ),
        ("sandbox: maybe", "sandbox (skill-runner.yaml): must be one of auto, on, off, not \"maybe\""),
        (
            "store: oracle",
            "store (skill-runner.yaml): must be sled or a URL such as postgres://USER:PASSWORD@HOST/DATABASE",
        ),
        ("host: example.com", "host (skill-runner.yaml): must be an IP address or localhost, not \"example.com\""),
        ("allowed_hosts: ['a b']", "allowed_hosts (skill-runner.yaml): \"a b\" cannot be one of its values"),
        (
            "max_log_bytes: 1 parsec",
            "max_log_bytes (skill-runner.yaml): must be 1 to 1099511627776 bytes, as a number or with KiB, MiB, GiB, KB, MB or GB; not \"1 parsec\"",
        ),
        (
            "ui_legacy_api_sunset: soon",
            "ui_legacy_api_sunset (skill-runner.yaml): must be a day such as 2026-06-30, not \"soon\"",
        ),
        ("- a", "the file (skill-runner.yaml): must be a list of `key: value` lines"),
    ] {
        assert_eq!(load(file, &[], &[]), Err(vec![expected.to_owned()]), "{file}");
    }
    let env = [("SKILL_RUNNER_PORT", "http")];
    assert_eq!(
        load("", &env, &[]),
        Err(vec!["port (SKILL_RUNNER_PORT): must be a whole number from 0 to 65535, not \"http\"".into()])
    );
    let twice = "the file (skill-runner.yaml): duplicate entry with key \"port\"";
    assert_eq!(load("port: 1\nport: 2\n", &[], &[]), Err(vec![twice.into()]));
    let broken = load("port: 1\n: [\n", &[], &[]).unwrap_err();
    assert!(broken[0].starts_with("the file (skill-runner.yaml): ") && broken[0].contains("line 2"), "{broken:?}");
}

#[test]
fn two_variables_for_one_setting_must_agree() {
    let env = |second| [("SKILL_RUNNER_LOG_LEVEL", "debug"), ("LOG_LEVEL", second)];
    assert_eq!(load("", &env("debug"), &[]).unwrap().log.level, LogLevel::Debug);
    assert_eq!(
        load("", &env("error"), &[]),
        Err(vec!["log_level (LOG_LEVEL): SKILL_RUNNER_LOG_LEVEL has another value; set only one of them".into()])
    );
}

#[test]
fn an_origin_is_a_scheme_a_host_and_perhaps_a_port() {
    let origins = |text: &str| load("", &[("SKILL_RUNNER_ALLOWED_ORIGINS", text)], &[]).map(drop);
    assert_eq!(origins("https://app.example, http://localhost:5173,http://[::1]:8080"), Ok(()));
    for wrong in
        ["*", "null", "app.example", "https://", "https://app.example/", "ftp://app.example", "https://*.example"]
    {
        let refused = format!("allowed_origins (SKILL_RUNNER_ALLOWED_ORIGINS): {wrong:?} cannot be one of its values");
        assert_eq!(origins(wrong), Err(vec![refused]));
    }
}

#[test]
fn a_guarded_user_interface_needs_both_credentials() {
    let refused =
        "ui_basic_auth_enabled (UI_BASIC_AUTH_ENABLED): needs ui_basic_auth_username and ui_basic_auth_password";
    for extra in [&[][..], &[("UI_BASIC_AUTH_USERNAME", "ann")], &[("UI_BASIC_AUTH_PASSWORD", "secret")]] {
        let env = [&[("UI_BASIC_AUTH_ENABLED", "on")], extra].concat();
        assert_eq!(load("", &env, &[]), Err(vec![refused.to_owned()]));
    }
    let unused = [("UI_BASIC_AUTH_USERNAME", "ann"), ("UI_BASIC_AUTH_PASSWORD", "secret")];
    assert_eq!(load("", &unused, &[]).unwrap().http.ui_login, None);
}

#[test]
fn secrets_are_shown_nowhere() {
    let env = [("SKILL_RUNNER_TOKEN", "hunter2"), ("UI_BASIC_AUTH_PASSWORD", "hunter2")];
    let settings = load("", &env, &[]).unwrap();
    assert_eq!(described(&settings, "token"), ("********".into(), "SKILL_RUNNER_TOKEN".into()));
    assert!(!format!("{settings:?}").contains("hunter2"));
    let problems = load("", &[("SKILL_RUNNER_TOKEN", "hunter2 hunter2")], &[]).unwrap_err();
    assert_eq!(
        problems,
        ["token (SKILL_RUNNER_TOKEN): must be visible ASCII characters without spaces, since a header carries it"]
    );
}

#[test]
fn an_invalid_port_of_the_example_client_is_the_usual_one() {
    for text in ["", "0", "99999", "http", "-1"] {
        let settings = load("", &[("SKILL_RUNNER_E2E_CLIENT_PORT", text)], &[]).unwrap();
        assert_eq!(settings.e2e_client.port, 8011, "{text}");
    }
    assert_eq!(load("", &[("SKILL_RUNNER_E2E_CLIENT_PORT", "9000")], &[]).unwrap().e2e_client.port, 9000);
}

#[test]
fn settings_of_telemetry_and_retention_are_checked_and_read_from_the_usual_variables() {
    let usual = [("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4318/"), ("OTEL_SERVICE_NAME", "x")];
    let settings = load("keep_labels: [\"team:a=3\", \"keep:yes=forever\"]\n", &usual, &[]).unwrap();
    assert_eq!(described(&settings, "otlp_endpoint").0, "http://127.0.0.1:4318");
    assert_eq!(described(&settings, "otlp_service_name"), ("x".into(), "OTEL_SERVICE_NAME".into()));
    assert_eq!(described(&settings, "keep_labels").0, "team:a=3,keep:yes=forever");
    let over_tls = load("", &[], &[("otlp_endpoint", "https://collector:4318/")]).unwrap();
    assert_eq!(described(&over_tls, "otlp_endpoint").0, "https://collector:4318");
    let of_six = load("", &[], &[("otlp_endpoint", "http://[::1]:4318/path")]).unwrap();
    assert_eq!(described(&of_six, "otlp_endpoint").0, "http://[::1]:4318/path");
    // Unset is what an empty variable means to OpenTelemetry.
    assert_eq!(described(&load("", &[("OTEL_EXPORTER_OTLP_ENDPOINT", "")], &[]).unwrap(), "otlp_endpoint").0, "none");
    for (key, value, part) in [
        ("otlp_endpoint", "https:///v1", "must be a URL"),
        ("otlp_endpoint", "collector:4318", "must be a URL"),
        ("otlp_endpoint", "http://[::1", "must be a URL"),
        ("otlp_endpoint", "http://[::1]4318", "must be a URL"),
        ("otlp_endpoint", "http://collector:port", "must be a URL"),
        ("otlp_endpoint", "http://collector:+80", "must be a URL"),
        ("otlp_endpoint", "http://collector/a path", "must be a URL"),
        ("otlp_endpoint", "http://collector/a?key=b", "must be a URL"),
        ("otlp_endpoint", "http://two words", "must be a URL"),
        ("otlp_endpoint", "http://ann:secret@collector", "otlp_headers"),
        ("otlp_headers", "no pair", "name=value"),
        ("keep_labels", "team=3", "cannot be one of its values"),
        ("keep_days", "-1", "whole number"),
        ("log_format", "xml", "text, json"),
    ] {
        let problems = load("", &[], &[(key, value)]).unwrap_err();
        assert_eq!(problems.len(), 1, "{problems:?}");
        assert!(problems[0].starts_with(key) && problems[0].contains(part), "{problems:?}");
        assert!(!problems[0].contains("secret"), "{problems:?}");
    }
}
