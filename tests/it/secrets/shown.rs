//! A secret that an engine left in its run's folder is in no answer, no bundle and no export.

use std::io::Read;

use serde_json::{Value, json};

use crate::support::Server;

const CANARY: &str = "canary-5f1c-secret";

/// Where engines, and programs they start, keep configuration in their working folder.
const HIDDEN: [&str; 22] = [
    ".claude/settings.json",
    ".claude/settings.local.json",
    ".claude/skills/loose.json",
    ".mcp.json",
    ".codex/config.toml",
    ".codex/auth.json",
    ".codex/sessions/2026/rollout.jsonl",
    ".gemini/settings.json",
    ".gemini/.env",
    ".qwen/settings.json",
    ".iflow/settings.json",
    ".opencode/opencode.json",
    ".opencode/plugin/notify.js",
    ".script/skills/planter/assets/codex_config.toml",
    ".script/skills/planter/assets/claude_settings.json",
    "opencode.json",
    ".env",
    ".git/config",
    "logs/engine_config.json",
    "logs/debug.log",
    "bundle/mine.zip",
    "work/notes.txt",
];

/// A server with a finished run whose script planted the secret everywhere; its request id and run id.
fn planted(debug: bool) -> (Server, String, String) {
    let server = Server::start();
    let plant: String = HIDDEN
        .iter()
        .map(|path| format!("mkdir -p $(dirname '{path}') && printf '{{\"token\":\"%s\"}}' {CANARY} > '{path}'\n"))
        .collect();
    let sh = format!(
        "cat >/dev/null\n{plant}printf shown > artifacts/a.txt\nln -s ../.env artifacts/link\n\
         echo '{{\"success\":true,\"action\":\"run\",\"data\":{{}}}}'\n"
    );
    server.skill("planter", &sh, json!({}));
    // The script is a file of the skill, which is shown, so the secret must not stand in it as it is looked for.
    let script = server.folder.path().join("skills/planter/scripts/run.sh");
    let hidden = std::fs::read_to_string(&script).unwrap().replace(CANARY, "$(echo canary-5f1c)-secret");
    std::fs::write(&script, hidden).unwrap();
    let (request, run) = server.create_with(&json!({"skill_id": "planter", "runtime_options": {"debug": debug}}));
    server.finish(&run);
    for path in HIDDEN {
        // What the script put in the place of the bundle was moved aside.
        let path = if path.starts_with("bundle/") { format!(".aside-1-{path}") } else { path.to_owned() };
        let text = std::fs::read_to_string(server.run_dir(&run).join(&path)).unwrap();
        assert!(text.contains(CANARY), "the test planted nothing at {path}");
    }
    (server, request, run)
}

fn holds_canary(bytes: &[u8]) -> bool {
    bytes.windows(CANARY.len()).any(|window| window == CANARY.as_bytes())
}

/// Every file of a zip, so that nothing hides behind compression.
fn unzipped(bytes: &[u8]) -> Vec<(String, Vec<u8>)> {
    let mut archive = zip::ZipArchive::new(std::io::Cursor::new(bytes)).unwrap();
    (0..archive.len())
        .map(|at| {
            let mut file = archive.by_index(at).unwrap();
            let mut content = Vec::new();
            file.read_to_end(&mut content).unwrap();
            (file.name().unwrap().into_owned(), content)
        })
        .collect()
}

#[test]
fn no_route_of_a_run_shows_what_an_engine_keeps_in_its_folder() {
    for debug in [false, true] {
        let (server, request, run) = planted(debug);
        let of_job = [
            "",
            "/result",
            "/artifacts",
            "/bundle",
            "/explain",
            "/export",
            "/logs",
            "/logs/range?stream=stdout",
            "/logs/range?stream=stderr",
            "/events?cursor=0",
            "/events/history",
            "/explain/cache",
        ];
        let of_management = ["", "/files", "/events/history", "/logs/range?stream=stdout", "/explain"];
        let mut routes: Vec<String> = of_job.iter().map(|rest| format!("/v1/jobs/{request}{rest}")).collect();
        routes.extend(of_management.iter().map(|rest| format!("/v1/management/runs/{run}{rest}")));
        routes.extend(["/v1/jobs".to_owned(), "/v1/skills/planter".to_owned(), "/v1/system".to_owned()]);
        for path in HIDDEN {
            routes.push(format!("/v1/management/runs/{run}/file?path={path}"));
            routes.push(format!("/v1/jobs/{request}/artifacts/{path}"));
        }
        for route in routes {
            let answer = server.get(&route);
            assert!(!holds_canary(&answer.body), "{route} shows the secret");
            if answer.body.starts_with(b"PK") {
                for (name, content) in unzipped(&answer.body) {
                    assert!(!holds_canary(&content), "{name} in {route} shows the secret");
                    assert!(!HIDDEN.contains(&name.as_str()), "{name} is in {route}");
                }
            }
        }
    }
}

#[test]
fn a_hidden_file_is_refused_with_its_own_code_and_not_listed_and_what_a_run_shows_is() {
    let (server, _, run) = planted(true);
    let show = |path: &str| server.get(&format!("/v1/management/runs/{run}/file?path={path}"));
    for path in HIDDEN.into_iter().chain([".claude/missing.json", "missing.txt", ".codex/sessions"]) {
        assert_eq!(show(path).refusal(), (403, "FILE_NOT_SHOWN".to_owned()), "{path}");
    }
    let tree = server.get(&format!("/v1/management/runs/{run}/files")).json();
    let listed: Vec<&str> =
        tree["files"].as_array().unwrap().iter().map(|entry| entry["path"].as_str().unwrap()).collect();
    for path in HIDDEN {
        assert!(!listed.contains(&path), "{path} is listed");
    }
    for (path, content) in [("artifacts/a.txt", "shown"), (".script/skills/planter/SKILL.md", "A test skill.")] {
        assert!(listed.contains(&path), "{path} is not listed: {listed:?}");
        let shown: Value = show(path).json();
        assert!(shown["content"].as_str().unwrap().contains(content), "{shown}");
    }
}
