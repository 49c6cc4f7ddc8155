//! The command line: `run --interactive`, `watch`, `reply`, `cancel`, `logs`, as real processes.

use std::io::Write;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

use super::pose::{self, Pose, done, says};
use super::service::Service;
use super::{of_type, one_question};

/// A folder with the skill `ask`, and the program in it.
struct Desk {
    pose: Pose,
    folder: tempfile::TempDir,
}

impl Desk {
    fn new(turns: &[String]) -> Desk {
        let desk = Desk { pose: Pose::new(), folder: tempfile::tempdir().unwrap() };
        pose::skill(&desk.folder.path().join("skills"), "ask", None);
        desk.pose.plays(turns);
        desk
    }

    fn service(&self) -> Service {
        Service::start(self.folder.path(), &self.pose)
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_skill-runner"));
        command.args(args).current_dir(self.folder.path()).env_clear().env("PATH", std::env::var_os("PATH").unwrap());
        command
            .env("SKILL_RUNNER_CODEX_BIN", self.pose.command())
            .env("SKILL_RUNNER_SANDBOX_WRITE", self.pose.folder())
            .env("SKILL_RUNNER_MIN_FREE_BYTES", "0");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Runs the program to its end with this on its standard input; exit code, standard output and error.
    fn run(&self, args: &[&str], input: &str) -> (Option<i32>, String, String) {
        let mut child = self.command(args).spawn().unwrap();
        // A program that asks nothing reads nothing.
        let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
        ended(child.wait_with_output().unwrap())
    }
}

fn ended(output: Output) -> (Option<i32>, String, String) {
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

fn asks(yaml: &str) -> String {
    says(&format!("<ASK_USER_YAML>\n{yaml}\n</ASK_USER_YAML>"))
}

#[test]
fn an_interactive_run_asks_at_the_terminal_and_takes_lines_as_answers() {
    let desk = Desk::new(&[
        asks("{kind: choose_one, prompt: Which?, options: [red, {label: Blue, value: b}], ui_hints: {strict: true}}"),
        asks("{kind: fill_fields, prompt: Who?, required_fields: [name, age]}"),
        asks("{kind: confirm, prompt: Sure?}"),
        asks("{kind: risk_ack, prompt: It may hurt. Go on?}"),
        says("Anything else?"),
        done(),
    ]);
    let args = ["run", "ask", "--engine", "codex", "--interactive", "--json"];
    let (code, stdout, stderr) = desk.run(&args, "7\n2\n\nAnn\n41\nonly a bit\nperhaps\ny\nno, thanks\n");
    assert_eq!(code, Some(0), "{stdout}{stderr}");
    let document: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(document["result"]["data"], json!({"name": "Ann"}));
    for shown in [
        "? Which?\n  1) red\n  2) Blue\n[1-2]\n",
        "? Who?\nname:\n",
        "age:\n",
        "? Sure?\n[y/n, or your own words]\n",
        "? It may hurt. Go on?\n[y/n]\n",
        "\nAnything else?\n[text]\n",
    ] {
        assert!(stderr.contains(shown), "{shown:?} in {stderr}");
    }
    assert!(!stderr.contains("ASK_USER_YAML"), "{stderr}");
    let session = std::fs::read_dir(desk.pose.sessions()).unwrap().next().unwrap().unwrap().file_name();
    let told = desk.pose.told(session.to_str().unwrap());
    let told: Vec<&str> = told.iter().skip(1).map(|text| text.trim()).collect();
    assert_eq!(told, ["b", r#"{"name":"Ann","age":41}"#, "only a bit", "true", "no, thanks"]);
}

#[test]
fn when_input_ends_the_run_waits_and_a_service_takes_its_answer() {
    let desk = Desk::new(&one_question());
    let (code, stdout, stderr) = desk.run(&["run", "ask", "--engine", "codex", "--interactive"], "");
    assert_eq!(code, Some(1), "{stdout}");
    assert_eq!((stdout.as_str(), stderr.matches("What is your name?").count()), ("", 1), "{stderr}");
    assert!(stderr.contains("What is your name?\n[text]\n"), "{stderr}");
    assert!(stderr.contains("the run waits for an answer to question 1"), "{stderr}");
    let run = stderr.split("skill-runner reply ").nth(1).unwrap().split('`').next().unwrap().to_owned();
    let told = format!(
        "error: RESULT_NOT_READY: the run waits for an answer; `skill-runner reply {run}` shows the question and answers it\n"
    );
    assert_eq!(desk.run(&["result", "last"], ""), (Some(1), String::new(), told));
    let service = desk.service();
    let (code, stdout, stderr) = desk.run(&["reply", &run], "Ann\n");
    assert_eq!((code, stderr.as_str()), (Some(0), "? What is your name?\n[text]\n"), "{stdout}");
    service.ends(&run, "succeeded");
    service.audit(&run);
}

#[test]
fn a_run_of_a_service_asks_at_the_terminal_too() {
    let desk = Desk::new(&one_question());
    let service = desk.service();
    let (code, stdout, stderr) = desk.run(&["run", "ask", "--engine", "codex", "--interactive", "--json"], "Ann\n");
    assert_eq!(code, Some(0), "{stderr}");
    let document: Value = serde_json::from_str(&stdout).unwrap();
    service.audit(document["run_id"].as_str().unwrap());
    assert_eq!(of_type(&service.history(document["run_id"].as_str().unwrap()), "interaction.reply.accepted").len(), 1);
}

#[test]
fn reply_answers_by_number_label_or_json_and_says_why_not() {
    let desk = Desk::new(&[
        asks("{kind: choose_one, prompt: Which?, options: [red, blue], ui_hints: {strict: true}}"),
        says("Why?"),
        done(),
    ]);
    let service = desk.service();
    let run = service.create(json!({}));
    service.question(&run, 1);
    let (code, stdout, stderr) = desk.run(&["reply", &run, "green"], "");
    assert_eq!((code, stdout.as_str()), (Some(5), ""));
    assert!(stderr.contains("INPUT_VALIDATION_FAILED") && stderr.contains("must be one of"), "{stderr}");
    let (code, _, stderr) = desk.run(&["reply", &run, "red", "--interaction", "5"], "");
    assert_eq!(code, Some(5));
    assert!(stderr.starts_with("error: INTERACTION_STALE: "), "{stderr}");
    let key = ["reply", &run, "2", "--interaction", "1", "--key", "k", "--json"];
    let (code, stdout, stderr) = desk.run(&key, "");
    assert_eq!((code, stderr.as_str()), (Some(0), ""));
    let receipt: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!((&receipt["status"], &receipt["accepted"]), (&json!("queued"), &json!(true)));
    service.question(&run, 2);
    let (code, stdout, _) = desk.run(&["reply", &run, "because"], "");
    assert_eq!((code, stdout.as_str()), (Some(0), "the answer to question 2 is accepted; the run goes on\n"));
    service.ends(&run, "succeeded");
    let replies = of_type(&service.history(&run), "interaction.reply.accepted");
    assert_eq!((&replies[0]["response"], &replies[1]["response"]), (&json!("blue"), &json!("because")));
    let (code, _, stderr) = desk.run(&["reply", &run, "late"], "");
    assert_eq!(code, Some(5));
    assert!(stderr.starts_with("error: INTERACTION_NOT_PENDING: "), "{stderr}");
}

#[test]
fn watch_follows_to_the_end_and_logs_shows_the_engines_bytes() {
    let desk = Desk::new(&one_question());
    let service = desk.service();
    let run = service.create(json!({}));
    service.question(&run, 1);
    let watching = desk.command(&["watch", &run, "--json"]).spawn().unwrap();
    let following = desk.command(&["logs", &run, "--follow"]).spawn().unwrap();
    assert_eq!(desk.run(&["reply", &run, "Ann"], "").0, Some(0));
    let (code, stdout, stderr) = ended(watching.wait_with_output().unwrap());
    assert_eq!((code, stderr.as_str()), (Some(0), ""));
    let seen: Vec<Value> = stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(seen, service.history(&run));
    let raw = std::fs::read_to_string(desk.folder.path().join("data/runs").join(&run).join("logs/stdout.txt")).unwrap();
    let (code, stdout, _) = ended(following.wait_with_output().unwrap());
    assert_eq!((code, stdout.as_str()), (Some(0), raw.as_str()));
    assert_eq!(desk.run(&["logs", &run], ""), (Some(0), raw.clone(), String::new()));
    assert_eq!(desk.run(&["logs", &run, "--stream", "stderr"], ""), (Some(0), String::new(), String::new()));
    let (_, prompt, _) = desk.run(&["logs", &run, "--stream", "prompt"], "");
    assert!(prompt.ends_with("----- turn 2 -----\n\nAnn"), "{prompt}");
    let (_, all, _) = desk.run(&["logs", &run, "--json"], "");
    assert_eq!(serde_json::from_str::<Value>(&all).unwrap()["stdout"], json!(raw));
    let (code, stdout, _) = desk.run(&["watch", &run], "");
    assert_eq!(code, Some(0));
    let asked = format!("What is your name?\n[text]\nanswer with `skill-runner reply {run}`\nanswered: Ann\n");
    assert!(stdout.contains(&asked), "{stdout}");
    let last = stdout.lines().last().unwrap();
    assert!(last.starts_with("succeeded after ") && last.ends_with(&run), "{stdout}");
}

#[test]
fn cancel_ends_a_waiting_run_and_watch_tells_so() {
    let desk = Desk::new(&one_question());
    let service = desk.service();
    let run = service.create(json!({}));
    service.question(&run, 1);
    assert_eq!(desk.run(&["cancel", &run], ""), (Some(0), "the run is canceled\n".into(), String::new()));
    let (code, stdout, _) = desk.run(&["cancel", &run, "--json"], "");
    let answer: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!((code, &answer["accepted"]), (Some(0), &json!(false)));
    assert_eq!(desk.run(&["watch", &run], "").0, Some(1));
}

#[test]
fn clients_need_a_service_a_run_and_right_usage() {
    let desk = Desk::new(&one_question());
    let nobody = "0192f0c1-2d3e-7f40-8a51-6b7c8d9e0f11";
    assert_eq!(desk.run(&["logs", nobody], "").0, Some(4), "logs are read without a service, too");
    for command in ["watch", "reply", "cancel"] {
        let (code, stdout, stderr) = desk.run(&[command, nobody], "");
        assert_eq!((code, stdout.as_str()), (Some(3), ""), "{command}");
        assert!(stderr.starts_with("error: no service runs on "), "{stderr}");
        assert_eq!(desk.run(&[command], "").0, Some(2), "{command}");
        let (code, help, _) = desk.run(&[command, "--help"], "");
        assert_eq!(code, Some(0));
        assert!(help.contains("Example") && help.contains(&format!("skill-runner {command} ")), "{help}");
    }
    assert_eq!(desk.run(&["logs", nobody, "--stream", "prompt", "--follow"], "").0, Some(2));
    let _service = desk.service();
    for command in ["watch", "reply", "cancel", "logs"] {
        for id in [nobody, "nothing"] {
            let (code, _, stderr) = desk.run(&[command, id], "");
            assert_eq!(code, Some(4), "{command} {id}");
            assert!(stderr.starts_with("error: REQUEST_NOT_FOUND: "), "{stderr}");
        }
    }
}
