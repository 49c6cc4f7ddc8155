//! The user interface: what is served, its vendored libraries, its languages, and the pages themselves in a real browser.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::support::{SHIPPED, Server, clis, left_out, tools};

/// What the tests in the browser need of npm, once per machine.
const PACKAGES: [&str; 2] = ["playwright-core@1.65.1", "axe-core@4.14.0"];

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// The files of the interface that are ours, by path.
fn sources() -> BTreeMap<String, String> {
    fn find(root: &Path, folder: &Path, found: &mut BTreeMap<String, String>) {
        for entry in fs::read_dir(folder).unwrap().flatten() {
            let path = entry.path();
            if path.is_dir() && path.file_name().is_some_and(|name| name != "vendor") {
                find(root, &path, found);
            } else if path.is_file() {
                let name = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
                found.insert(name, fs::read_to_string(&path).unwrap());
            }
        }
    }
    let mut found = BTreeMap::new();
    find(&folder("ui"), &folder("ui"), &mut found);
    found
}

#[test]
fn pages_and_files_are_served_with_a_policy_that_allows_nothing_foreign_inline_or_evaluated() {
    // Whoever has no token sees the pages, and no data in them.
    let server = Server::with(&[("token", "t0ken")]);
    let shell = fs::read_to_string(folder("ui/index.html")).unwrap();
    for path in ["/ui", "/ui/", "/ui/skills/demo-echo/run?from=x", "/ui/runs/0192f0c1-2d3e-7f40-8a51-6b7c8d9e0f11"] {
        // Whoever has to log in is told so, and gets the page that asks.
        let answer = server.get(path);
        assert_eq!((answer.status, answer.text()), (401, shell.clone()), "{path}");
        assert_eq!(answer.header("content-type"), "text/html; charset=utf-8", "{path}");
        let answer = server.call("GET", path).header("authorization", "Bearer t0ken").send();
        assert_eq!((answer.status, answer.text()), (200, shell.clone()), "{path}");
        assert_eq!(answer.header("content-type"), "text/html; charset=utf-8", "{path}");
    }
    let types = [("app.js", "text/javascript; charset=utf-8"), ("style/tokens.css", "text/css; charset=utf-8")];
    for (path, content_type) in
        [&types[..], &[("locales/zh.json", "application/json"), ("icon.svg", "image/svg+xml")]].concat()
    {
        let answer = server.get(&format!("/ui/static/{path}"));
        assert_eq!((answer.status, answer.header("content-type")), (200, content_type), "{path}");
        assert_eq!(answer.body, fs::read(folder("ui").join(path)).unwrap(), "{path}");
        let policy = answer.header("content-security-policy");
        assert!(policy.starts_with("default-src 'none'; script-src 'self'; style-src 'self'; "), "{policy}");
        assert!(!policy.contains("unsafe") && !policy.contains("http"), "{policy}");
        assert_eq!(answer.header("x-content-type-options"), "nosniff");
        let tag = answer.header("etag").to_owned();
        let again = server.call("GET", &format!("/ui/static/{path}")).header("if-none-match", &tag).send();
        assert_eq!((again.status, again.body.len(), again.header("etag")), (304, 0, tag.as_str()), "{path}");
    }
    for path in ["/ui/static/nothing.js", "/ui/static/../Cargo.toml", "/ui/static/%2e%2e/Cargo.toml", "/ui/static/lib"]
    {
        assert_eq!(server.get(path).status, 404, "{path}");
    }
    assert_eq!(server.get("/v1/management/skills").status, 401, "data needs the token");
}

#[test]
fn files_are_sent_packed_to_whoever_can_unpack_them() {
    let server = Server::with(&[("token", "t0ken")]);
    let unpacked = |packed: &[u8]| {
        let mut content = Vec::new();
        flate2::read::GzDecoder::new(packed).read_to_end(&mut content).unwrap();
        content
    };
    for (path, status, file) in [("/ui/static/app.js", 200, "app.js"), ("/ui", 401, "index.html")] {
        let content = fs::read(folder("ui").join(file)).unwrap();
        let (plain, packed) =
            (server.get(path), server.call("GET", path).header("accept-encoding", "br, gzip;q=0.5").send());
        assert_eq!((plain.status, plain.header("vary"), &plain.body), (status, "accept-encoding", &content), "{path}");
        assert_eq!(plain.header("content-encoding"), "", "{path}");
        assert_eq!((packed.status, packed.header("vary")), (status, "accept-encoding"), "{path}");
        assert_eq!((packed.header("content-encoding"), unpacked(&packed.body)), ("gzip", content), "{path}");
        assert_eq!(packed.header("content-type"), plain.header("content-type"), "{path}");
        assert_eq!(packed.header("content-length"), packed.body.len().to_string(), "{path}");
        assert!(packed.body.len() < plain.body.len(), "{path}");
    }
    // Other bytes have another tag, so that no cache takes one for the other.
    let call = |headers: [(&str, &str); 2]| {
        let call = server.call("GET", "/ui/static/app.js");
        headers.into_iter().fold(call, |call, (name, value)| call.header(name, value)).send()
    };
    let tags = ["identity", "gzip"]
        .map(|coding| call([("accept-encoding", coding), ("if-none-match", "none")]).header("etag").to_owned());
    let status = |coding, tag: &str| call([("accept-encoding", coding), ("if-none-match", tag)]).status;
    assert_eq!(
        ["identity", "gzip"].map(|coding| [&tags[0], &tags[1]].map(|tag| status(coding, tag))),
        [[304, 200], [200, 304]]
    );
}

#[test]
fn front_ends_are_told_what_the_routes_of_skills_and_engines_say_and_more() {
    let server = Server::with(&[SHIPPED]);
    let holds = |told: &Value, plain: &Value| {
        for (name, value) in plain.as_object().unwrap() {
            assert_eq!(&told[name], value, "{name}");
        }
    };
    let (told, plain) = (server.get("/v1/management/skills").json(), server.get("/v1/skills").json());
    assert_eq!(told["skills"].as_array().unwrap().len(), plain["skills"].as_array().unwrap().len());
    for (told, plain) in told["skills"].as_array().unwrap().iter().zip(plain["skills"].as_array().unwrap()) {
        holds(told, plain);
        assert_eq!((&told["effective_engines"], &told["health"]), (&plain["engines"], &json!("ok")));
    }
    let told = server.get("/v1/management/skills/demo-echo").json();
    holds(&told, &server.get("/v1/skills/demo-echo").json());
    let page = fs::read_to_string(folder("skills/demo-echo/SKILL.md")).unwrap();
    assert!(page.ends_with(told["readme"].as_str().unwrap()) && !told["readme"].as_str().unwrap().contains("---\n"));
    assert!(told["files"].as_array().unwrap().contains(&json!("assets/runner.json")), "{told}");
    let schemas = server.get("/v1/management/skills/demo-echo/schemas").json();
    holds(&schemas, &told["schemas"]);
    assert_eq!(server.get("/v1/management/skills/nothing").refusal(), (404, "SKILL_NOT_FOUND".into()));

    let (told, plain) = (server.get("/v1/management/engines").json(), server.get("/v1/engines").json());
    for (told, plain) in told["engines"].as_array().unwrap().iter().zip(plain.as_array().unwrap()) {
        holds(told, plain);
        let models = server.get(&format!("/v1/engines/{}/models", plain["engine"].as_str().unwrap())).json();
        assert_eq!(told["models_count"], json!(models["models"].as_array().unwrap().len()));
    }
    let told = server.get("/v1/management/engines/codex").json();
    assert_eq!(told["models"], server.get("/v1/engines/codex/models").json());
    assert_eq!(server.get("/v1/management/engines/nothing").refusal(), (404, "ENGINE_NOT_FOUND".into()));
}

#[test]
fn every_vendored_library_is_the_one_its_checksum_was_made_of_and_has_its_licence() {
    let vendor = folder("ui/vendor");
    let listed = fs::read_to_string(vendor.join("SHA256SUMS")).unwrap();
    let mut names = BTreeSet::new();
    for line in listed.lines() {
        let (wanted, name) = line.split_once("  ").unwrap();
        let name = name.trim_start_matches("./");
        let found = hex::encode(Sha256::digest(fs::read(vendor.join(name)).unwrap()));
        assert_eq!(found, wanted, "ui/vendor/{name} was changed; scripts/vendor-ui writes it");
        names.insert(name.to_owned());
    }
    let files = fs::read_dir(&vendor).unwrap().flatten().map(|entry| entry.file_name().into_string().unwrap());
    let unlisted: Vec<String> = files.filter(|name| !names.contains(name) && !name.ends_with(".d.ts")).collect();
    assert_eq!(unlisted, ["SHA256SUMS"], "every file has a checksum");
    for library in ["preact", "signals", "signals-core", "htm", "marked", "dompurify", "highlight", "uplot"] {
        assert!(names.contains(&format!("LICENSE.{library}.txt")), "{library} has no licence");
    }
}

#[test]
fn both_languages_have_every_text_that_is_used_and_no_other() {
    let texts = |language: &str| -> BTreeMap<String, String> {
        serde_json::from_slice(&fs::read(folder("ui/locales").join(format!("{language}.json"))).unwrap()).unwrap()
    };
    let (english, chinese) = (texts("en"), texts("zh"));
    let keys = |texts: &BTreeMap<String, String>| texts.keys().cloned().collect::<BTreeSet<_>>();
    assert_eq!(keys(&english), keys(&chinese));
    let holes = |text: &str| -> BTreeSet<String> {
        text.split('{').skip(1).filter_map(|rest| rest.split_once('}')).map(|(name, _)| name.to_owned()).collect()
    };
    for (key, text) in &english {
        assert_eq!(holes(text), holes(&chinese[key]), "{key} has other values to fill in");
    }
    let (mut used, mut families) = (BTreeSet::new(), BTreeSet::new());
    for (path, text) in sources().into_iter().filter(|(path, _)| path.ends_with(".js")) {
        for rest in text.split("t('").skip(1).chain(text.split("key: '").skip(1)) {
            let key = rest.split('\'').next().unwrap();
            if english.contains_key(key) {
                used.insert(key.to_owned());
            } else {
                assert!(
                    !key.contains('.') || key.contains('/') || key.contains(' '),
                    "{path} uses {key}, which has no text"
                );
            }
        }
        // Several keys of a family are made of a name: t(`status.${…}`).
        families.extend(text.split("(`").skip(1).filter_map(|rest| Some(rest.split_once(".${")?.0.to_owned())));
        // One of two keys, chosen where it is used.
        used.extend(english.keys().filter(|key| text.contains(&format!("'{key}'"))).cloned());
    }
    let unused: Vec<&String> = english
        .keys()
        .filter(|key| !used.contains(*key) && !families.iter().any(|family| key.starts_with(family)))
        .collect();
    assert_eq!(unused, Vec::<&String>::new(), "no page has these texts");
}

#[test]
fn no_source_makes_html_of_text_or_names_another_host() {
    for (path, text) in sources() {
        for way in [
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "document.write",
            "dangerouslySetInnerHTML",
            "eval(",
            "new Function",
        ] {
            assert!(!text.contains(way), "ui/{path} has {way}");
        }
        let named: Vec<&str> =
            text.split("://").skip(1).map(|rest| rest.split(['/', '"', '\'', '`', ')']).next().unwrap()).collect();
        let known = |host: &&str| ["www.w3.org", "example.org"].contains(host);
        assert!(named.iter().all(known), "ui/{path} names {named:?}");
    }
}

#[test]
fn the_pages_work_in_a_real_browser() {
    let tests = folder("tests/ui");
    let mut files: Vec<PathBuf> = fs::read_dir(&tests).unwrap().flatten().map(|entry| entry.path()).collect();
    files.retain(|path| path.to_str().unwrap().ends_with(".test.mjs"));
    files.sort();
    let cases: usize = files.iter().map(|path| fs::read_to_string(path).unwrap().matches("test(").count()).sum();
    let chromium = std::env::var("UI_TEST_CHROMIUM").unwrap_or_else(|_| "/usr/bin/chromium".to_owned());
    if clis::left_out(&format!("{cases} tests of the user interface in a browser")) {
        return;
    }
    if !Path::new(&chromium).exists() {
        assert!(std::env::var_os("UI_TEST_REQUIRED").is_none(), "{chromium} is not there");
        left_out::tell(&format!("no {chromium}"), &format!("{cases} tests of the user interface in a browser"));
        return;
    }
    let mut node = Command::new("node");
    node.args(["--test", "--test-concurrency=1", "--test-timeout=300000"]).args(&files);
    node.env("UI_TEST_PACKAGES", packages()).env("UI_TEST_PROGRAM", env!("CARGO_BIN_EXE_skill-runner"));
    let built = tempfile::tempdir().unwrap();
    if let Some(packages) = tools::typescript("the TypeScript client in a browser") {
        tools::build_typescript(&packages, built.path());
        node.env("UI_TEST_CLIENT", built.path());
    }
    let done = node.env("UI_TEST_CHROMIUM", chromium).output().unwrap();
    let said = String::from_utf8_lossy(&done.stdout);
    assert!(done.status.success(), "{said}\n{}", String::from_utf8_lossy(&done.stderr));
    // Figures, past the harness, which shows the output of failed tests alone.
    for line in said.lines().filter(|line| line.contains("100 000 events: ")) {
        let _ = writeln!(std::io::stderr(), "{line}");
    }
}

/// The folder with the packages of npm that the tests in the browser need.
fn packages() -> PathBuf {
    let cache = clis::cache();
    fs::create_dir_all(&cache).unwrap();
    let name = format!("ui-{}", PACKAGES.join("_").replace('@', "-"));
    // Held until the end of this function, by one test of one process; the others find the work done.
    let lock = File::create(cache.join(format!("{name}.lock"))).unwrap();
    lock.lock().unwrap();
    let prefix = cache.join(&name);
    if !prefix.exists() {
        let unfinished = cache.join(format!("{name}.unfinished"));
        let _ = fs::remove_dir_all(&unfinished);
        let mut npm = Command::new("npm");
        npm.args(["install", "--no-audit", "--no-fund", "--loglevel=error", "--ignore-scripts", "--prefix"]);
        let done = npm.arg(&unfinished).args(PACKAGES).output();
        let done = done.unwrap_or_else(|error| panic!("the tests of the user interface need npm: {error}"));
        assert!(done.status.success(), "{PACKAGES:?}: {}", String::from_utf8_lossy(&done.stderr));
        fs::rename(&unfinished, &prefix).unwrap();
    }
    prefix
}
