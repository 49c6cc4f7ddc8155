//! The page on the protocol with scripts, taken at its word: every example is run as it stands there.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::interactive::pose::{Pose, says};
use crate::support::{Server, of_type, script_skill};

/// A language of the page: how its blocks are marked, its file and its command.
const LANGUAGES: [(&str, &str, &str); 3] = [
    ("python", "scripts/run.py", "python3 scripts/run.py"),
    ("bash", "scripts/run.sh", "bash scripts/run.sh"),
    ("js", "scripts/run.js", "node scripts/run.js"),
];

/// A part of the page with its blocks: what stands behind the fence, and the text.
struct Part {
    title: String,
    blocks: Vec<(String, String)>,
}

impl Part {
    fn block(&self, mark: &str) -> Option<&str> {
        self.blocks.iter().find(|(found, _)| found == mark).map(|(_, text)| text.as_str())
    }

    fn json(&self, mark: &str) -> Option<Value> {
        self.block(mark)
            .map(|text| serde_json::from_str(text).unwrap_or_else(|error| panic!("{}: {error}", self.title)))
    }

    /// The files to upload, by their fields.
    fn uploads(&self) -> Vec<(&str, &str)> {
        self.blocks
            .iter()
            .filter_map(|(mark, text)| Some((mark.strip_prefix("text upload:")?, text.as_str())))
            .collect()
    }
}

fn parts() -> Vec<Part> {
    let page = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/skill-protocol.md")).unwrap();
    let parts = page.split("\n## ").skip(1).map(|text| {
        let blocks = text.split("\n```").skip(1).step_by(2).map(|block| {
            let (mark, code) = block.split_once('\n').unwrap();
            (mark.trim().to_owned(), format!("{code}\n"))
        });
        Part { title: text.lines().next().unwrap().to_owned(), blocks: blocks.collect() }
    });
    parts.collect()
}

/// Runs one example and compares what came of it with everything the part says.
fn check(part: &Part, language: &str, file: &str, command: &str, code: &str) {
    let told = format!("{} in {language}", part.title);
    let pose = Pose::new();
    pose.plays(&[says(part.block("text engine").unwrap_or("nothing").trim())]);
    let engine = pose.command();
    let server = Server::with(&[("engines.codex.command", &engine)]);
    let mut runner = part.json("json runner").unwrap_or(json!({"entrypoint": {"type": "script"}}));
    runner["entrypoint"]["script"] = json!({"command": command});
    let schema = |kind: &str| part.json(&format!("json {kind}-schema")).unwrap_or(json!({"type": "object"}));
    let skills = server.folder.path().join("skills");
    script_skill(
        &skills,
        "example",
        "",
        json!({"runner": runner, "input": schema("input"), "parameter": schema("parameter")}),
    );
    fs::write(skills.join("example").join(file), code).unwrap();

    let mut body = part.json("json request").unwrap_or(json!({}));
    body["skill_id"] = json!("example");
    let (_, run) = server.create_with(&body);
    for (field, text) in part.uploads() {
        let upload = server.call("POST", &format!("/v1/jobs/{run}/upload"));
        let answer = upload.files(&[(field, field, text.as_bytes())]).send();
        assert_eq!(answer.status, 200, "{told}: {}", answer.json());
    }
    let events = server.finish(&run);
    let result = server.get(&format!("/v1/jobs/{run}/result")).json()["result"].take();
    if let Some(error) = part.json("json error") {
        assert_eq!((&result["status"], &result["error"]), (&json!("failed"), &error), "{told}");
    } else {
        assert_eq!(result["status"], "succeeded", "{told}: {result}");
    }
    if let Some(data) = part.json("json data") {
        assert_eq!(result["data"], data, "{told}");
    }
    if let Some(progress) = part.json("json progress") {
        assert_eq!(Value::Array(of_type(&events, "run.progress")), progress, "{told}");
    }
    if let Some(prompt) = part.block("text prompt") {
        let found = fs::read_to_string(server.run_dir(&run).join("logs/prompt.txt")).unwrap();
        assert!(found.starts_with(prompt.trim_end()), "{told}: {found}");
    }
}

#[test]
fn every_example_of_the_page_on_the_protocol_runs_and_does_what_the_page_says() {
    let mut seen = Vec::new();
    for part in &parts() {
        for (language, file, command) in LANGUAGES {
            if let Some(code) = part.block(language) {
                check(part, language, file, command, code);
                seen.push((part.title.clone(), language));
            }
        }
    }
    let expected = [
        "Standard input",
        "Standard output",
        "Failures and exit codes",
        "Progress lines",
        "Context",
        "Environment",
        "Where inputs come from",
        "Template variables",
    ];
    let expected = expected.iter().flat_map(|title| LANGUAGES.map(|(language, _, _)| ((*title).to_owned(), language)));
    let expected: Vec<(String, &str)> = expected.chain([("Python packages".to_owned(), "python")]).collect();
    assert_eq!(seen, expected);
}
