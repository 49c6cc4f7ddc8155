//! The clients in `clients/`: their types are those of the document, and their own tests run against a real service.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;

use crate::interactive::pose::{Pose, says};
use crate::interactive::service::Service;
use crate::support::openapi::DOCUMENT;
use crate::support::{script_skill, tools};

/// Longest time for the tests of one client on a loaded machine; alone they take 20 seconds.
const LONGEST: &str = "900";
/// Writes many events while it is followed, and a file that is worth resuming.
const TALKS: &str = r#"cat >/dev/null
n=0
while [ $n -lt 300 ]; do
  n=$((n + 1))
  echo "$((n % 100))% line $n of many, as long as a line of a log is" >&2
  [ $((n % 20)) = 0 ] && sleep 0.05
done
mkdir -p artifacts
head -c 1500000 /dev/urandom > artifacts/big.bin
echo '{"success":true,"data":{"n":1}}'
"#;
const UPDATE: &str = "run: UPDATE_DOCS=1 cargo test --test it -- openapi::the_committed clients::the_types";

fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// A service with the skills that the tests of the clients use.
fn service(folder: &Path, pose: &Pose) -> Service {
    let skills = folder.join("skills");
    fs::create_dir(&skills).unwrap();
    for name in ["demo-echo", "demo-fail-exit", "demo-interview", "demo-prime-number"] {
        tools::succeeds(Command::new("cp").arg("-r").arg(repository("skills").join(name)).arg(&skills));
    }
    let input = json!({"type": "object", "properties": {"n": {"type": "integer", "x-input-source": "inline"}}});
    script_skill(&skills, "talks", TALKS, json!({ "input": input }));
    pose.plays(&[says("What is your name?"), says(r#"{"name": "Ann", "colour": "red", "__SKILL_DONE__": true}"#)]);
    Service::start(folder, pose)
}

/// Runs the tests of a client against a service.
fn tests(program: &Path, prepare: impl FnOnce(&mut Command, &Path)) {
    let (folder, pose) = (tempfile::tempdir().unwrap(), Pose::new());
    let service = service(folder.path(), &pose);
    let mut command = Command::new("timeout");
    command
        .args(["--kill-after=10", LONGEST])
        .arg(program)
        .env("SKILL_RUNNER_URL", format!("http://{}", service.address));
    prepare(&mut command, folder.path());
    tools::succeeds(&mut command);
}

#[test]
fn the_python_client_loses_and_doubles_nothing_while_its_connections_are_cut() {
    let Some(python) = tools::python("the Python client") else { return };
    tests(&python, |command, _| {
        command.args(["-m", "unittest", "discover", "--start-directory", "tests"]);
        command.env("PYTHONPATH", "src").env("PYTHONDONTWRITEBYTECODE", "1").current_dir(repository("clients/python"));
    });
}

#[test]
fn the_types_of_the_python_client_hold() {
    let Some(python) = tools::python("the types of the Python client") else { return };
    let cache = tempfile::tempdir().unwrap();
    let mut mypy = Command::new(python);
    mypy.args(["-m", "mypy", "--cache-dir"]).arg(cache.path()).current_dir(repository("clients/python"));
    tools::succeeds(&mut mypy);
}

#[test]
fn the_typescript_client_loses_and_doubles_nothing_while_its_connections_are_cut() {
    let Some(packages) = tools::typescript("the TypeScript client") else { return };
    let package = repository("clients/typescript");
    tests(Path::new("node"), |command, folder| {
        let built = folder.join("built");
        tools::build_typescript(&packages, &built);
        command.args(["--test", "--test-timeout=600000"]).arg(package.join("test/client.test.mjs"));
        command.env("SKILL_RUNNER_CLIENT", built);
    });
}

/// The blocks of a page in a language, for a service at this address.
fn examples(language: &str, service: &Service) -> String {
    let page = fs::read_to_string(repository("docs/clients.md")).unwrap();
    let begin = format!("```{language}\n");
    let blocks = page.split(&begin).skip(1).map(|block| block.split("```").next().unwrap());
    blocks.collect::<Vec<_>>().join("\n").replace("127.0.0.1:8000", &service.address.to_string())
}

/// What a program says in a folder of its own; each of these must be in it, in this order.
fn says_in_order(program: &mut Command, place: &Path, wanted: &[&str]) {
    let ran = program.current_dir(place).output().unwrap();
    let told = String::from_utf8_lossy(&ran.stdout);
    assert!(ran.status.success(), "{program:?}: {told}{}", String::from_utf8_lossy(&ran.stderr));
    let mut rest = &*told;
    for shown in wanted {
        rest = rest.split_once(shown).unwrap_or_else(|| panic!("no {shown:?} in {told}")).1;
    }
}

#[test]
fn the_examples_of_the_page_about_clients_work_one_after_the_other() {
    let (folder, pose) = (tempfile::tempdir().unwrap(), Pose::new());
    let service = service(folder.path(), &pose);
    let place = folder.path().join("examples");
    fs::create_dir(&place).unwrap();
    let mut shell = Command::new("sh");
    shell.args(["-e", "-c", &examples("sh", &service)]);
    says_in_order(&mut shell, &place, &["id: ", "curl: [", "# Prime numbers"]);
    let unknown = "SKILL_NOT_FOUND - GET /v1/skills lists";
    if let Some(python) = tools::python("the Python examples of docs/clients.md") {
        let mut python = Command::new(python);
        python.args(["-c", &examples("python", &service)]).env("PYTHONPATH", repository("clients/python/src"));
        python.env("PYTHONDONTWRITEBYTECODE", "1");
        says_in_order(&mut python, &place, &["python: succeeded [", "progress ", unknown, "async: ['one', 'two']"]);
        assert!(fs::read_to_string(place.join("primes.md")).unwrap().starts_with("# Prime numbers"));
    }
    if let Some(packages) = tools::typescript("the JavaScript examples of docs/clients.md") {
        let installed = place.join("node_modules/skill-runner-client");
        tools::build_typescript(&packages, &installed.join("dist"));
        fs::rename(installed.join("dist/package.json"), installed.join("package.json")).unwrap();
        fs::write(place.join("example.mjs"), examples("js", &service)).unwrap();
        let wanted = ["node: succeeded [", "progress ", "# Prime numbers", unknown];
        says_in_order(Command::new("node").arg("example.mjs"), &place, &wanted);
    }
}

/// The client of our own commands: `src/cli/connect/calls.rs`.
#[test]
fn commands_know_paths_of_the_api_in_one_file_alone_and_the_document_has_them_all() {
    fn sources(folder: &Path, found: &mut Vec<(PathBuf, String)>) {
        for path in fs::read_dir(folder).unwrap().flatten().map(|entry| entry.path()) {
            if path.is_dir() {
                sources(&path, found);
            } else {
                found.push((path.clone(), fs::read_to_string(&path).unwrap()));
            }
        }
    }
    let mut found = Vec::new();
    sources(&repository("src/cli"), &mut found);
    let (calls, others): (Vec<_>, Vec<_>) = found.into_iter().partition(|(path, _)| path.ends_with("connect/calls.rs"));
    for (path, text) in others {
        for begin in ["\"/jobs", "\"/engines", "\"/system", "\"/backups"] {
            assert!(!text.contains(begin), "{} has {begin}", path.display());
        }
    }
    let text = &calls[0].1;
    let until = |rest: &str| rest.split(['"', '?']).next().unwrap().to_owned();
    let below = ["of(run, \"", "of(run, &format!(\"", "let asked = format!(\""];
    let of_run =
        below.iter().flat_map(|begin| text.split(begin).skip(1)).map(until).map(|rest| format!("/jobs/{{id}}{rest}"));
    let whole = ["self.get(\"", "self.post(\"", "self.get(&format!(\""]
        .iter()
        .flat_map(|begin| text.split(begin).skip(1))
        .map(until);
    let paths: Vec<String> =
        of_run.chain(whole.map(|path| path.replace("engines/{}", "engines/{engine}").replace("{}", "{id}"))).collect();
    assert!(paths.len() > 18, "{paths:?}");
    for path in paths {
        assert!(DOCUMENT["paths"].get(format!("/v1{path}")).is_some(), "the document has no {path}");
    }
}

/// What is made of the document is committed; nobody needs the generators to use a client.
#[test]
fn the_types_of_the_clients_are_those_of_the_document() {
    let Some(packages) = tools::typescript("the types of the clients against the document") else { return };
    let made = tempfile::tempdir().unwrap();
    let document = made.path().join("openapi.json");
    fs::write(&document, DOCUMENT.to_string()).unwrap();
    let mut generate = Command::new("python3");
    tools::succeeds(generate.arg(repository("clients/generate.py")).arg(&document).arg(made.path()));
    let mut types = Command::new(packages.join("node_modules/.bin/openapi-typescript"));
    types.arg(made.path().join("typescript/build/schemas.json"));
    types.args(["--root-types", "--root-types-no-schema-prefix", "--empty-objects-unknown", "--output"]);
    tools::succeeds(types.arg(made.path().join("typescript/src/api.ts")));
    for file in [
        "python/src/skill_runner_client/types.py",
        "python/src/skill_runner_client/_codes.py",
        "typescript/src/codes.ts",
        "typescript/src/api.ts",
    ] {
        let (new, committed) = (fs::read(made.path().join(file)).unwrap(), repository("clients").join(file));
        if std::env::var_os("UPDATE_DOCS").is_some() {
            fs::write(&committed, &new).unwrap();
        }
        assert!(
            fs::read(&committed).is_ok_and(|found| found == new),
            "clients/{file} differs from the document; {UPDATE}"
        );
    }
    let manifest = fs::read_to_string(repository("clients/typescript/package.json")).unwrap();
    for package in tools::TYPESCRIPT {
        let (name, version) = package.rsplit_once('@').unwrap();
        assert!(manifest.contains(&format!("\"{name}\": \"{version}\"")), "package.json has another {package}");
    }
}
