//! A question of a CLI's model at the terminal: its words, never the block that it comes in.

use std::io::Write;
use std::process::Stdio;

use serde_json::{Value, json};

use super::on_every_cli;
use super::service::{Service, command};
use crate::interactive::pose;
use crate::support::model_server::Reply;

on_every_cli!(the_terminal_shows_a_question_and_never_the_block_that_it_comes_in);

const ASKS: &str = "I have a question.\n<ASK_USER_YAML>\nkind: choose_one\nprompt: Which fruit is it, of all these?\n\
    options: [plum, pear]\n</ASK_USER_YAML>\n";

fn the_terminal_shows_a_question_and_never_the_block_that_it_comes_in(name: &str) {
    let service = Service::with(name);
    pose::skill(&service.skills(), "say", None);
    for (verbose, shown) in
        [(None, "I have a question.\n"), (Some("--verbose"), "assistant.message.final I have a question.")]
    {
        service.model.script(&[Reply::Say(ASKS), Reply::Say("{\"name\": \"Ann\"}\n__SKILL_DONE__")]);
        let mut words =
            vec!["run", "say", "--engine", name, "--model", service.cli.model, "--interactive", "--json", "--no-cache"];
        words.extend(verbose);
        let mut run = command(&service.folder, &words);
        run.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = run.spawn().unwrap();
        child.stdin.take().unwrap().write_all(b"1\n").unwrap();
        let ended = child.wait_with_output().unwrap();
        let (stdout, stderr) = (String::from_utf8(ended.stdout).unwrap(), String::from_utf8(ended.stderr).unwrap());
        assert!(ended.status.success(), "{stdout}\n{stderr}");
        let document: Value = serde_json::from_str(&stdout).unwrap();
        assert_eq!(document["result"]["data"], json!({"name": "Ann"}), "{stdout}");
        assert!(stderr.contains(shown), "{stderr}");
        assert!(stderr.contains("? Which fruit is it, of all these?\n  1) plum\n  2) pear\n"), "{stderr}");
        assert!(!stderr.contains("ASK_USER_YAML") && !stderr.contains("choose_one"), "{stderr}");
    }
    service.close();
}
