//! The parts that engines play: what they say, in which pieces, and how they end.

use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};
use skill_runner::domain::fact::Stream;
use skill_runner::supervisor::ProcessExit;

use crate::dice::Dice;

/// Where a run's log stops growing.
pub const LOG_MAX: usize = 5_000;

/// How an engine ends when it has said all.
#[derive(Debug, Clone, Copy)]
pub enum Ending {
    Exits(ProcessExit),
    /// It waits for something that never comes.
    Hangs,
    /// It goes on saying nothing of use.
    Chatters,
    LosesItsSupervisor,
}

/// One engine's life.
pub struct Part {
    pub name: String,
    pub lines: Vec<(Duration, Stream, Bytes)>,
    pub ending: Ending,
    /// Whether it ends when it is asked to.
    pub obedient: bool,
    pub artifact: bool,
    /// What it leaves as its result file.
    pub result: Option<&'static str>,
}

impl Part {
    /// Now and then it takes as long as a lease until it goes on.
    pub fn may_take_long(&mut self, dice: &Dice) {
        if dice.once_in(3) && !self.lines.is_empty() {
            let at = dice.below(self.lines.len() as u64) as usize;
            self.lines[at].0 += Duration::from_millis(2_000 + dice.below(18_000));
        }
    }
}

const GOOD: Ending = Ending::Exits(ProcessExit::Code(0));

fn part(dice: &Dice, name: String, stdout: &[u8], stderr: &[u8], ending: Ending) -> Part {
    let mut lines: Vec<(Duration, Stream, Bytes)> = Vec::new();
    for (stream, bytes) in [(Stream::Stderr, stderr), (Stream::Stdout, stdout)] {
        let mut rest = bytes;
        while !rest.is_empty() {
            // Mostly whole, sometimes cut anywhere, also within a character.
            let piece = if dice.once_in(3) { 1 + dice.below(rest.len() as u64) as usize } else { rest.len() };
            let (now, later) = rest.split_at(piece);
            lines.push((dice.pause(), stream, Bytes::copy_from_slice(now)));
            rest = later;
        }
    }
    let ending = if dice.once_in(60) { Ending::LosesItsSupervisor } else { ending };
    Part { name, lines, ending, obedient: !dice.once_in(3), artifact: dice.once_in(4), result: None }
}

#[derive(Debug, Clone, Copy)]
enum Script {
    Answers,
    Fails,
    LiesThatItFailed,
    LiesThatItSucceeded,
    AnswersAmiss,
    Babbles,
    IsSilent,
    Hangs,
    Chatters,
    Floods,
    IsKilled,
}

/// A script's part.
pub fn script(dice: &Dice) -> Part {
    let script = dice.weighted(&[
        (8, Script::Answers),
        (1, Script::Fails),
        (1, Script::LiesThatItFailed),
        (1, Script::LiesThatItSucceeded),
        (3, Script::AnswersAmiss),
        (1, Script::Babbles),
        (1, Script::IsSilent),
        (2, Script::Hangs),
        (1, Script::Chatters),
        (1, Script::Floods),
        (1, Script::IsKilled),
    ]);
    let answer = b"{\"success\":true,\"action\":\"run\",\"data\":{\"n\":1}}\n".as_slice();
    let failure = b"{\"success\":false,\"error\":{\"code\":\"NO\",\"message\":\"no\"}}".as_slice();
    let stderr = dice.pick(&[b"".as_slice(), b"50% half\nplain \xff line", b"1% a\n2% b\n"]);
    let flood = vec![b'x'; LOG_MAX + 500];
    let (stdout, ending) = match script {
        Script::Answers => (answer, GOOD),
        Script::Fails => (failure, Ending::Exits(ProcessExit::Code(1))),
        Script::LiesThatItFailed => (answer, Ending::Exits(ProcessExit::Code(3))),
        Script::LiesThatItSucceeded => (failure, GOOD),
        Script::AnswersAmiss => (b"{\"success\":true,\"data\":{\"m\":1}}".as_slice(), GOOD),
        Script::Babbles => (b"no JSON \xe2\x82 at all".as_slice(), GOOD),
        Script::IsSilent => (b"".as_slice(), GOOD),
        Script::Hangs => (b"{\"succ".as_slice(), Ending::Hangs),
        Script::Chatters => (b"".as_slice(), Ending::Chatters),
        Script::Floods => (flood.as_slice(), GOOD),
        Script::IsKilled => (answer, Ending::Exits(ProcessExit::Signal(9))),
    };
    part(dice, format!("{script:?}"), stdout, stderr, ending)
}

#[derive(Debug, Clone, Copy)]
enum Helper {
    Mends,
    MendsAmiss,
    LeavesNothing,
    Fails,
    Hangs,
}

/// The part of a skill's own step of normalization.
pub fn helper(dice: &Dice) -> Part {
    let helper = dice.weighted(&[
        (4, Helper::Mends),
        (2, Helper::MendsAmiss),
        (1, Helper::LeavesNothing),
        (1, Helper::Fails),
        (1, Helper::Hangs),
    ]);
    let (result, ending) = match helper {
        Helper::Mends => (Some("{\"n\": 1}"), GOOD),
        Helper::MendsAmiss => (Some("{\"n\": \"one\"}"), GOOD),
        Helper::LeavesNothing => (None, GOOD),
        Helper::Fails => (None, Ending::Exits(ProcessExit::Code(2))),
        Helper::Hangs => (None, Ending::Hangs),
    };
    Part { result, ..part(dice, format!("{helper:?}"), b"", b"mending\n", ending) }
}

#[derive(Debug, Clone, Copy)]
enum Codex {
    Asks,
    AsksWithChoice,
    AsksForFields,
    AsksBrokenly,
    IsDone,
    IsDoneSoftly,
    IsDoneWrongly,
    IsSilent,
    Fails,
    IsRefusedByItsService,
    Dies,
    Hangs,
    Chatters,
    HangsAfterItsTurn,
    LiesInItsExit,
    NamesNoSession,
    LosesTheSession,
    MovesToAnotherSession,
    Floods,
}

/// A turn of codex, fresh or resumed.
pub fn codex(dice: &Dice, resume: Option<&str>) -> Part {
    let resumed = u64::from(resume.is_some());
    let turn = dice.weighted(&[
        (9, Codex::Asks),
        (2, Codex::AsksWithChoice),
        (2, Codex::AsksForFields),
        (1, Codex::AsksBrokenly),
        (2 + 5 * resumed, Codex::IsDone),
        (1 + resumed, Codex::IsDoneSoftly),
        (1, Codex::IsDoneWrongly),
        (1, Codex::IsSilent),
        (1, Codex::Fails),
        (2, Codex::IsRefusedByItsService),
        (1, Codex::Dies),
        (1, Codex::Hangs),
        (1, Codex::Chatters),
        (1, Codex::HangsAfterItsTurn),
        (1, Codex::LiesInItsExit),
        (1, Codex::NamesNoSession),
        (resumed, Codex::LosesTheSession),
        (resumed, Codex::MovesToAnotherSession),
        (1, Codex::Floods),
    ]);
    let own = resume.map_or_else(|| session(dice), str::to_owned);
    let session = if matches!(turn, Codex::MovesToAnotherSession) { session(dice) } else { own };
    let number = dice.below(1000);
    let text = match turn {
        Codex::AsksWithChoice => {
            format!(
                "<ASK_USER_YAML>\nkind: choose_one\nprompt: Which?\noptions: [a{number}, b{number}]\n</ASK_USER_YAML>"
            )
        }
        Codex::AsksForFields => {
            "<ASK_USER_YAML>\nkind: fill_fields\nprompt: Who?\nrequired_fields: [name]\n</ASK_USER_YAML>".to_owned()
        }
        Codex::AsksBrokenly => format!("What now, {number}?\n<ASK_USER_YAML>\nkind: [\n</ASK_USER_YAML>"),
        Codex::IsDone => "{\"name\": \"Ann\"}\n__SKILL_DONE__".to_owned(),
        Codex::IsDoneSoftly => "{\"name\": \"Ann\"}".to_owned(),
        Codex::IsDoneWrongly => "{\"nam\": 1}\n__SKILL_DONE__".to_owned(),
        Codex::Floods => "x".repeat(LOG_MAX),
        Codex::Asks
        | Codex::IsSilent
        | Codex::Fails
        | Codex::IsRefusedByItsService
        | Codex::Dies
        | Codex::Hangs
        | Codex::Chatters
        | Codex::HangsAfterItsTurn
        | Codex::LiesInItsExit
        | Codex::NamesNoSession
        | Codex::LosesTheSession
        | Codex::MovesToAnotherSession => format!("What is your name, {number}?"),
    };
    let begins = json!({"type": "thread.started", "thread_id": session});
    let says = json!({"type": "item.completed", "item": {"id": "i1", "type": "agent_message", "text": text}});
    let usage = json!({"input_tokens": 10, "cached_input_tokens": 0, "output_tokens": 2});
    let ends = json!({"type": "turn.completed", "usage": usage});
    let fails = json!({"type": "turn.failed", "error": {"message": "the model is overloaded"}});
    let busy = dice
        .pick(&["exceeded retry limit, last status: 429 Too Many Requests", "stream disconnected before completion"]);
    let refused = json!({"type": "turn.failed", "error": {"message": busy}});
    let lost = format!("Error: thread/resume failed: no rollout found for thread id {session}\n");
    let (lines, stderr, ending): (Vec<Value>, &str, Ending) = match turn {
        Codex::IsSilent => (vec![begins, ends], "", GOOD),
        Codex::Fails => (vec![begins, fails], "", Ending::Exits(ProcessExit::Code(1))),
        Codex::IsRefusedByItsService => (vec![begins, refused], "", Ending::Exits(ProcessExit::Code(1))),
        Codex::Dies => (vec![begins, says], "", dice.pick(&[GOOD, Ending::Exits(ProcessExit::Signal(9))])),
        Codex::Hangs => (vec![begins, says], "", Ending::Hangs),
        Codex::Chatters => (vec![begins], "", Ending::Chatters),
        Codex::HangsAfterItsTurn => (vec![begins, says, ends], "", Ending::Hangs),
        Codex::LiesInItsExit => (vec![begins, says, ends], "", Ending::Exits(ProcessExit::Code(7))),
        Codex::NamesNoSession => (vec![says, ends], "", GOOD),
        Codex::LosesTheSession => (vec![], lost.as_str(), Ending::Exits(ProcessExit::Code(1))),
        Codex::Asks
        | Codex::AsksWithChoice
        | Codex::AsksForFields
        | Codex::AsksBrokenly
        | Codex::IsDone
        | Codex::IsDoneSoftly
        | Codex::IsDoneWrongly
        | Codex::MovesToAnotherSession
        | Codex::Floods => (vec![begins, says, ends], "", GOOD),
    };
    let stdout: String = lines.iter().map(|line| format!("{line}\n")).collect();
    part(dice, format!("{turn:?}"), stdout.as_bytes(), stderr.as_bytes(), ending)
}

fn session(dice: &Dice) -> String {
    uuid::Uuid::from_u128(u128::from(dice.next()) << 64 | u128::from(dice.next())).to_string()
}
