//! Finds the question in an assistant's message: an ask block, an explicit JSON question, or the message itself.

use std::ops::Range;

use serde_json::{Map, Value};

use crate::bounded;
use crate::domain::codes::WarningCode;
use crate::domain::interaction::{Interaction, InteractionId, InteractionKind, InteractionOption};
use crate::domain::outcome::Warning;

pub(crate) const BEGIN: &str = "<ASK_USER_YAML>";
pub(crate) const END: &str = "</ASK_USER_YAML>";
/// What decides when nobody answers in time and the engine named nothing else.
const DEFAULT_POLICY: &str = "engine_judgement";
/// Longest prompt, in characters.
const PROMPT_MAX: usize = 16_000;
/// Most options of a question.
const OPTIONS_MAX: usize = 100;
/// Longest question as JSON, in bytes: it is a part of the run's row, which is written with every event.
const QUESTION_MAX: usize = 128 * 1024;

/// A question as it was understood; its number is given later.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Question {
    pub(crate) interaction: Interaction,
    /// What was wrong with the ask block.
    pub(crate) warning: Option<Warning>,
}

/// The question in an assistant's message. `message` and `ui_hints` of an explicit JSON question come first, then the
/// ask block, then the message as it stands; `None` when there is nothing a person could answer to.
pub(crate) fn question(text: &str, explicit: Option<&Map<String, Value>>) -> Option<Question> {
    let (around, block) = split_block(text);
    let plain = match explicit {
        Some(object) => object.get("message").and_then(Value::as_str).unwrap_or_default().trim().to_owned(),
        None => around.trim().to_owned(),
    };
    let mut interaction = open_text(&plain);
    if let Some(hints) = explicit.and_then(|object| object.get("ui_hints")) {
        interaction.ui_hints = hints.clone();
    }
    let mut warning = None;
    if too_long(&interaction) {
        let message = format!("the question's ui_hints are longer than {QUESTION_MAX} bytes and are left out");
        warning = Some(Warning::new(WarningCode::AskBlockInvalid, message));
        interaction.ui_hints = Value::Null;
    }
    let block_warning = block.and_then(|block| match read_block(block, &plain) {
        Ok(asked) => {
            interaction = asked;
            None
        }
        Err(reason) => {
            let message = format!("the ask block could not be used and the question is asked as plain text: {reason}");
            Some(Warning::new(WarningCode::AskBlockInvalid, message))
        }
    });
    let warning = block_warning.or(warning);
    if interaction.prompt.is_empty() && !text.trim().is_empty() {
        let unread = block.filter(|_| warning.is_some()).map(str::trim).unwrap_or_default();
        interaction.prompt = if unread.is_empty() { worded(&interaction) } else { cut(unread) };
    }
    (!interaction.prompt.is_empty()).then_some(Question { interaction, warning })
}

/// A prompt for a question without one, made from its kind and options.
fn worded(asked: &Interaction) -> String {
    let labels: Vec<&str> = asked.options.iter().map(|option| option.label.as_str()).collect();
    let what = match asked.kind {
        InteractionKind::ChooseOne => format!("asks to choose one of: {}", labels.join(", ")),
        InteractionKind::FillFields => format!("asks for: {}", asked.required_fields.join(", ")),
        InteractionKind::Confirm => "asks for a confirmation, without saying of what".to_owned(),
        InteractionKind::RiskAck => "asks to accept a risk, without saying which".to_owned(),
        InteractionKind::OpenText => "waits for an answer, without saying to what".to_owned(),
    };
    cut(&format!("The engine {what}."))
}

fn open_text(prompt: &str) -> Interaction {
    Interaction {
        interaction_id: InteractionId(0),
        kind: InteractionKind::OpenText,
        prompt: cut(prompt),
        options: Vec::new(),
        ui_hints: Value::Null,
        required_fields: Vec::new(),
        default_decision_policy: DEFAULT_POLICY.to_owned(),
        context: Value::Null,
    }
}

fn cut(text: &str) -> String {
    text.chars().take(PROMPT_MAX).collect()
}

/// The places of the ask blocks of a text, with their tags; one without its end reaches to the end of the text.
pub(super) fn blocks(text: &str) -> impl Iterator<Item = Range<usize>> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let from = at + text[at..].find(BEGIN)?;
        at = text[from..].find(END).map_or(text.len(), |end| from + end + END.len());
        Some(from..at)
    })
}

/// The text without its ask blocks: they are for programs, and the question in them is shown apart.
pub(crate) fn without_blocks(text: &str) -> String {
    let (mut rest, mut at) = (String::with_capacity(text.len()), 0);
    for block in blocks(text) {
        rest.push_str(&text[at..block.start]);
        at = block.end;
    }
    rest.push_str(&text[at..]);
    rest
}

/// Whether a text has an ask block.
pub(super) fn has_block(text: &str) -> bool {
    text.contains(BEGIN)
}

/// The text around the last ask block, and the block.
fn split_block(text: &str) -> (String, Option<&str>) {
    let Some(begin) = text.rfind(BEGIN) else { return (text.to_owned(), None) };
    let inside = &text[begin + BEGIN.len()..];
    match inside.find(END) {
        Some(end) => {
            let around = format!("{}{}", &text[..begin], &inside[end + END.len()..]);
            (around, Some(&inside[..end]))
        }
        // A block without its end is a broken block, not a part of the message.
        None => (text[..begin].to_owned(), Some(inside)),
    }
}

fn read_block(block: &str, plain: &str) -> Result<Interaction, String> {
    let yaml: Value = bounded::yaml::read(unfenced(block)).map_err(|error| error.to_string())?;
    let Value::Object(fields) = yaml else { return Err("it is not a mapping of keys to values".to_owned()) };
    const KNOWN: [&str; 7] =
        ["kind", "prompt", "options", "required_fields", "ui_hints", "default_decision_policy", "context"];
    if let Some(unknown) = fields.keys().find(|key| !KNOWN.contains(&key.as_str())) {
        return Err(format!("unknown key {unknown:?}"));
    }
    let options = options(fields.get("options"))?;
    let required_fields = strings(fields.get("required_fields"), "required_fields")?;
    let kind = match fields.get("kind") {
        None | Some(Value::Null) if !options.is_empty() => InteractionKind::ChooseOne,
        None | Some(Value::Null) if !required_fields.is_empty() => InteractionKind::FillFields,
        None | Some(Value::Null) => InteractionKind::OpenText,
        // A kind of another version, or a slip: whoever is asked answers in words.
        Some(kind) => serde_json::from_value(kind.clone()).unwrap_or(InteractionKind::OpenText),
    };
    if kind == InteractionKind::ChooseOne && options.is_empty() {
        return Err("choose_one needs options".to_owned());
    }
    if kind == InteractionKind::FillFields && required_fields.is_empty() {
        return Err("fill_fields needs required_fields".to_owned());
    }
    let prompt = match fields.get("prompt") {
        None | Some(Value::Null) => plain,
        Some(Value::String(prompt)) if !prompt.trim().is_empty() => prompt.trim(),
        Some(Value::String(_)) => plain,
        Some(_) => return Err("prompt must be a text".to_owned()),
    };
    let policy = match fields.get("default_decision_policy") {
        None | Some(Value::Null) => DEFAULT_POLICY,
        Some(Value::String(policy)) => policy,
        Some(_) => return Err("default_decision_policy must be a text".to_owned()),
    };
    let asked = Interaction {
        interaction_id: InteractionId(0),
        kind,
        prompt: cut(prompt),
        options,
        ui_hints: fields.get("ui_hints").cloned().unwrap_or_default(),
        required_fields,
        default_decision_policy: policy.to_owned(),
        context: fields.get("context").cloned().unwrap_or_default(),
    };
    if too_long(&asked) {
        return Err(format!("it is longer than {QUESTION_MAX} bytes"));
    }
    Ok(asked)
}

fn too_long(asked: &Interaction) -> bool {
    serde_json::to_string(asked).is_ok_and(|text| text.len() > QUESTION_MAX)
}

/// A block may be fenced inside its tags.
fn unfenced(block: &str) -> &str {
    let block = block.trim();
    let Some(inside) = block.strip_prefix("```").and_then(|rest| rest.strip_suffix("```")) else { return block };
    inside.split_once('\n').map_or(inside, |(_, yaml)| yaml)
}

fn options(value: Option<&Value>) -> Result<Vec<InteractionOption>, String> {
    let items = match value {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(Value::Array(items)) if items.len() <= OPTIONS_MAX => items,
        Some(Value::Array(_)) => return Err(format!("there are more than {OPTIONS_MAX} options")),
        Some(_) => return Err("options must be a list".to_owned()),
    };
    let option = |item: &Value| match item {
        Value::Object(fields) => {
            let value = fields.get("value").or_else(|| fields.get("label")).cloned().unwrap_or_default();
            let label = fields.get("label").map_or_else(|| shown(&value), shown);
            if value.is_null() {
                Err("an option needs a label or a value".to_owned())
            } else {
                Ok(InteractionOption { label, value })
            }
        }
        Value::Null | Value::Array(_) => Err("an option is a text or has label and value".to_owned()),
        Value::String(_) | Value::Number(_) | Value::Bool(_) => {
            Ok(InteractionOption { label: shown(item), value: item.clone() })
        }
    };
    items.iter().map(option).collect()
}

fn shown(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn strings(value: Option<&Value>, name: &str) -> Result<Vec<String>, String> {
    match value {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::Array(items)) => items
            .iter()
            .map(|item| item.as_str().map(str::to_owned).ok_or_else(|| format!("{name} must be a list of texts")))
            .collect(),
        Some(_) => Err(format!("{name} must be a list of texts")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_ask_block_enriches_the_question() {
        let text = "Let me ask.\n<ASK_USER_YAML>\nkind: choose_one\nprompt: Which colour?\noptions:\n  - red\n  - {label: Blue, value: b}\nui_hints: {columns: 2}\n</ASK_USER_YAML>\n";
        let asked = question(text, None).unwrap();
        let expected = Interaction {
            interaction_id: InteractionId(0),
            kind: InteractionKind::ChooseOne,
            prompt: "Which colour?".into(),
            options: vec![
                InteractionOption { label: "red".into(), value: json!("red") },
                InteractionOption { label: "Blue".into(), value: json!("b") },
            ],
            ui_hints: json!({"columns": 2}),
            required_fields: vec![],
            default_decision_policy: DEFAULT_POLICY.into(),
            context: Value::Null,
        };
        assert_eq!(asked, Question { interaction: expected, warning: None });
    }

    #[test]
    fn a_broken_block_degrades_to_open_text_with_a_warning() {
        for block in
            ["kind: [", "- a", "kind: choose_one", "kind: fill_fields", "nonsense: 1", "prompt: [1]", "options: 3"]
        {
            let asked = question(&format!("What is your name?\n{BEGIN}\n{block}\n{END}"), None).unwrap();
            assert_eq!(asked.interaction, open_text("What is your name?"), "{block}");
            assert_eq!(asked.warning.unwrap().code, "ASK_BLOCK_INVALID", "{block}");
        }
        let guess = question(&format!("Hm.\n{BEGIN}\nkind: guess\nprompt: How many?\n{END}"), None).unwrap();
        assert_eq!(
            guess,
            Question { interaction: open_text("How many?"), warning: None },
            "an unknown kind is open text"
        );
        let unclosed = question(&format!("Name?\n{BEGIN}\nkind: confirm"), None).unwrap();
        assert_eq!(unclosed.interaction.kind, InteractionKind::Confirm);
    }

    #[test]
    fn what_is_shown_of_a_message_has_no_block_in_it() {
        let text = format!("One {BEGIN}\nkind: confirm\n{END} two {BEGIN}x{END}, three");
        assert_eq!(without_blocks(&text), "One  two , three");
        assert_eq!(without_blocks(&format!("Wait. {BEGIN}\nkind: conf")), "Wait. ");
    }

    #[test]
    fn a_prompt_is_never_a_placeholder() {
        assert_eq!(question("  \n", None), None);
        assert_eq!(question("Your name?", None).unwrap().interaction.prompt, "Your name?");
        let explicit = json!({"__SKILL_DONE__": false, "message": "Which file?", "ui_hints": {"kind": "path"}});
        let asked = question("{…}", explicit.as_object()).unwrap().interaction;
        assert_eq!((asked.prompt.as_str(), asked.ui_hints), ("Which file?", json!({"kind": "path"})));
        let only_block = question(&format!("{BEGIN}\nkind: confirm\n{END}"), None).unwrap().interaction;
        assert_eq!(only_block.prompt, "The engine asks for a confirmation, without saying of what.");
        let block = |yaml: &str| question(&format!("{BEGIN}\n{yaml}\n{END}"), None).unwrap().interaction.prompt;
        assert_eq!(block("options: [red, {label: Blue, value: b}]"), "The engine asks to choose one of: red, Blue.");
        assert_eq!(block("required_fields: [name, age]"), "The engine asks for: name, age.");
        assert_eq!(block("What is: your: name?"), "What is: your: name?", "unreadable, so shown without its tags");
        let silent = json!({"__SKILL_DONE__": false});
        let asked = question("{\"__SKILL_DONE__\": false}", silent.as_object()).unwrap().interaction.prompt;
        assert_eq!(asked, "The engine waits for an answer, without saying to what.");
    }
}
