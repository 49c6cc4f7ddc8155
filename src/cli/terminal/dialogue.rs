//! Shows a question at a terminal and turns typed lines into the answer.

use serde_json::{Map, Value};

use crate::bounded;
use crate::cli::terminal::look::{harmless, one_line};
use crate::domain::interaction::{Interaction, InteractionKind};

/// Longest label of an option on its line.
const LABEL_MAX: usize = 200;

/// A question and what was answered so far.
#[derive(Debug)]
pub(crate) struct Dialogue {
    question: Interaction,
    /// Answered fields, in the order of the required ones.
    fields: Map<String, Value>,
}

/// What a line came to.
#[derive(Debug, PartialEq)]
pub(crate) enum Heard {
    /// Another line is needed; what to show before it.
    More(String),
    Answer(Value),
}

impl Dialogue {
    pub(crate) fn new(question: Interaction) -> Self {
        Self { question, fields: Map::new() }
    }

    pub(crate) fn question(&self) -> &Interaction {
        &self.question
    }

    /// The question, and what to type.
    pub(crate) fn shown(&self) -> String {
        format!("? {}\n{}", harmless(self.question.prompt.trim_end()), self.answers())
    }

    /// What can be answered, and what to type.
    pub(crate) fn answers(&self) -> String {
        let mut lines = Vec::new();
        let options = self.question.options.iter().enumerate();
        lines.extend(options.map(|(at, option)| format!("  {}) {}", at + 1, one_line(&option.label, LABEL_MAX))));
        lines.push(self.wanted());
        lines.join("\n")
    }

    /// Takes a typed line.
    pub(crate) fn hear(&mut self, line: &str) -> Heard {
        let line = line.trim();
        match self.question.kind {
            InteractionKind::FillFields => self.hear_field(line),
            InteractionKind::ChooseOne
            | InteractionKind::Confirm
            | InteractionKind::OpenText
            | InteractionKind::RiskAck => {
                // Options may be answered in other words, but not by nothing.
                if line.is_empty() && self.question.kind != InteractionKind::OpenText {
                    return Heard::More(self.wanted());
                }
                let response = response(&self.question, line);
                match self.question.flaws(&response).first() {
                    None => Heard::Answer(response),
                    Some(flaw) => Heard::More(format!("the answer {}\n{}", harmless(&flaw.message), self.wanted())),
                }
            }
        }
    }

    fn hear_field(&mut self, line: &str) -> Heard {
        let Some(name) = self.next_field().cloned() else { return Heard::Answer(Value::Object(self.fields.clone())) };
        if line.is_empty() {
            return Heard::More(format!("this field is required\n{}", self.wanted()));
        }
        self.fields.insert(name, as_value(line));
        match self.next_field() {
            Some(_) => Heard::More(self.wanted()),
            None => Heard::Answer(Value::Object(self.fields.clone())),
        }
    }

    fn next_field(&self) -> Option<&String> {
        self.question.required_fields.iter().find(|name| !self.fields.contains_key(*name))
    }

    fn or_freely(&self) -> &'static str {
        if self.question.is_strict() { "" } else { ", or your own words" }
    }

    /// What to type now.
    fn wanted(&self) -> String {
        match self.question.kind {
            InteractionKind::ChooseOne => format!("[1-{}{}]", self.question.options.len(), self.or_freely()),
            InteractionKind::Confirm | InteractionKind::RiskAck => format!("[y/n{}]", self.or_freely()),
            InteractionKind::FillFields => {
                format!("{}:", one_line(self.next_field().map_or("", String::as_str), LABEL_MAX))
            }
            InteractionKind::OpenText => "[text]".to_owned(),
        }
    }
}

/// A typed text as the answer to a question: an option by its number, label or value, y and n as they are meant, else
/// JSON where it fits, else the text.
pub(crate) fn response(question: &Interaction, text: &str) -> Value {
    match question.kind {
        InteractionKind::ChooseOne => {
            let labelled = question.options.iter().find(|option| option.label == text);
            let valued = question.options.iter().find(|option| option.value == as_value(text) || option.value == text);
            let number = text.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
            let numbered = number.and_then(|at| question.options.get(at));
            let chosen = labelled.or(valued).or(numbered);
            chosen.map_or_else(|| as_value(text), |option| option.value.clone())
        }
        InteractionKind::Confirm | InteractionKind::RiskAck => match text.to_lowercase().as_str() {
            "y" | "yes" | "true" => Value::Bool(true),
            "n" | "no" | "false" => Value::Bool(false),
            _ => as_value(text),
        },
        InteractionKind::FillFields => as_value(text),
        // Words are taken as they are written: a person who types 3 means "3".
        InteractionKind::OpenText => match as_value(text) {
            structured @ (Value::Object(_) | Value::Array(_)) => structured,
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Value::String(text.to_owned()),
        },
    }
}

/// JSON where it is JSON, else text.
pub(crate) fn as_value(text: &str) -> Value {
    bounded::json::from_str(text).unwrap_or_else(|_| Value::String(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::domain::interaction::{InteractionId, InteractionOption};

    fn ask(kind: InteractionKind) -> Dialogue {
        ask_with(kind, json!({"strict": true}))
    }

    fn ask_with(kind: InteractionKind, ui_hints: Value) -> Dialogue {
        let option = |label: &str, value: Value| InteractionOption { label: label.into(), value };
        Dialogue::new(Interaction {
            interaction_id: InteractionId(1),
            kind,
            prompt: "Well?".into(),
            options: match kind {
                InteractionKind::ChooseOne => vec![option("Red", json!("r")), option("Seven", json!(7))],
                _ => vec![],
            },
            ui_hints,
            required_fields: vec!["name".into(), "age".into()],
            default_decision_policy: String::new(),
            context: Value::Null,
        })
    }

    #[test]
    fn an_option_is_chosen_by_number_label_or_value() {
        let mut dialogue = ask(InteractionKind::ChooseOne);
        assert_eq!(dialogue.shown(), "? Well?\n  1) Red\n  2) Seven\n[1-2]");
        for (line, value) in [("1", json!("r")), (" Red ", json!("r")), ("r", json!("r")), ("7", json!(7))] {
            assert_eq!(dialogue.hear(line), Heard::Answer(value), "{line}");
        }
        for line in ["3", "0", "blue", ""] {
            assert!(matches!(dialogue.hear(line), Heard::More(_)), "{line}");
        }
    }

    #[test]
    fn other_words_are_an_answer_where_the_question_is_not_strict() {
        let mut dialogue = ask_with(InteractionKind::ChooseOne, Value::Null);
        assert_eq!(dialogue.shown(), "? Well?\n  1) Red\n  2) Seven\n[1-2, or your own words]");
        assert_eq!(dialogue.hear("blue"), Heard::Answer(json!("blue")));
        assert_eq!(dialogue.hear(" "), Heard::More("[1-2, or your own words]".into()));
        let mut dialogue = ask_with(InteractionKind::Confirm, Value::Null);
        assert_eq!(dialogue.hear("only on Mondays"), Heard::Answer(json!("only on Mondays")));
    }

    #[test]
    fn a_confirmation_is_yes_or_no() {
        for (kind, words) in
            [(InteractionKind::Confirm, "yes or no"), (InteractionKind::RiskAck, "acknowledge or decline")]
        {
            let mut dialogue = ask(kind);
            assert_eq!(dialogue.hear("Y"), Heard::Answer(json!(true)));
            assert_eq!(dialogue.hear("no"), Heard::Answer(json!(false)));
            let wanted = format!("the answer must be true or false (or {words})\n[y/n]");
            assert_eq!(dialogue.hear("perhaps"), Heard::More(wanted));
        }
    }

    #[test]
    fn fields_are_asked_one_by_one_and_each_is_required() {
        let mut dialogue = ask(InteractionKind::FillFields);
        assert_eq!(dialogue.shown(), "? Well?\nname:");
        assert_eq!(dialogue.hear(""), Heard::More("this field is required\nname:".into()));
        assert_eq!(dialogue.hear("Ann"), Heard::More("age:".into()));
        assert_eq!(dialogue.hear("41"), Heard::Answer(json!({"name": "Ann", "age": 41})));
    }

    #[test]
    fn text_is_taken_as_it_is_written() {
        let mut dialogue = ask(InteractionKind::OpenText);
        assert_eq!(dialogue.hear("3"), Heard::Answer(json!("3")));
        assert_eq!(dialogue.hear(r#"{"a": 1}"#), Heard::Answer(json!({"a": 1})));
        assert_eq!(dialogue.hear("  "), Heard::Answer(json!("")));
    }
}
