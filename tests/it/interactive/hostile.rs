//! An engine that spoils its run's folder between two turns: nothing hangs, nothing outside is touched.

use std::fs;
use std::path::PathBuf;

use serde_json::json;

use super::{Scene, one_question};

/// Puts this in the place of a file: a pipe that nobody reads, a link out of the folder, a device without end, a file
/// as long as a run may make one.
const SPOILERS: [(&str, &str); 4] = [
    (r#"mkfifo "$f""#, "fifo"),
    (r#"ln -s "$here/outside" "$f""#, "symbolic link"),
    (r#"ln -s /dev/zero "$f""#, "symbolic link"),
    (r#"truncate -s 7G "$f""#, "regular file"),
];

/// A waiting run whose engine has spoilt this file of the run's folder after its first turn.
fn spoilt(scene: &Scene, file: &str, (spoil, kind): (&str, &str)) -> String {
    fs::write(outside(scene), "untouched").unwrap();
    let note = r#"stat -c %F "$f" > "$here/spoilt""#;
    scene.pose.runs_after(1, &format!(r#"f={file}; [ -f "$f" ] && rm "$f" && {spoil} && {note}"#));
    let run = scene.waiting(&one_question());
    let noted = fs::read_to_string(outside(scene).with_file_name("spoilt")).unwrap();
    assert_eq!(noted.trim_end(), kind, "{spoil}");
    run
}

fn outside(scene: &Scene) -> PathBuf {
    scene.pose.sessions().with_file_name("outside")
}

#[test]
fn an_engine_that_replaces_its_prompt_gets_its_next_turn_and_reaches_nothing_outside() {
    for spoil in SPOILERS {
        let scene = Scene::new();
        let run = spoilt(&scene, "logs/prompt.txt", spoil);
        assert_eq!(scene.reply(&run, 1, json!("Ann")).status, 200);
        scene.end(&run);
        assert_eq!(scene.job(&run)["status"], "succeeded", "{spoil:?}");
        let prompt = scene.server.run_dir(&run).join("logs/prompt.txt");
        assert!(fs::read_to_string(&prompt).unwrap().contains("Ann"), "{spoil:?}: what it was told is on record");
        assert_eq!(fs::read_to_string(outside(&scene)).unwrap(), "untouched", "{spoil:?}");
    }
}

#[test]
fn an_engine_that_replaces_its_copy_of_the_skill_gets_it_anew_or_fails_its_run_with_the_cause() {
    // What is no file at all is copied again.
    for (spoil, fails) in SPOILERS.into_iter().zip([false, true, false, true]) {
        let scene = Scene::new();
        let run = spoilt(&scene, ".codex/skills/ask/SKILL.md", spoil);
        assert_eq!(scene.reply(&run, 1, json!("Ann")).status, 200);
        scene.end(&run);
        let job = scene.job(&run);
        let told = job["error"]["message"].as_str().unwrap_or_default();
        assert_eq!(told.contains("copy of its skill cannot be used: SKILL.md"), fails, "{spoil:?}: {job}");
        assert_eq!(job["status"] == "succeeded", !fails, "{spoil:?}: {job}");
        assert_eq!(fs::read_to_string(outside(&scene)).unwrap(), "untouched", "{spoil:?}");
    }
}
