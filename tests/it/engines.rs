//! The CLIs of the machine: found, asked for their version, installed; with scripts for CLIs and for npm.

mod registry;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use serde_json::{Value, json};
use skill_runner::engine::{Adapter, adapter_named};
use skill_runner::installed_engines::{
    Found, InstalledEngines, ListSource, Source, Upgrade, UpgradeRefused, UpgradeStatus,
};
use skill_runner::settings::Settings;
use tempfile::TempDir;

use crate::support::{LONG, Server};

/// What npm would do: remember its words and the names of its variables, and put a program where it belongs.
const FAKE_NPM: &str = r#"
echo "$@" >> "$0.args"
env | cut -d= -f1 | sort > "$0.env"
echo "npm is at work"
for word; do package=$word; done
case "$package" in
  @google/gemini-cli@*) program=node_modules/.bin/gemini; version=${package##*@} ;;
  opencode-ai@*) echo "no such package" >&2; exit 1 ;;
  *) exit 0 ;;
esac
mkdir -p node_modules/.bin
printf '#!/bin/sh\necho %s\n' "$version" > "$program"
chmod +x "$program"
"#;

/// A machine: a PATH of its own, a data folder, a managed prefix.
struct Machine {
    folder: TempDir,
    flags: Vec<(String, String)>,
    env: BTreeMap<String, String>,
}

impl Machine {
    fn new() -> Machine {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("bin")).unwrap();
        let path = format!("{}:/usr/bin:/bin", folder.path().join("bin").display());
        // Only what the test puts there is an engine: the tester's own must not be found.
        Machine { flags: Vec::new(), env: BTreeMap::from([("PATH".to_owned(), path)]), folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn script(&self, name: &str, text: &str) -> PathBuf {
        script(&self.path(name), text)
    }

    fn flag(mut self, key: &str, value: &str) -> Machine {
        self.flags.push((key.to_owned(), value.to_owned()));
        self
    }

    fn variable(mut self, name: &str, value: &str) -> Machine {
        self.env.insert(name.to_owned(), value.to_owned());
        self
    }

    fn installed(&self) -> InstalledEngines {
        let mut flags = self.flags.clone();
        flags.push(("data_dir".to_owned(), self.path("data").display().to_string()));
        InstalledEngines::with_env(&Settings::load(None, &BTreeMap::new(), &flags, 2).unwrap(), self.env.clone())
    }

    /// How often a script that counts was started.
    fn starts(&self, name: &str) -> usize {
        fs::read_to_string(self.path(name)).unwrap_or_default().lines().count()
    }
}

fn script(path: &Path, text: &str) -> PathBuf {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    // Not written in place: a program that another thread's child still has open cannot be started.
    fs::write(path.with_extension("new"), format!("#!/bin/sh\n{text}\n")).unwrap();
    fs::set_permissions(path.with_extension("new"), fs::Permissions::from_mode(0o755)).unwrap();
    fs::rename(path.with_extension("new"), path).unwrap();
    path.to_owned()
}

fn engine(name: &str) -> &'static Adapter {
    adapter_named(name).unwrap()
}

/// Waits for the end of an upgrade.
fn ended(installed: &InstalledEngines, upgrade: &Upgrade) -> Upgrade {
    let deadline = Instant::now() + LONG;
    loop {
        let now = installed.upgrade_of(upgrade.upgrade_id).unwrap().unwrap();
        if now.status.is_final() {
            return now;
        }
        assert!(Instant::now() < deadline, "{now:?}");
        std::thread::yield_now();
    }
}

#[test]
fn a_configured_program_comes_before_the_managed_one_and_that_before_the_one_on_the_path() {
    let machine = Machine::new();
    machine.script("bin/gemini", "echo 1.0.0");
    let bin = machine.path("bin/gemini").display().to_string();
    let path = machine.env["PATH"].clone();
    let found = machine.installed().find(engine("gemini")).unwrap();
    assert_eq!(
        found,
        Found { program: vec![bin], version: "1.0.0".into(), path: path.clone(), source: Source::OnPath }
    );

    let managed = machine.script("data/npm/node_modules/.bin/gemini", "echo 2.0.0").display().to_string();
    let found = machine.installed().find(engine("gemini")).unwrap();
    assert_eq!((found.program, found.version, found.source), (vec![managed], "2.0.0".into(), Source::Managed));

    let own = machine.script("own/gem", "echo $1 3.0.0").display().to_string();
    let machine = machine.flag("engines.gemini.command", &format!("{own} fast"));
    let found = machine.installed().find(engine("gemini")).unwrap();
    let path = format!("{path}:{}", machine.path("own").display());
    let program = vec![own, "fast".to_owned()];
    assert_eq!(found, Found { program, version: "3.0.0".into(), path, source: Source::Configured });
}

#[test]
fn a_version_is_asked_once_also_across_restarts_until_the_program_changes() {
    let machine = Machine::new();
    let count = machine.path("count").display().to_string();
    machine.script("bin/codex", &format!("echo x >> {count}; echo codex-cli 1.0.0"));
    let installed = machine.installed();
    let versions =
        || [&installed, &machine.installed()].map(|installed| installed.find(engine("codex")).unwrap().version);
    assert_eq!(versions(), ["1.0.0", "1.0.0"]);
    assert_eq!(versions(), ["1.0.0", "1.0.0"]);
    assert_eq!(machine.starts("count"), 1);
    machine.script("bin/codex", &format!("echo x >> {count}; echo codex-cli 1.0.1"));
    assert_eq!(versions(), ["1.0.1", "1.0.1"]);
    assert_eq!(machine.starts("count"), 2);
}

#[test]
fn a_program_is_asked_in_an_empty_environment_with_a_home_that_is_gone_afterwards() {
    let machine = Machine::new().variable("OPENAI_API_KEY", "sk-secret").variable("HOME", "/root");
    let seen = machine.path("seen").display().to_string();
    machine.script("bin/codex", &format!("touch $HOME/mark; env > {seen}; echo 1.0.0"));
    machine.installed().find(engine("codex")).unwrap();
    let seen = fs::read_to_string(machine.path("seen")).unwrap();
    assert!(!seen.contains("sk-secret"), "{seen}");
    let home = seen.lines().find_map(|line| line.strip_prefix("HOME=")).unwrap();
    assert!(Path::new(home).starts_with(machine.path("data")) && !Path::new(home).exists(), "{home}");
}

#[test]
fn what_is_missing_or_unusable_is_said_with_the_command_that_installs_it() {
    let machine = Machine::new();
    let missing = machine.installed().find(engine("codex")).unwrap_err();
    assert_eq!(missing.engine, "codex");
    assert_eq!(missing.install_command.as_deref(), Some("skill-runner engines --install codex"));
    assert!(missing.to_string().ends_with("; to install it: skill-runner engines --install codex"), "{missing}");
    assert!(missing.to_string().contains("codex cannot be started: its program is neither in"), "{missing}");

    machine.script("bin/codex", "echo 'it needs a newer kernel' >&2; exit 3");
    let crashed = machine.installed().find(engine("codex")).unwrap_err();
    assert!(crashed.reason.contains("--version failed (exit status: 3): it needs a newer kernel"), "{crashed}");

    let plain = machine.path("plain");
    fs::write(&plain, "#!/bin/sh\n").unwrap();
    for (command, said) in [
        (plain.display().to_string(), "is not executable"),
        (machine.path("nothing").display().to_string(), "No such file"),
        ("no-such-program --x".to_owned(), "is not on the PATH"),
    ] {
        let machine = Machine::new().flag("engines.codex.command", &command);
        let refused = machine.installed().find(engine("codex")).unwrap_err();
        let named = "SKILL_RUNNER_CODEX_BIN (engines.codex.command) names a program that cannot be used: ";
        assert!(refused.reason.starts_with(named), "{refused}");
        assert!(refused.reason.contains(said), "{refused}");
    }
    let gone = machine.installed().find(engine("iflow")).unwrap_err();
    assert_eq!(gone.install_command, None);
    assert!(gone.to_string().contains("SKILL_RUNNER_IFLOW_BIN"), "{gone}");
}

#[test]
fn a_program_that_does_not_tell_its_version_in_time_is_ended_with_its_children_and_stays_usable() {
    let machine = Machine::new();
    let pid = machine.path("pid").display().to_string();
    machine.script("bin/claude", &format!("sleep 1000 & echo $! > {pid}; wait"));
    let installed = machine.installed();
    assert_eq!(installed.find(engine("claude")).unwrap().version, "unknown");
    let status = installed.status(engine("claude"));
    assert_eq!((status.installed, status.cli_version_detected), (true, None));
    let pid = fs::read_to_string(machine.path("pid")).unwrap();
    // A killed process takes a moment to be gone.
    let deadline = std::time::Instant::now() + crate::support::LONG;
    loop {
        let state = fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
        if state.is_empty() || state.contains(") Z ") || state.contains(") X ") {
            return;
        }
        assert!(std::time::Instant::now() < deadline, "{state}");
        std::thread::yield_now();
    }
}

#[test]
fn no_secret_is_part_of_any_status() {
    let machine = Machine::new()
        .flag("engines.codex.env_pass", "OPENAI_API_KEY")
        .variable("OPENAI_API_KEY", "sk-secret-1")
        .variable("GEMINI_API_KEY", "sk-secret-2");
    let statuses = json!(machine.installed().statuses());
    assert!(!statuses.to_string().contains("sk-secret"), "{statuses}");
    let ready: Vec<(&str, bool)> = statuses
        .as_array()
        .unwrap()
        .iter()
        .map(|status| (status["engine"].as_str().unwrap(), status["auth_ready"] == true))
        .collect();
    let expected =
        [("codex", true), ("gemini", false), ("opencode", false), ("iflow", false), ("claude", false), ("qwen", false)];
    assert_eq!(ready, [&expected[..], &[("script", true)]].concat());
}

#[test]
fn opencode_is_asked_for_its_models_and_where_it_fails_the_snapshot_answers() {
    let machine = Machine::new();
    let tells = r#"case "$1" in models) echo "a remark"; echo p/one; echo p/two;; *) echo 1.18.33;; esac"#;
    machine.script("bin/opencode", tells);
    let told = machine.installed().models(engine("opencode"));
    let ids: Vec<&str> = told.models.iter().map(|model| model.id.as_str()).collect();
    assert_eq!((told.source, ids), (ListSource::Cli, vec!["p/one", "p/two"]));

    machine.script("bin/opencode", r#"case "$1" in models) exit 1;; *) echo 1.18.33;; esac"#);
    let told = machine.installed().models(engine("opencode"));
    assert_eq!((told.source, told.snapshot_version.as_deref()), (ListSource::Snapshot, Some("1.18.33")));
    assert_eq!(told.fallback_reason.as_deref(), Some("opencode models failed (exit status: 1)"));
    assert!(!told.models.is_empty());
}

#[test]
fn an_upgrade_installs_the_pinned_version_and_keeps_its_log() {
    let machine = Machine::new().variable("OPENAI_API_KEY", "sk-secret").variable("npm_config_registry", "http://r");
    machine.script("bin/npm", FAKE_NPM);
    let installed = machine.installed();
    let upgrade = ended(&installed, &installed.upgrade(&[engine("gemini")]).unwrap());
    assert_eq!(upgrade.status, UpgradeStatus::Succeeded, "{upgrade:?}");
    let result = json!(upgrade.results["gemini"]);
    let package = "@google/gemini-cli@0.61.0";
    assert_eq!(
        result,
        json!({"status": "succeeded", "package": package, "cli_version_detected": "0.61.0", "message": null})
    );
    let log = installed.upgrade_log_tail(upgrade.upgrade_id).unwrap();
    assert!(log.contains("npm is at work\n") && log.contains("gemini: 0.61.0 is installed\n"), "{log}");
    let found = installed.find(engine("gemini")).unwrap();
    assert_eq!((found.version.as_str(), found.source), ("0.61.0", Source::Managed));
    let args = fs::read_to_string(machine.path("bin/npm.args")).unwrap();
    assert!(args.starts_with(&format!("install --prefix {} ", machine.path("data/npm").display())), "{args}");
    // Packages run scripts when they are installed: keys are none of their business.
    let env = fs::read_to_string(machine.path("bin/npm.env")).unwrap();
    assert!(env.contains("npm_config_registry") && !env.contains("OPENAI_API_KEY"), "{env}");
}

#[test]
fn an_upgrade_that_fails_says_why_and_the_others_go_on() {
    let machine = Machine::new();
    machine.script("bin/npm", FAKE_NPM);
    let installed = machine.installed();
    let upgrade = ended(&installed, &installed.upgrade(&["opencode", "claude", "gemini"].map(engine)).unwrap());
    assert_eq!(upgrade.status, UpgradeStatus::Failed);
    let said = |name: &str| (upgrade.results[name].status, upgrade.results[name].message.clone().unwrap_or_default());
    assert_eq!(said("opencode").1, "npm failed (exit status: 1); see the log");
    assert!(said("claude").1.contains("its program is not at the expected place"), "{upgrade:?}");
    assert_eq!(said("gemini"), (UpgradeStatus::Succeeded, String::new()));
    assert!(installed.upgrade_log_tail(upgrade.upgrade_id).unwrap().contains("no such package"));
    // Without npm there is nothing to do; said at once, and in the log.
    let bare = Machine::new().variable("PATH", "/nowhere");
    let upgrade = ended(&bare.installed(), &bare.installed().upgrade(&[engine("gemini")]).unwrap());
    assert!(upgrade.results["gemini"].message.as_ref().unwrap().starts_with("npm is not on the PATH"), "{upgrade:?}");
    let refused = bare.installed().upgrade(&[engine("iflow")]).unwrap_err();
    assert!(matches!(refused, UpgradeRefused::NotInstallable { .. }), "{refused}");
}

#[test]
fn upgrades_run_one_at_a_time_and_no_more_than_a_few_wait() {
    let machine = Machine::new();
    let (lock, gate) = (machine.path("lock").display().to_string(), machine.path("gate").display().to_string());
    // It fails when another is at work, and works until the gate is open.
    machine.script(
        "bin/npm",
        &format!("mkdir {lock} || exit 9; while [ ! -e {gate} ]; do sleep 0.05; done; rmdir {lock}; {FAKE_NPM}"),
    );
    // Two services of one data folder would be two processes; two handles share no more than they would.
    let (one, two) = (machine.installed(), machine.installed());
    let mut begun = Vec::new();
    for _ in 0..8 {
        begun.push(one.upgrade(&[engine("gemini")]).unwrap());
    }
    assert!(matches!(one.upgrade(&[engine("gemini")]), Err(UpgradeRefused::Busy { limit: 8 })));
    begun.push(two.upgrade(&[engine("gemini")]).unwrap());
    fs::write(machine.path("gate"), "").unwrap();
    for upgrade in &begun {
        let ended = ended(&two, upgrade);
        assert_eq!(ended.status, UpgradeStatus::Succeeded, "{ended:?}");
    }
}

#[test]
fn an_upgrade_nobody_is_at_any_more_has_failed() {
    let machine = Machine::new();
    machine.script("bin/npm", FAKE_NPM);
    let installed = machine.installed();
    let done = ended(&installed, &installed.upgrade(&[engine("gemini")]).unwrap());
    let record = machine.path("data/engines/upgrades").join(format!("{}.json", done.upgrade_id));
    // As a killed service would have left it.
    let mut left: Value = serde_json::from_slice(&fs::read(&record).unwrap()).unwrap();
    left["status"] = json!("running");
    left["results"]["gemini"]["status"] = json!("running");
    // The thread that carried it out may hold its lock for a moment longer.
    let deadline = Instant::now() + LONG;
    let found = loop {
        fs::write(&record, left.to_string()).unwrap();
        let found = installed.upgrade_of(done.upgrade_id).unwrap().unwrap();
        if found.status.is_final() {
            break found;
        }
        assert!(Instant::now() < deadline);
    };
    assert_eq!(found.status, UpgradeStatus::Failed);
    assert!(found.results["gemini"].message.as_ref().unwrap().starts_with("interrupted"), "{found:?}");
    assert_eq!(installed.upgrade_of(uuid::Uuid::now_v7()).unwrap(), None);
}

#[test]
fn the_api_tells_engines_models_and_upgrades() {
    let programs = tempfile::tempdir().unwrap();
    let codex = script(&programs.path().join("codex"), "echo codex-cli 0.166.0").display().to_string();
    let nothing = programs.path().join("nothing").display().to_string();
    let server = Server::with(&[
        ("engines.codex.command", &codex),
        ("engines.gemini.command", &nothing),
        ("engines.opencode.command", &nothing),
        ("engines.claude.command", &nothing),
        ("engines.qwen.command", &nothing),
    ]);
    let engines = server.get("/v1/engines").json();
    let codex = &engines[0];
    let shown = ["engine", "installed", "cli_version_detected", "source", "state"].map(|key| codex[key].clone());
    assert_eq!(json!(shown), json!(["codex", true, "0.166.0", "configured", "active"]));
    assert_eq!(engines[1]["installed"], false);
    let ready = server.get("/v1/engines/auth-status").json();
    assert_eq!((&ready[0]["engine"], ready.as_array().unwrap().len()), (&json!("codex"), 7));

    let models = server.get("/v1/engines/codex/models").json();
    assert_eq!((&models["source"], &models["snapshot_version"]), (&json!("snapshot"), &json!("0.166.0")));
    assert!(models["models"].as_array().unwrap().iter().all(|model| model["id"].as_str().unwrap().contains('@')));

    let of_scripts = server.get("/v1/engines/script/models").json();
    assert_eq!(
        of_scripts,
        json!({"engine": "script", "cli_version_detected": null, "source": "none", "snapshot_version": null,
            "fallback_reason": "scripts run without a model", "models": []})
    );

    let snapshot = json!({"models": [{"id": "mine", "efforts": ["low"]}]});
    let added = server.post("/v1/engines/codex/models/snapshots", &snapshot);
    assert_eq!((added.status, &added.json()["snapshots"][0]["origin"]), (201, &json!("added")));
    assert_eq!(server.get("/v1/engines/codex/models").json()["models"][0]["id"], "mine@low");
    let manifest = server.get("/v1/engines/codex/models/manifest").json();
    assert_eq!(manifest["snapshots"], json!([{"cli_version": "0.166.0", "origin": "added", "models": 1}]));

    let id = uuid::Uuid::now_v7();
    for (method, path, body, expected) in [
        ("GET", "/v1/engines/none/models".to_owned(), json!(null), (404, "ENGINE_NOT_FOUND")),
        ("GET", "/v1/engines/%ff/models".to_owned(), json!(null), (400, "INVALID_REQUEST")),
        ("POST", "/v1/engines/none/models/snapshots".to_owned(), snapshot, (404, "ENGINE_NOT_FOUND")),
        ("POST", "/v1/engines/codex/models/snapshots".to_owned(), json!({"models": []}), (400, "INVALID_REQUEST")),
        ("GET", format!("/v1/engines/upgrades/{id}"), json!(null), (404, "UPGRADE_NOT_FOUND")),
        ("GET", "/v1/engines/upgrades/..%2f..%2fx".to_owned(), json!(null), (404, "UPGRADE_NOT_FOUND")),
        ("POST", "/v1/engines/upgrades".to_owned(), json!({"mode": "single"}), (400, "INVALID_REQUEST")),
        (
            "POST",
            "/v1/engines/upgrades".to_owned(),
            json!({"mode": "single", "engine": "none"}),
            (404, "ENGINE_NOT_FOUND"),
        ),
        (
            "POST",
            "/v1/engines/upgrades".to_owned(),
            json!({"mode": "single", "engine": "iflow"}),
            (400, "INVALID_REQUEST"),
        ),
    ] {
        let answer = if method == "GET" { server.get(&path) } else { server.post(&path, &body) };
        assert_eq!(answer.refusal(), (expected.0, expected.1.to_owned()), "{method} {path}");
    }
}

#[test]
fn an_upgrade_asks_for_the_login_of_the_user_interface() {
    let server = Server::with(&[
        ("ui_basic_auth_enabled", "on"),
        ("ui_basic_auth_username", "me"),
        ("ui_basic_auth_password", "secret"),
    ]);
    // A body that installs nothing: the login is looked at first.
    let body = json!({"mode": "single", "engine": "iflow"});
    let ask = |header: &str| {
        let call = server.call("POST", "/v1/engines/upgrades").json(&body);
        call.header("authorization", header).send().refusal()
    };
    for wrong in ["Basic bWU6d3Jvbmc=", "Basic %", "Bearer secret", ""] {
        assert_eq!(ask(wrong), (401, "UNAUTHORIZED".to_owned()), "{wrong}");
    }
    assert_eq!(ask("Basic bWU6c2VjcmV0"), (400, "INVALID_REQUEST".to_owned()));
    assert_eq!(server.get("/v1/engines/auth-status").status, 200);
}
