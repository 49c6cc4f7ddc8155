//! Waiting: without slot and process, until the deadline, across restarts, and ended by a cancel.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use skill_runner::domain::time::Timestamp;

use super::pose::{Pose, done, says};
use super::service::Service;
use super::{Scene, of_type, one_question};
use crate::crash::until;
use crate::support::skill::{GATED, HELLO};

#[test]
fn a_waiting_run_holds_no_slot_and_no_process() {
    let scene = Scene::with(&[("max_running_jobs", "1")]);
    scene.server.skill("hello", HELLO, json!({}));
    let run = scene.waiting(&one_question());
    let (_, other) = scene.server.finished("hello");
    assert_eq!(scene.job(&other)["status"], "succeeded");
    let mark = format!("{}={run}", skill_runner::supervisor::RUN_MARKER);
    let marked = |pid: &str| {
        let environ = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environ.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes())
    };
    let pids = std::fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.file_name());
    assert_eq!(pids.filter(|pid| marked(&pid.to_string_lossy())).count(), 0);
    let queue = scene.server.get("/v1/system").json()["queue"].clone();
    assert_eq!((&queue["queued"], &queue["running"]), (&json!(0), &json!(0)));
    scene.reply(&run, 1, json!("Ann"));
    assert_eq!(scene.end(&run).0, "succeeded");
}

#[test]
fn many_waiting_runs_cost_neither_threads_nor_files() {
    let pose = Pose::new();
    pose.plays(&one_question());
    let folder = tempfile::tempdir().unwrap();
    let service = Service::start(folder.path(), &pose);
    let count = |what: &str| std::fs::read_dir(format!("/proc/{}/{what}", service.pid())).unwrap().count();
    let cost = || count("task") + count("fd");
    let first = service.create(json!({}));
    service.question(&first, 1);
    let before = cost();
    let runs: Vec<String> = (0..200).map(|_| service.create(json!({}))).collect();
    for run in &runs {
        service.question(run, 1);
    }
    // What served the turns goes in its own time; a thread or a file for each run would stay, and be far beyond.
    until("the service is back at what it had", || cost() < before + 50);
    assert_eq!(service.get("/v1/system")["queue"]["running"], 0);
    for run in runs.iter().chain([&first]) {
        assert_eq!(service.reply(run, 1, json!("Ann")).status, 200);
    }
    for run in runs.iter().chain([&first]) {
        service.ends(run, "succeeded");
    }
}

#[test]
fn a_waiting_run_is_canceled_at_once() {
    let scene = Scene::new();
    let run = scene.waiting(&one_question());
    let canceled = scene.server.call("POST", &format!("/v1/jobs/{run}/cancel")).send().json();
    assert_eq!((&canceled["status"], &canceled["accepted"]), (&json!("canceled"), &json!(true)));
    let (status, error, events) = scene.end(&run);
    assert_eq!((status, error), (json!("canceled"), json!("CANCELED_BY_USER")));
    assert_eq!(of_type(&events, "turn.started").len(), 1);
    assert_eq!(scene.reply(&run, 1, json!("late")).refusal(), (409, "INTERACTION_NOT_PENDING".into()));
}

#[test]
fn cancels_and_replies_at_once_leave_one_end_and_a_whole_log() {
    let scene = Scene::new();
    for _ in 0..8 {
        let run = scene.waiting(&one_question());
        std::thread::scope(|scope| {
            scope.spawn(|| scene.reply(&run, 1, json!("Ann")));
            scope.spawn(|| scene.server.call("POST", &format!("/v1/jobs/{run}/cancel")).send());
        });
        let (status, _, _) = scene.end(&run);
        assert!(status == "canceled" || status == "succeeded", "{status}");
    }
}

#[test]
fn without_an_answer_the_policy_decides_at_the_deadline() {
    let scene = Scene::new();
    let ask = "Name?\n<ASK_USER_YAML>\nprompt: Your name?\ndefault_decision_policy: call them Ann\n</ASK_USER_YAML>";
    let options = json!({"interactive_auto_reply": true, "interactive_reply_timeout_sec": 1});
    let run = scene.begin_with(&[says(ask), done()], options);
    let (status, _, events) = scene.end(&run);
    assert_eq!(status, "succeeded");
    let decided = &of_type(&events, "interaction.auto_decide.timeout")[0];
    assert_eq!(
        (&decided["interaction_id"], &decided["timeout_sec"], &decided["policy"], &decided["resolution_mode"]),
        (&json!(1), &json!(1), &json!("call them Ann"), &json!("auto_decide_timeout"))
    );
    let job = scene.job(&run);
    assert_eq!((&job["auto_decision_count"], &job["last_auto_decision_at"]), (&json!(1), &decided["accepted_at"]));
    assert_eq!(scene.reply(&run, 1, json!("late")).refusal(), (409, "INTERACTION_NOT_PENDING".into()));
}

#[test]
fn nobody_decides_for_a_user_who_is_to_be_waited_for() {
    let scene = Scene::new();
    let options = |auto: bool| json!({"interactive_auto_reply": auto, "interactive_reply_timeout_sec": 1});
    let patient = scene.begin_with(&one_question(), options(false));
    scene.question(&patient, 1);
    // The same time to answer, and asked later: when this one is decided, the other's time has passed, too.
    let hasty = scene.begin_with(&one_question(), options(true));
    let (_, _, events) = scene.end(&hasty);
    assert_eq!(of_type(&events, "interaction.auto_decide.timeout").len(), 1);
    let job = scene.job(&patient);
    assert_eq!((&job["status"], &job["auto_decision_count"]), (&json!("waiting_user"), &json!(0)));
    assert_eq!(scene.reply(&patient, 1, json!("Ann")).status, 200);
    let (status, _, events) = scene.end(&patient);
    assert_eq!((status, of_type(&events, "interaction.auto_decide.timeout").len()), (json!("succeeded"), 0));
}

#[test]
fn an_answered_run_is_in_the_queue_once_also_when_its_deadline_passes_there() {
    let scene = Scene::with(&[("max_running_jobs", "1")]);
    scene.server.skill("gated", GATED, json!({}));
    // On a slow machine the first deadline may come before the answer, and the second one before the only slot is taken.
    for seconds in [3, 12, 48] {
        let options = |seconds: u64| json!({"interactive_auto_reply": true, "interactive_reply_timeout_sec": seconds});
        let later = scene.begin_with(&one_question(), options(seconds + 2));
        scene.question(&later, 1);
        let answered = scene.begin_with(&one_question(), options(seconds));
        scene.question(&answered, 1);
        let (_, gated) = scene.server.create("gated");
        scene.server.wait_for(&gated, "raw.stderr", "ready");
        let is_waiting = scene.job(&later)["status"] == "waiting_user";
        let in_time = scene.reply(&answered, 1, json!("Ann")).status == 200 && is_waiting;
        if in_time {
            // When this one is decided, the other's deadline has passed, too.
            scene.server.wait_for(&later, "interaction.auto_decide.timeout", "");
            let queue = scene.server.get("/v1/system").json()["queue"].clone();
            assert_eq!((&queue["queued"], &queue["running"]), (&json!(2), &json!(1)));
        }
        scene.server.open_gate(&gated, "on");
        for run in [&gated, &later, &answered] {
            assert_eq!(scene.end(run).0, "succeeded");
        }
        if in_time {
            return;
        }
    }
    panic!("no answer came in time");
}

#[test]
fn an_answer_before_the_deadline_is_the_only_one() {
    let scene = Scene::new();
    let options = json!({"interactive_auto_reply": true, "interactive_reply_timeout_sec": 15});
    let run = scene.begin_with(&[says("One?"), says("Two?"), done()], options);
    scene.question(&run, 1);
    assert_eq!(scene.reply(&run, 1, json!("Ann")).status, 200);
    // The first deadline passes while the second question is open, and decides nothing of it before its own.
    let (status, _, events) = scene.end(&run);
    assert_eq!(status, "succeeded");
    let decided = of_type(&events, "interaction.auto_decide.timeout");
    assert_eq!((decided.len(), &decided[0]["interaction_id"]), (1, &json!(2)));
}

#[test]
fn a_restart_keeps_the_question_and_its_answer_goes_to_the_same_session() {
    let pose = Pose::new();
    pose.plays(&[says("One?"), says("Two?"), done()]);
    let folder = tempfile::tempdir().unwrap();
    let service = Service::start(folder.path(), &pose);
    let run = service.create(json!({}));
    service.question(&run, 1);
    let before = service.history(&run);
    service.kill();
    for _ in 0..2 {
        Service::start(folder.path(), &pose).kill();
    }
    let service = Service::start(folder.path(), &pose);
    let job = service.get(&format!("/v1/jobs/{run}"));
    assert_eq!(
        (&job["status"], &job["recovery_state"], &job["recovery_reason"], &job["pending_interaction_id"]),
        (&json!("waiting_user"), &json!("recovered_waiting"), &json!("resumable_waiting_preserved"), &json!(1))
    );
    assert!(job["recovered_at"].is_string());
    let after = service.history(&run);
    assert_eq!(after[..before.len()], before, "what was seen stays");
    let more: Vec<&Value> = after[before.len()..].iter().map(|event| &event["type"]).collect();
    assert_eq!(more, ["run.recovered", "conversation.state.changed"], "said once, however often it is started");
    assert_eq!(service.reply(&run, 1, json!("Ann")).status, 200);
    service.question(&run, 2);
    service.kill();
    // A second question is recovered for itself.
    let service = Service::start(folder.path(), &pose);
    assert_eq!(of_type(&service.history(&run), "run.recovered").len(), 2);
    assert_eq!(service.reply(&run, 2, json!("blue")).status, 200);
    service.ends(&run, "succeeded");
    service.audit(&run);
    let session = of_type(&service.history(&run), "session.bound")[0]["handle"].as_str().unwrap().to_owned();
    let told: Vec<String> = pose.told(&session).iter().skip(1).map(|text| text.trim().to_owned()).collect();
    assert_eq!(told, ["Ann", "blue"]);
}

#[test]
fn a_deadline_that_passed_while_the_service_was_down_decides_at_the_start() {
    let pose = Pose::new();
    pose.plays(&one_question());
    let folder = tempfile::tempdir().unwrap();
    let service = Service::start(folder.path(), &pose);
    let run = service.create(json!({"interactive_auto_reply": true, "interactive_reply_timeout_sec": 10}));
    let asked: Timestamp = serde_json::from_value(service.question(&run, 1)["ts"].clone()).unwrap();
    service.kill();
    // The passing of time is what is tested.
    let deadline = UNIX_EPOCH + Duration::from_micros(asked.plus_seconds(10).as_micros().cast_unsigned());
    std::thread::sleep(deadline.duration_since(SystemTime::now()).unwrap_or_default());
    let service = Service::start(folder.path(), &pose);
    service.ends(&run, "succeeded");
    let events = service.history(&run);
    assert_eq!(of_type(&events, "interaction.auto_decide.timeout").len(), 1);
    service.audit(&run);
}

#[test]
fn a_run_that_cannot_be_resumed_is_told_so_at_the_start() {
    let pose = Pose::new();
    let nameless: String = says("Name?").lines().skip(1).map(|line| format!("{line}\n")).collect();
    pose.plays(&[nameless]);
    let folder = tempfile::tempdir().unwrap();
    let service = Service::start(folder.path(), &pose);
    let run = service.create(json!({}));
    service.question(&run, 1);
    service.kill();
    let service = Service::start(folder.path(), &pose);
    let job = service.ends(&run, "failed");
    assert_eq!(
        (&job["error"]["code"], &job["recovery_state"]),
        (&json!("SESSION_RESUME_FAILED"), &json!("failed_reconciled"))
    );
    service.audit(&run);
}

#[test]
fn a_link_that_a_turn_leaves_on_the_way_to_its_skill_leads_nowhere_in_the_next() {
    // In the place of the skill's copy, and of the folders above it.
    for way in [".codex", ".codex/skills", ".codex/skills/ask"] {
        let scene = Scene::new();
        let outside = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let files = ["SKILL.md", "ask/SKILL.md", "skills/ask/SKILL.md", "ask/kept", "skills/ask/kept"];
        for file in files {
            let path = outside.path().join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "not the run's").unwrap();
        }
        let run = scene.waiting(&one_question());
        // As a command of the first turn could have done.
        let planted = scene.server.run_dir(&run).join(way);
        std::fs::remove_dir_all(&planted).unwrap();
        std::os::unix::fs::symlink(outside.path(), &planted).unwrap();
        assert_eq!(scene.reply(&run, 1, json!("Ann")).status, 200);
        let (status, code, _) = scene.end(&run);
        assert_eq!((status, code), (json!("succeeded"), Value::Null), "{way}");
        for file in files {
            assert_eq!(std::fs::read_to_string(outside.path().join(file)).unwrap(), "not the run's", "{way}: {file}");
        }
    }
}
