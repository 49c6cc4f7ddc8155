//! Agent Skills in the open format run, install and are imported, in the shapes that public collections have.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Output;

use serde_json::{Value, json};

use crate::interactive::pose::{Pose, says};
use crate::support::zips::deflated;
use crate::support::{Server, program};

/// Folder, then path and text of each file.
type Shape = (&'static str, &'static [(&'static str, &'static str)]);

/// What is seen in collections: nothing but instructions; references, scripts, templates and assets beside them; keys of
/// other tools; values that are no text; other names; files of Windows; heads that are YAML only for readers that go by lines.
const SHAPES: [Shape; 16] = [
    ("plain", &[("SKILL.md", "---\nname: plain\ndescription: Says hello.\n---\nSay hello.\n")]),
    (
        "with-references",
        &[
            ("SKILL.md", "---\nname: with-references\ndescription: Reads on.\n---\nSee [more](references/more.md).\n"),
            ("references/more.md", "# More\n"),
            ("reference/deep/er.md", "# Deeper\n"),
        ],
    ),
    (
        "with-scripts",
        &[
            (
                "SKILL.md",
                "---\nname: with-scripts\ndescription: Has scripts.\nlicense: Complete terms in LICENSE.txt\n---\nRun scripts/a.py.\n",
            ),
            ("LICENSE.txt", "Terms\n"),
            ("scripts/a.py", "print(1)\n"),
            ("scripts/__init__.py", ""),
        ],
    ),
    (
        "with-templates",
        &[
            ("SKILL.md", "---\nname: with-templates\ndescription: Fills templates.\n---\nUse templates/x.html.\n"),
            ("templates/x.html", "<p>{{ not.a.variable }}</p>\n"),
            ("assets/logo.svg", "<svg/>\n"),
        ],
    ),
    (
        "tool-list",
        &[(
            "SKILL.md",
            "---\nname: tool-list\ndescription: Wants tools.\nallowed-tools: [Read, Grep, 'Bash(git:*)']\n---\nLook.\n",
        )],
    ),
    (
        "other-keys",
        &[(
            "SKILL.md",
            "---\nname: other-keys\ndescription: For another tool.\nmodel: opus\nargument-hint: '[file]'\nuser-invocable: true\nhooks: {Stop: [{command: x}]}\n---\nDo it.\n",
        )],
    ),
    (
        "nested-metadata",
        &[(
            "SKILL.md",
            "---\nname: nested-metadata\ndescription: Has metadata.\nmetadata: {version: 1.2, tags: [a, b], author: {name: Ann}}\n---\nDo it.\n",
        )],
    ),
    ("own-folder", &[("SKILL.md", "---\nname: other-name\ndescription: Is called otherwise.\n---\nDo it.\n")]),
    ("title-name", &[("SKILL.md", "---\nname: Title Name\ndescription: >\n  Is called\n  by a title.\n---\nDo it.\n")]),
    (
        "windows",
        &[("SKILL.md", "\u{feff}---\r\nname: windows\r\ndescription: Written elsewhere.\r\n---\r\n\r\nDo it.\r\n")],
    ),
    (
        "braces",
        &[(
            "SKILL.md",
            "---\nname: braces\ndescription: \"Explains {{ templates }}: and {% blocks %}\"\n---\nWrite `{{ x }}`, `{% if y %}` and {\"a\": 1}.\n",
        )],
    ),
    (
        "no-body",
        &[(
            "SKILL.md",
            "---\nname: no-body\ndescription: The description says it all.\ncompatibility: Needs git\n---\n",
        )],
    ),
    (
        "bare-colons",
        &[(
            "SKILL.md",
            "---\nname: bare-colons\ndescription: Use it when: the user asks \"why?\"\nargument-hint: [file] [more]\n---\nDo it.\n",
        )],
    ),
    (
        "tools-in-words",
        &[(
            "SKILL.md",
            "---\nname: tools-in-words\ndescription: |\n  Wants tools.\n  And says so.\nallowed-tools: Bash(git:*) Read\nmetadata:\n  author: ann\n  version: '2'\n---\nLook.\n",
        )],
    ),
    ("no-name", &[("SKILL.md", "---\ndescription: Is called by its folder.\n---\nDo it.\n")]),
    (
        "many-folders",
        &[
            (
                "SKILL.md",
                "---\nname: many-folders\ndescription: Has it all.\nlicense: Apache-2.0\n---\n# Many\n\nSee below.\n",
            ),
            ("LICENSE", "Terms\n"),
            ("NOTICE.md", "Notices\n"),
            (".gitignore", "*.pyc\n"),
            ("core/schemas/one/two/three.xsd", "<xsd/>\n"),
            ("examples/SKILL.md", "---\nname: example\ndescription: An example.\n---\nNot a skill of its own.\n"),
            ("scripts/package.json", "{\"name\": \"x\"}\n"),
            ("requirements.txt", "requests\n"),
        ],
    ),
];

fn write(skills: &Path) {
    for (folder, files) in SHAPES {
        for (path, text) in files {
            let path = skills.join(folder).join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
    }
    let scripts = skills.join("with-scripts");
    fs::set_permissions(scripts.join("scripts/a.py"), fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(scripts.join("logo.png"), NO_TEXT).unwrap();
}

/// An image.
const NO_TEXT: [u8; 6] = [0x89, b'P', b'N', b'G', 0xff, 0];

/// What a skill of a shape holds: its files, each with a star behind it if it can be executed.
fn files_of(folder: &str) -> Vec<String> {
    let (_, files) = SHAPES.iter().find(|(other, _)| *other == folder).unwrap();
    let mut names: Vec<String> = files.iter().map(|(path, _)| (*path).to_owned()).collect();
    if folder == "with-scripts" {
        names.push("logo.png".to_owned());
        names.iter_mut().filter(|name| *name == "scripts/a.py").for_each(|name| name.push('*'));
    }
    names.sort();
    names
}

fn cli(folder: &Path, pose: &Pose, args: &[&str]) -> Output {
    let mut program = program();
    program
        .args(args)
        .current_dir(folder)
        .env("SKILL_RUNNER_CODEX_BIN", pose.command())
        .env("SKILL_RUNNER_SANDBOX_WRITE", pose.folder());
    program.env("SKILL_RUNNER_MIN_FREE_BYTES", "0").output().unwrap()
}

#[track_caller]
fn ok(output: &Output) -> String {
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{out}{err}");
    out.into_owned()
}

fn json_of(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"))
}

#[test]
fn a_folder_with_skill_md_alone_runs_on_its_prompt_and_files_and_gives_its_message_and_artifacts() {
    let (place, pose) = (tempfile::tempdir().unwrap(), Pose::new());
    write(place.path());
    fs::write(place.path().join("plan.txt"), "the plan").unwrap();
    pose.plays(&[says("It is done.\n\nSee the report.")]);
    pose.runs_after(1, "mkdir -p artifacts/deep && echo report > artifacts/deep/report.md");
    for (folder, _) in SHAPES {
        let skill = format!("./{folder}");
        let args = ["run", &skill, "--engine", "codex", "--input", "prompt=do it", "--json", "--no-cache"];
        let ran = json_of(&cli(place.path(), &pose, &args));
        assert_eq!(ran["result"]["data"], json!({"message": "It is done.\n\nSee the report."}), "{folder}: {ran:#}");
        assert_eq!(ran["result"]["artifacts"][0]["path_rel"], "artifacts/deep/report.md", "{folder}: {ran:#}");
    }
    let session = fs::read_dir(pose.sessions()).unwrap().next().unwrap().unwrap().file_name().into_string().unwrap();
    let told = &pose.told(&session)[0];
    assert!(told.contains("do it") && told.contains("end with a message that tells the result"), "{told}");
    assert!(!told.contains("Output schema"), "{told}");

    // Files are named to it; JSON in its message is the result.
    pose.plays(&[says("Here:\n```json\n{\"pages\": 2}\n```")]);
    let args = ["run", "./plain", "--engine", "codex", "--input", "prompt=x", "--file", "files=plan.txt", "--json"];
    let ran = json_of(&cli(place.path(), &pose, &args));
    assert_eq!(ran["result"]["data"], json!({"pages": 2}), "{ran:#}");
    let sessions =
        fs::read_dir(pose.sessions()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let told: Vec<String> = sessions.flat_map(|session| pose.told(&session)).collect();
    assert_eq!(told.iter().filter(|told| told.contains("/uploads/plan.txt\"")).count(), 1);

    let refused = cli(place.path(), &pose, &["run", "./plain", "--engine", "codex"]);
    assert_eq!(refused.status.code(), Some(5), "{refused:?}");
    assert!(String::from_utf8_lossy(&refused.stderr).contains("prompt"), "{refused:?}");
}

#[test]
fn a_skill_in_the_open_format_is_imported_as_a_whole_package_and_lint_names_the_way() {
    let (place, pose) = (tempfile::tempdir().unwrap(), Pose::new());
    write(&place.path().join("collection/skills"));
    let linted = ok(&cli(place.path(), &pose, &["skill", "lint", "collection/skills/plain"]));
    assert!(linted.contains("skill-runner skill import") && linted.contains("plain 0.0.0 is ok"), "{linted}");

    // A folder of many, a zip of it, one by itself.
    ok(&cli(place.path(), &pose, &["skill", "import", "collection"]));
    for (folder, files) in SHAPES {
        let linted = cli(place.path(), &pose, &["skill", "lint", &format!("skills/{folder}"), "--json"]);
        assert_eq!(json_of(&linted)["ok"], true, "{linted:?}");
        for (path, text) in files.iter().filter(|(path, _)| *path != "SKILL.md") {
            assert_eq!(fs::read_to_string(place.path().join("skills").join(folder).join(path)).unwrap(), *text);
        }
    }
    let runner = |folder: &str| {
        let text = fs::read_to_string(place.path().join("skills").join(folder).join("assets/runner.json")).unwrap();
        serde_json::from_str::<Value>(&text).unwrap()
    };
    assert_eq!((&runner("nested-metadata")["version"], &runner("plain")["id"]), (&json!("1.2.0"), &json!("plain")));
    pose.plays(&[says("Imported.")]);
    let args = ["run", "own-folder", "--engine", "codex", "--input", "prompt=x", "--json"];
    assert_eq!(json_of(&cli(place.path(), &pose, &args))["result"]["data"], json!({"message": "Imported."}));

    let zip = deflated(&[("My Skills/Plain!/SKILL.md", b"---\nname: zipped\ndescription: In a zip.\n---\nDo it.\n")]);
    fs::write(place.path().join("skills.zip"), zip).unwrap();
    ok(&cli(place.path(), &pose, &["skill", "import", "skills.zip", "--into", "drafts"]));
    assert!(place.path().join("drafts/zipped/assets/input.schema.json").is_file());
    let again = cli(place.path(), &pose, &["skill", "import", "skills.zip", "--into", "drafts"]);
    assert_eq!(again.status.code(), Some(2), "{again:?}");
    fs::create_dir(place.path().join("empty")).unwrap();
    let nothing = cli(place.path(), &pose, &["skill", "import", "empty"]);
    assert_eq!(nothing.status.code(), Some(5), "{nothing:?}");
    assert!(String::from_utf8_lossy(&nothing.stdout).contains("holds no SKILL.md"), "{nothing:?}");
}

#[test]
fn skills_of_every_shape_are_installed_and_imported_whole_and_run_under_their_ids() {
    let (place, pose) = (tempfile::tempdir().unwrap(), Pose::new());
    write(place.path());
    pose.plays(&[says("It is done.")]);
    // What the engine finds of the skill, as `files_of` tells it.
    let found = "cd .codex/skills/*; { find . -type f -perm -u+x -printf '%P*\\n'; find . -type f ! -perm -u+x -printf '%P\\n'; }";
    pose.runs_after(1, &format!("mkdir -p artifacts; ({found}) | LC_ALL=C sort > artifacts/found.txt"));
    let command = pose.command();
    for how in ["install", "import"] {
        let server = Server::with(&[("engines.codex.command", &command)]);
        let skills = server.folder.path().join("skills");
        for (folder, _) in SHAPES {
            let args = ["skill", how, &format!("./{folder}"), "--skills-dir", skills.to_str().unwrap()];
            ok(&cli(place.path(), &pose, &args));
        }
        for (folder, _) in SHAPES {
            let body = json!({"skill_id": folder, "engine": "codex", "input": {"prompt": "do it"},
                "runtime_options": {"no_cache": true}});
            let (_, run) = server.create_with(&body);
            server.finish(&run);
            let result = server.get(&format!("/v1/jobs/{run}/result")).json()["result"].take();
            assert_eq!(result["data"], json!({"message": "It is done."}), "{how} {folder}: {result:#}");
            let seen = server.get(&format!("/v1/jobs/{run}/artifacts/artifacts/found.txt")).text();
            let written =
                ["runner.json", "input.schema.json", "output.schema.json"].map(|name| format!("assets/{name}"));
            let own: Vec<&str> = seen.lines().filter(|name| !written.contains(&(*name).to_owned())).collect();
            assert_eq!(own, files_of(folder), "{how} {folder}");
            assert_eq!(own.len() + 3 == seen.lines().count(), how == "import", "{how} {folder}: {seen}");
        }
    }
}

#[test]
fn a_head_that_only_some_readers_take_is_told_and_written_as_yaml_by_the_import() {
    let (place, pose) = (tempfile::tempdir().unwrap(), Pose::new());
    write(place.path());
    let linted = json_of(&cli(place.path(), &pose, &["skill", "lint", "./bare-colons", "--json"]));
    let told = linted["findings"].as_array().unwrap().iter().filter(|found| found["code"] == "FRONT_MATTER_INVALID");
    let told: Vec<(&str, &str)> =
        told.map(|found| (found["pointer"].as_str().unwrap(), found["severity"].as_str().unwrap())).collect();
    assert_eq!(
        (&linted["ok"], told),
        (&json!(true), vec![("/description", "warning"), ("/argument-hint", "warning")]),
        "{linted:#}"
    );
    ok(&cli(place.path(), &pose, &["skill", "import", "./bare-colons"]));
    let text = fs::read_to_string(place.path().join("skills/bare-colons/SKILL.md")).unwrap();
    let linted = json_of(&cli(place.path(), &pose, &["skill", "lint", "skills/bare-colons", "--json"]));
    let told = linted["findings"].as_array().unwrap().iter().filter(|found| found["code"] == "FRONT_MATTER_INVALID");
    assert_eq!((&linted["ok"], told.count()), (&json!(true), 0), "{text}{linted:#}");
    let shown = json_of(&cli(place.path(), &pose, &["skill", "show", "bare-colons", "--json"]));
    assert_eq!(shown["description"], "Use it when: the user asks \"why?\"", "{shown:#}");
    // A package of its own has to be YAML.
    fs::write(place.path().join("skills/bare-colons/SKILL.md"), SHAPES[12].1[0].1).unwrap();
    let linted = cli(place.path(), &pose, &["skill", "lint", "skills/bare-colons"]);
    assert_eq!(linted.status.code(), Some(1), "{linted:?}");
}

#[test]
fn a_skill_in_the_open_format_is_installed_and_may_ask() {
    let (place, pose) = (tempfile::tempdir().unwrap(), Pose::new());
    write(place.path());
    ok(&cli(place.path(), &pose, &["skill", "install", "./with-references"]));
    assert!(!place.path().join("skills/with-references/assets/runner.json").exists(), "it stays as it was written");
    pose.plays(&[says("Which one?"), says("The second one.\n\n__SKILL_DONE__")]);
    let mut program = program();
    let mut child = program
        .args(["run", "with-references", "--engine", "codex", "--input", "prompt=choose", "--interactive", "--json"])
        .current_dir(place.path())
        .env("SKILL_RUNNER_CODEX_BIN", pose.command())
        .env("SKILL_RUNNER_SANDBOX_WRITE", pose.folder())
        .env("SKILL_RUNNER_MIN_FREE_BYTES", "0")
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), b"two\n").unwrap();
    let ran = json_of(&child.wait_with_output().unwrap());
    assert_eq!(ran["result"]["data"], json!({"message": "The second one."}), "{ran:#}");
}
