//! Where an engine's result may be: its result file, its structured output, and every message of its turn.

use std::ops::Range;

use serde_json::{Value, json};

use super::extract;
use super::parse::{Parsed, too_many_values};
use super::step::{Step, StepName};
use crate::bounded;
use crate::domain::codes::WarningCode;
use crate::domain::event::ValidationError;
use crate::domain::outcome::Warning;
use crate::domain::validation::NormalizationLevel as Level;
use crate::skill::schema::{TooCostly, Validator};

/// The marker of completion.
pub(crate) const DONE_MARKER: &str = "__SKILL_DONE__";
/// Most values that are looked at in one text, and most that are checked in a turn: the last ones.
const OFFERS_MAX: usize = 64;
/// Most places that a warning names.
const PLACES_MAX: usize = 8;

/// A place that is looked at for the result; those before others in this list win.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Source {
    ResultFile,
    StructuredOutput,
    /// A message of the assistant, by its number in the turn, from 1.
    Message(usize),
}

impl Source {
    /// As events name it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::ResultFile => "result_file",
            Self::StructuredOutput => "structured_output",
            Self::Message(_) => "assistant_message",
        }
    }

    fn rank(self) -> u8 {
        match self {
            Self::ResultFile => 0,
            Self::StructuredOutput => 1,
            Self::Message(_) => 2,
        }
    }
}

/// A value that may be the result.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Offer {
    pub(crate) source: Source,
    /// Its bytes in the text of its source.
    pub(crate) place: Range<usize>,
    /// How it was read; the marker is no part of its value.
    pub(crate) parsed: Parsed,
    /// The marker's member, if it had one.
    pub(crate) marker: Option<Value>,
}

impl Offer {
    /// The values in a text of a source.
    pub(crate) fn all_in(source: Source, text: &str) -> Vec<Offer> {
        let offer = |(mut parsed, place): (Parsed, Range<usize>)| {
            let marker = take_marker(&mut parsed);
            Offer { source, place, parsed, marker }
        };
        readings(text).into_iter().map(offer).collect()
    }

    /// Whether it says that it is a question.
    pub(crate) fn is_question(&self) -> bool {
        self.marker == Some(Value::Bool(false))
    }

    /// How many values it holds, those inside others included.
    pub(super) fn values(&self) -> usize {
        let (mut count, mut waiting) = (0, vec![self.value()]);
        while let Some(value) = waiting.pop() {
            count += 1;
            match value {
                Value::Array(items) => waiting.extend(items),
                Value::Object(members) => waiting.extend(members.values()),
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
            }
        }
        count
    }

    fn value(&self) -> &Value {
        self.parsed.value.as_ref().unwrap_or(&Value::Null)
    }

    fn place_told(&self) -> String {
        let Range { start, end } = &self.place;
        match self.source {
            Source::Message(number) => format!("bytes {start} to {end} of message {number}"),
            Source::ResultFile => format!("bytes {start} to {end} of the result file"),
            Source::StructuredOutput => "the structured output".to_owned(),
        }
    }
}

/// Every JSON value in a text, with its bytes.
fn readings(text: &str) -> Vec<(Parsed, Range<usize>)> {
    let from = text.len() - text.trim_start().len();
    let trimmed = text.trim();
    if too_many_values(trimmed).is_some() {
        return Vec::new();
    }
    let error = match bounded::json::from_str(trimmed) {
        Ok(value) => return vec![(Parsed::as_it_stands(value), from..from + trimmed.len())],
        Err(error) => error.to_string(),
    };
    let mut steps = vec![Step::new(StepName::AsIs, false, error)];
    let bare = extract::without_bom(trimmed, &mut steps);
    // Nothing was taken away behind it.
    let from = from + trimmed.len() - bare.len();
    if let Ok(value) = bounded::json::from_str(bare) {
        return vec![(Parsed { level: Level::N0, value: Some(value), steps }, from..from + bare.len())];
    }
    let read = |found: extract::Found| {
        let steps = steps.iter().cloned().chain(found.steps).collect();
        let parsed = Parsed { level: Level::N0, value: Some(found.value), steps };
        (parsed, from + found.place.start..from + found.place.end)
    };
    extract::values(bare, OFFERS_MAX).into_iter().map(read).collect()
}

/// Removes the marker from the members of a value and returns it.
pub(super) fn take_marker(parsed: &mut Parsed) -> Option<Value> {
    parsed.value.as_mut()?.as_object_mut()?.shift_remove(DONE_MARKER)
}

/// What became of the offers of a turn.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Choice {
    /// This one keeps the schema; the warning names others that it differs from.
    Valid(Offer, Option<Warning>),
    /// None keeps the schema; this one would be the result.
    Invalid(Offer, Vec<ValidationError>),
    /// To check this one would take too long.
    TooCostly(Offer, TooCostly),
    /// There is none.
    Nothing,
}

/// The result among the offers: the last that keeps the schema, of the first source that has one; else the last of the
/// first source that has any. The offers stand in the order in which they were made; questions are none.
pub(crate) fn choose(offers: &[Offer], output: &Validator) -> Choice {
    let mut offers: Vec<&Offer> = offers.iter().filter(|offer| !offer.is_question()).collect();
    offers.sort_by_key(|offer| std::cmp::Reverse(offer.source.rank()));
    // From here on the best offer stands last. Whatever the others cost, it is checked as if it were alone.
    let mut steps = Validator::ALL_STEPS_MAX;
    for offer in offers.iter().rev().take(OFFERS_MAX) {
        match output.errors_within(offer.value(), &mut steps) {
            Ok(errors) if errors.is_empty() => {
                return Choice::Valid((*offer).clone(), several(offer, &offers));
            }
            Ok(_) => {}
            Err(costly) => return Choice::TooCostly((*offer).clone(), costly),
        }
    }
    let Some(first) = offers.last().map(|offer| offer.source.rank()) else { return Choice::Nothing };
    // A number in brackets is hardly meant as the result when there is an object.
    let looks_meant = |offer: &Offer| match offer.value() {
        Value::Object(_) => 2,
        Value::Array(_) => 1,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
    };
    let of_source = offers.iter().filter(|offer| offer.source.rank() == first);
    let Some(meant) = of_source.max_by_key(|offer| looks_meant(offer)) else { return Choice::Nothing };
    match output.errors(meant.value()) {
        Ok(errors) => Choice::Invalid((*meant).clone(), errors),
        Err(costly) => Choice::TooCostly((*meant).clone(), costly),
    }
}

/// The warning for an answer that holds other objects than the one that was taken.
fn several(taken: &Offer, offers: &[&Offer]) -> Option<Warning> {
    let Source::Message(_) = taken.source else { return None };
    let differs =
        |offer: &&&Offer| offer.source == taken.source && offer.value().is_object() && offer.value() != taken.value();
    let others: Vec<&&Offer> = offers.iter().filter(differs).take(PLACES_MAX).collect();
    if others.is_empty() {
        return None;
    }
    let named: Vec<String> = others.iter().map(|offer| offer.place_told()).collect();
    let message = format!(
        "the answer holds different JSON objects; the last one that matches the schema was taken, at {}, and not the one at {}",
        taken.place_told(),
        named.join(", at ")
    );
    let mut warning = Warning::new(WarningCode::OutputAmbiguous, message);
    let place = |offer: &Offer| {
        let Source::Message(number) = offer.source else { return Value::Null };
        json!({ "message": number, "byte_from": offer.place.start, "byte_to": offer.place.end })
    };
    warning.details.insert("taken".into(), place(taken));
    warning.details.insert("others".into(), others.iter().map(|offer| place(offer)).collect());
    Some(warning)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offers(messages: &[&str]) -> Vec<Offer> {
        let numbered = messages.iter().enumerate();
        numbered.flat_map(|(index, text)| Offer::all_in(Source::Message(index + 1), text)).collect()
    }

    fn named() -> Validator {
        let schema = json!({ "type": "object", "required": ["name"], "properties": { "name": { "type": "string" } } });
        Validator::new(&schema).unwrap()
    }

    fn taken(messages: &[&str]) -> Option<Value> {
        match choose(&offers(messages), &named()) {
            Choice::Valid(offer, _) => offer.parsed.value,
            Choice::Invalid(..) | Choice::TooCostly(..) | Choice::Nothing => None,
        }
    }

    #[test]
    fn the_last_json_of_all_messages_that_keeps_the_schema_is_taken() {
        let ann = || Some(json!({ "name": "Ann" }));
        assert_eq!(taken(&[r#"{"name": "Bob"}"#, r#"{"name": "Ann"}"#]), ann());
        assert_eq!(taken(&[r#"{"name": "Ann"}"#, "That is all."]), ann());
        assert_eq!(taken(&[r#"It is {"name": "Ann"}."#, r#"{"name": 3}"#, "see [1]"]), ann());
        assert_eq!(taken(&[r#"{"name": "Ann", "__SKILL_DONE__": true}"#]), ann());
        assert_eq!(taken(&[r#"{"name": "Ann", "__SKILL_DONE__": false}"#]), None);
        assert_eq!(taken(&["```json\n{\"name\": \"Ann\"}\n```\nand {\"a\": 1}"]), ann());
        assert_eq!(taken(&["{\"a\": 1} then {\"name\": \"Ann\"} then {\"name\": \"cut"]), ann());
    }

    #[test]
    fn a_file_comes_before_structured_output_and_that_before_messages_unless_only_the_later_is_valid() {
        let output = named();
        let made = |file: &str, structured: &str, message: &str| -> Vec<Offer> {
            let texts =
                [(Source::Message(1), message), (Source::StructuredOutput, structured), (Source::ResultFile, file)];
            texts.into_iter().flat_map(|(source, text)| Offer::all_in(source, text)).collect()
        };
        let source = |offers: &[Offer]| match choose(offers, &output) {
            Choice::Valid(offer, _) => ("valid", Some(offer.source)),
            Choice::Invalid(offer, _) => ("invalid", Some(offer.source)),
            Choice::TooCostly(..) | Choice::Nothing => ("none", None),
        };
        let (good, bad) = (r#"{"name": "Ann"}"#, r#"{"name": 3}"#);
        assert_eq!(source(&made(good, good, good)), ("valid", Some(Source::ResultFile)));
        assert_eq!(source(&made(bad, good, good)), ("valid", Some(Source::StructuredOutput)));
        assert_eq!(source(&made(bad, bad, good)), ("valid", Some(Source::Message(1))));
        assert_eq!(source(&made(bad, bad, bad)), ("invalid", Some(Source::ResultFile)));
        assert_eq!(source(&made("", "", "")), ("none", None));
    }

    #[test]
    fn without_a_valid_one_the_last_object_is_judged_and_not_a_footnote() {
        let Choice::Invalid(offer, errors) = choose(&offers(&[r#"{"a": 1} or {"a": 2}, see [1]"#]), &named()) else {
            panic!("nothing was judged")
        };
        assert_eq!(offer.parsed.value, Some(json!({ "a": 2 })));
        assert_eq!(errors.len(), 1);
    }

    #[test]
    fn two_different_objects_in_one_answer_are_told_with_their_places() {
        let text = "A: {\"name\": \"Ann\"}\nB: {\"name\": \"Bob\"}";
        let Choice::Valid(offer, Some(warning)) = choose(&offers(&["so", text]), &named()) else {
            panic!("no warning")
        };
        assert_eq!(&text[offer.place], "{\"name\": \"Bob\"}");
        assert_eq!(warning.code, "OUTPUT_AMBIGUOUS");
        assert_eq!(
            Value::Object(warning.details),
            json!({
                "taken": { "message": 2, "byte_from": 22, "byte_to": 37 },
                "others": [{ "message": 2, "byte_from": 3, "byte_to": 18 }],
            })
        );
        assert!(warning.message.contains("bytes 22 to 37 of message 2, and not the one at bytes 3 to 18 of message 2"));
        let same = "{\"name\": \"Ann\"}\n{\"name\": \"Ann\"}";
        assert!(matches!(choose(&offers(&[same]), &named()), Choice::Valid(_, None)));
    }

    #[test]
    fn a_place_is_counted_from_the_beginning_of_the_message() {
        for (text, value) in [
            ("  {\"a\":1}\n", "{\"a\":1}"),
            (" \u{feff} {\"a\":1}", "{\"a\":1}"),
            ("\u{feff}x {\"a\":1} y", "{\"a\":1}"),
            ("é\n```\n{\"a\":1}\n```\n", "```\n{\"a\":1}\n```\n"),
        ] {
            let made = Offer::all_in(Source::Message(1), text);
            assert_eq!(
                made.iter().map(|offer| &text[offer.place.clone()]).collect::<Vec<_>>(),
                [value.trim_end()],
                "{text:?}"
            );
        }
    }
}
