//! Tests of reading text as JSON: what is repaired, what is refused, and that hostile text takes no longer.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::StepName::{self, *};
use super::scan::{Scan, scan};
use super::{Level, Step, parse, validate};
use crate::skill::schema::Validator;
use crate::skill::schema::Violation;

fn check(text: &str, value: Value, steps: &[StepName]) {
    let parsed = parse(text);
    let taken: Vec<StepName> = parsed.steps.iter().filter(|step| step.ok).map(|step| step.step).collect();
    assert_eq!((parsed.value, taken.as_slice()), (Some(value), steps), "{text}");
    assert_eq!(parsed.level, if steps == [AsIs] { Level::None } else { Level::N0 }, "{text}");
}

fn check_missing(text: &str) {
    let parsed = parse(text);
    assert_eq!((parsed.value, parsed.level), (None, Level::N0), "{text}");
    assert!(parsed.steps.iter().any(|step| step.step == Extract && !step.ok), "{text}");
}

#[test]
fn json_is_taken_as_it_stands() {
    check(r#"{"a": [1, 2.5, "x", null, true]}"#, json!({ "a": [1, 2.5, "x", null, true] }), &[AsIs]);
    check(" \n[1]\t", json!([1]), &[AsIs]);
    check("42", json!(42), &[AsIs]);
}

#[test]
fn wrappings_are_removed() {
    let value = || json!({ "a": 1 });
    check("\u{feff}{\"a\":1}", value(), &[RemoveBom]);
    check("```json\n{\"a\":1}\n```", value(), &[RemoveFences]);
    check("```\n{\"a\":1}", value(), &[RemoveFences]);
    check("\u{feff}```json\r\n{\"a\":1}\r\n```\r\n", value(), &[RemoveBom, RemoveFences]);
    check("````json\n{\"a\":1}\n````", value(), &[RemoveFences]);
    check("Here it is:\n```json\n{\"a\":1}\n```\nDone.", value(), &[RemoveFences, RemoveProse]);
    check("Here it is: {\"a\":1}. Done {really}.", value(), &[RemoveProse]);
    check("```json {\"a\":1} ```", value(), &[RemoveProse]);
    check("First [note], then [true story]: {\"a\":1}", value(), &[RemoveProse]);
    check("- [ ] a box\n- [x] another\n{\"a\":1}", value(), &[RemoveProse]);
}

#[test]
fn a_fence_that_holds_json_comes_before_what_stands_around_it() {
    let text = "From {\"in\":1}:\n```python\nprint({\"no\":1})\n```\n```json\n{\"out\":1}\n```\n";
    check(text, json!({ "out": 1 }), &[RemoveFences, RemoveProse]);
}

#[test]
fn the_first_complete_value_is_taken() {
    check("a [1, 2] b {\"c\": 3}", json!([1, 2]), &[RemoveProse]);
    check("a {} b", json!({}), &[RemoveProse]);
    check("{\"a\":1}\n{\"b\":2}", json!({ "a": 1 }), &[RemoveProse]);
    check("text with \"{\\\"\" and {\"md\":\"```x```\"}", json!({ "md": "```x```" }), &[RemoveProse]);
}

#[test]
fn slips_of_syntax_are_put_right() {
    check("{\"a\":[1,2,],}", json!({ "a": [1, 2] }), &[TrailingCommas]);
    check("{“a”: „b‟, ‘c’: ‘say \"d\"’}", json!({ "a": "b", "c": "say \"d\"" }), &[SmartQuotes]);
    check("{\"a\": {\"b\": [1, \"x\"", json!({ "a": { "b": [1, "x"] } }), &[CloseBrackets]);
    check("{\"a\": 1,", json!({ "a": 1 }), &[TrailingCommas, CloseBrackets]);
    check("{\"a\": [1, null", json!({ "a": [1, null] }), &[CloseBrackets]);
    check("Look: {“a”: [1,]", json!({ "a": [1] }), &[RemoveProse, SmartQuotes, TrailingCommas, CloseBrackets]);
}

#[test]
fn quotes_and_commas_inside_strings_stay() {
    check("x {\"a\": \"“b”, ],} ‘c’\"}", json!({ "a": "“b”, ],} ‘c’" }), &[RemoveProse]);
}

#[test]
fn what_would_be_a_guess_is_refused() {
    for text in [
        "",
        "no json here",
        "{\"a\": \"cut in the mid",
        "{\"a\":",
        "{\"a\"",
        "{\"a\": tru",
        "{'a': 1}",
        "{\"a\": 1 \"b\": 2}",
        "{\"a\": [1, 2}",
        " extra }",
        "{\"a\": \"line\nbreak\"}",
        "an open [",
        // It may have been 1500.
        "{\"success\":true,\"action\":\"run\",\"data\":{\"items\":[1,2],\"total\":15",
        "{\"a\": 15\n",
        "```json\n{\"a\": 15\n```",
        "{\"a\": [1, -",
        "[ ] a box, and [1, 2.",
        "[ ] a box, and [fal",
    ] {
        check_missing(text);
    }
}

#[test]
fn a_part_of_a_broken_value_is_never_the_answer() {
    check_missing("{\"meta\": {\"x\": 1}, \"b\": oops, \"c\": {\"d\": 1}}");
    check_missing("{\"items\": [{\"id\": 1}, {\"id\": 2}, {\"id\": \"ab");
    check_missing("{\"a\": \"see [“b”]");
    check_missing("{“a”: ‘see [\"b\"]");
    check_missing("- [ ] a box\n{\"a\": \"cut");
    check_missing("{\"a\": oops, \"b\": \"see [1, 2] for");
    check("{\"a\": <value>, \"b\": {\"c\": 1}} means {\"a\": 5}", json!({ "a": 5 }), &[RemoveProse]);
    check("a stray [5\" pipe, {\"a\": 5}", json!({ "a": 5 }), &[RemoveProse]);
}

#[test]
fn a_value_deeper_than_the_parser_goes_is_refused_without_a_crash() {
    let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    assert_eq!(parse(&nested(127)).level, Level::None);
    check_missing(&nested(128));
    check_missing(&nested(900_000));
}

#[test]
fn hostile_texts_cost_no_more_than_their_length() {
    // Takes a second or two; quadratic time would take hours.
    let units =
        ["[", "{\"a\":", "[\"", "{\"a\":1 ", "[“", "[‘]", "[\"\\", "```\n", "```\n[1\n", "[1,", "{}", "[]]", "[\n"];
    for unit in units {
        let text = unit.repeat(512 * 1024 / unit.len());
        parse(&text);
        parse(&format!("{text}\"x\\"));
    }
    parse(&"[".repeat(10 * 1024 * 1024));
}

#[test]
fn validation_gives_the_step_to_record_and_every_violation() {
    let schema = Validator::new(&json!({ "type": "object", "required": ["a"] })).unwrap();
    let valid = validate(&json!({ "a": 1 }), &schema);
    assert_eq!(valid, (Step::new(Validate, true, "the value keeps the output schema"), Ok(vec![])));
    let error = "\"a\" is a required property";
    let step = Step::new(Validate, false, format!("1 violations, the first at \"\": {error}"));
    let violation = Violation { path: String::new(), message: error.into() };
    assert_eq!(validate(&json!({}), &schema), (step, Ok(vec![violation])));
}

#[test]
fn levels_and_steps_have_their_names_on_paper() {
    let levels = [Level::None, Level::N0, Level::N1, Level::N2, Level::N3];
    assert_eq!(json!(levels), json!(["none", "N0", "N1", "N2", "N3"]));
    assert_eq!(json!([AsIs, CloseBrackets, Normalizer]), json!(["as_is", "close_brackets", "normalizer"]));
}

fn any_json() -> impl Strategy<Value = Value> {
    let scalar = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "\\PC{0,8}".prop_map(Value::from),
        "[\"\\\\“”‘{}\\[\\],:`\u{feff}\n]{0,8}".prop_map(Value::from),
    ];
    scalar.prop_recursive(4, 40, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::vec(("\\PC{0,6}", inner), 0..6).prop_map(|fields| fields.into_iter().collect()),
        ]
    })
}

fn any_container() -> impl Strategy<Value = Value> {
    any_json().prop_map(|value| json!({ "value": value }))
}

/// Values whose strings may stand between any quotes.
fn plain_container() -> impl Strategy<Value = Value> {
    let scalar = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "[a-z {}\\[\\],:]{0,8}".prop_map(Value::from),
    ];
    let value = scalar.prop_recursive(4, 40, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::vec(("[a-z]{0,6}", inner), 0..6).prop_map(|fields| fields.into_iter().collect()),
        ]
    });
    // A number at the very end would be cut off as soon as the brackets behind it are gone.
    value.prop_map(|value| json!({ "value": value, "last": "end" }))
}

/// Writes a value as a careless writer would: typographic quotes, commas before closing brackets.
fn write_with_slips(value: &Value, slips: &mut impl Iterator<Item = bool>, text: &mut String) {
    let quoted = |string: &str, slip: Option<bool>| match slip {
        Some(true) => format!("“{string}”"),
        Some(false) | None => format!("\"{string}\""),
    };
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => text.push_str(&value.to_string()),
        Value::String(string) => text.push_str(&quoted(string, slips.next())),
        Value::Array(items) => {
            text.push('[');
            for (index, item) in items.iter().enumerate() {
                write_with_slips(item, slips, text);
                if index + 1 < items.len() || slips.next() == Some(true) {
                    text.push(',');
                }
            }
            text.push(']');
        }
        Value::Object(fields) => {
            text.push('{');
            for (index, (key, item)) in fields.iter().enumerate() {
                text.push_str(&quoted(key, slips.next()));
                text.push(':');
                write_with_slips(item, slips, text);
                if index + 1 < fields.len() || slips.next() == Some(true) {
                    text.push(',');
                }
            }
            text.push('}');
        }
    }
}

/// Parts of hostile texts.
fn any_piece() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "[", "]", "{", "}", ",", ":", "\"", "“", "”", "‘", "’", "`", "\n", " ", "\\", "a", "1", "-2", "true",
        "{\"a\":", "\"x\",",
    ])
}

/// A text without its punctuation, quotes and blanks: what it means.
fn words_alone(text: &str) -> String {
    text.replace(['[', ']', '{', '}', ',', ':', '"', '\\', '“', '”', '‘', '’', ' ', '\n'], "")
}

proptest! {
    #[test]
    fn valid_json_is_returned_unchanged(value in any_json(), pretty in any::<bool>()) {
        let text = if pretty { serde_json::to_string_pretty(&value) } else { serde_json::to_string(&value) }.expect("text");
        let parsed = parse(&text);
        prop_assert_eq!((parsed.level, parsed.value), (Level::None, Some(value)));
    }

    #[test]
    fn wrapped_json_is_the_same_value_at_n0(value in any_container(), before in "[a-z .]{1,20}", wrap in 0..5) {
        let text = serde_json::to_string_pretty(&value).expect("text");
        let wrapped = match wrap {
            0 => format!("\u{feff}{text}"),
            1 => format!("```json\n{text}\n```"),
            2 => format!("{before}:\n\n{text}\n\n{before}"),
            3 => format!("x{before}\n```\n{text}\n```\n{before}"),
            _ => format!("x{before} ```json {text}``` {before}"),
        };
        let parsed = parse(&wrapped);
        prop_assert_eq!((parsed.level, parsed.value), (Level::N0, Some(value)));
    }

    #[test]
    fn a_text_cut_anywhere_gives_no_value_with_tokens_it_did_not_hold(value in any_container(), cut in 0.0..1.0f64) {
        let text = serde_json::to_string(&value).expect("text");
        let cut = text.floor_char_boundary((text.len() as f64 * cut) as usize);
        if let Some(value) = parse(&text[..cut]).value {
            // Closing brackets adds nothing else: written again, the value is what the text began with.
            let again = value.to_string();
            let held = again.trim_end_matches(['}', ']']);
            prop_assert!(text.starts_with(held), "{held} of {text}");
            // And its last token is complete in the text, not the beginning of a longer one.
            let whole = held.ends_with(['{', '[']) || text[held.len()..].starts_with([',', '}', ']']);
            prop_assert!(whole, "{held} of {text}");
        }
    }

    #[test]
    fn slips_of_syntax_leave_every_token_as_it_was(
        value in plain_container(),
        slips in prop::collection::vec(any::<bool>(), 64),
        open_at_the_end in any::<bool>(),
        wrap in 0..4,
    ) {
        let mut text = String::new();
        write_with_slips(&value, &mut slips.iter().copied().cycle(), &mut text);
        let text = if open_at_the_end { text.trim_end_matches(['}', ']']) } else { &text };
        let wrapped = match wrap {
            0 => format!("\u{feff}{text}"),
            1 => format!("```json\n{text}\n```"),
            2 => format!("```\n{text}"),
            _ => format!("So it is: {text}"),
        };
        let parsed = parse(&wrapped);
        prop_assert_eq!((parsed.level, parsed.value), (Level::N0, Some(value)), "{}", wrapped);
    }

    #[test]
    fn a_repair_changes_nothing_but_punctuation_and_quoting(pieces in prop::collection::vec(any_piece(), 0..40)) {
        let text = pieces.concat();
        for (start, _) in text.match_indices(['{', '[']) {
            if let Scan::Whole { end, json, .. } = scan(&text, start) {
                prop_assert_eq!(words_alone(&json), words_alone(&text[start..end]), "{} of {}", json, text);
            }
        }
    }

    #[test]
    fn nothing_makes_it_panic(text in "[\\[\\]{}\",:\\\\“”‘’`\n a1t\u{feff}-]{0,60}") {
        parse(&text);
    }
}

#[test]
fn a_text_of_more_than_a_million_values_is_not_read() {
    let text = |values: usize| format!("[{}0]", "0,".repeat(values));
    assert!(parse(&text(900_000)).value.is_some());
    let refused = parse(&text(1_000_000));
    assert_eq!(
        (refused.value, refused.steps[0].detail.as_str()),
        (None, "the text has more than 1000000 values of JSON")
    );
}
