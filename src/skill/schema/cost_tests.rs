//! Tests of what violations, numbers and names may cost, in time and memory.

use serde_json::{Map, json};

use super::*;

const DRAFT_7: &str = "http://json-schema.org/draft-07/schema#";

/// What is said of a value whose violations are not collected.
const NOT_SEARCHED: &str = "it breaks the schema; a value so large is not searched for the places";

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

fn list(items: impl Iterator<Item = String>) -> Value {
    parsed(&format!("[{}]", items.collect::<Vec<_>>().join(",")))
}

fn messages(schema: &Value, value: &Value) -> Vec<String> {
    let errors = Validator::new(schema).unwrap().errors(value).unwrap();
    errors.into_iter().map(|violation| violation.message).collect()
}

/// Texts that the library would read as JSON again and again, until the stack is full.
#[test]
fn a_text_that_is_to_be_json_is_read_with_the_limits_of_any_other() {
    let schema = json!({ "$schema": DRAFT_7, "contentMediaType": "application/json" });
    assert!(messages(&schema, &json!(r#"{"a": [1]}"#)).is_empty());
    assert_eq!(messages(&schema, &json!("{")).len(), 1);
    let again = r#"{"$serde_json::private::RawValue": "[1]"}"#;
    assert_eq!(messages(&schema, &json!(again)).len(), 1);
    let mut coded = schema;
    coded["contentEncoding"] = json!("base64");
    assert!(messages(&coded, &json!("WzFd")).is_empty());
    let again = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, again);
    assert_eq!(messages(&coded, &json!(again)).len(), 1);
}

/// Compared each with each, these take many minutes: to the library's hash they are all the same.
#[test]
fn items_that_differ_beyond_floats_and_brackets_are_told_apart_in_one_pass() {
    let unique = json!({ "uniqueItems": true });
    let alike: [fn(usize) -> String; 3] = [
        |number| format!("1{number:040}"),
        |number| format!("1e{}", 400 + number),
        |number| (0..16).map(|bit| if number >> bit & 1 == 0 { "[" } else { "]" }).collect(),
    ];
    // Brackets that are in balance; there are few enough of sixteen.
    let balanced = (0..1 << 16).map(alike[2]).filter_map(|text| serde_json::from_str::<Value>(&text).ok());
    for value in [list((0..50_000).map(alike[0])), list((0..50_000).map(alike[1])), balanced.collect()] {
        assert_eq!(messages(&unique, &value), Vec::<String>::new());
    }
    let repeated = parsed(r#"[1, {"a": 1, "b": 2}, {"b": 2.0, "a": 1}]"#);
    assert_eq!(messages(&unique, &repeated), ["items 1 and 2 are equal; each may be there once"]);
}

#[test]
fn numbers_cost_by_their_digits() {
    let numbers = |count: usize, number: &str| list(std::iter::repeat_n(number.to_owned(), count));
    for (keyword, limit) in
        [("minimum", "0"), ("maximum", "1e500"), ("multipleOf", "0.01"), ("const", "1"), ("enum", "[1, 2.5]")]
    {
        let validator = Validator::new(&json!({ "items": { keyword: parsed(limit) } })).unwrap();
        for number in ["1e-9990", "1.5e9990", &"9".repeat(9990)] {
            let costly = validator.errors(&numbers(5000, number));
            assert_eq!(costly, Err(TooCostly::Steps), "{keyword} {}", &number[..7]);
            assert!(!validator.is_quick(&numbers(100, number)), "{keyword} {}", &number[..7]);
        }
    }
    let validator = Validator::new(&json!({ "items": { "type": "number", "minimum": 0 } })).unwrap();
    assert_eq!(validator.errors(&numbers(100_000, "12345678901234567890.125")), Ok(vec![]));
    assert_eq!(validator.errors(&numbers(1, "1e-9990")), Ok(vec![]));
    for limit in ["1e-9990".to_owned(), "9".repeat(900_000)] {
        let refused = Validator::new(&parsed(&format!(r#"{{ "minimum": {limit} }}"#))).unwrap_err().message;
        assert_eq!(refused, "its parts apply to one place of a value more than 100000 times");
    }
}

/// Each violation would hold its path, the forbidden schema, the names that are not allowed or a copy of the value.
#[test]
fn violations_that_would_fill_the_memory_are_not_collected() {
    let name = "n".repeat(200_000);
    let of = |name: &str, value: Value| Value::Object(Map::from_iter([(name.to_owned(), value)]));
    let alternatives = |each: Value, count: usize| Value::Array(vec![each; count]);
    for (schema, value) in [
        (json!({ "additionalProperties": { "items": { "type": "string" } } }), of(&name, json!(vec![1; 50_000]))),
        (json!({ "items": { "not": { "description": name } } }), json!(vec![1; 50_000])),
        (json!({ "allOf": alternatives(json!({ "additionalProperties": false }), 2000) }), of(&name, json!(1))),
        (json!({ "anyOf": alternatives(json!({ "type": "string" }), 2000) }), of("a", json!(vec![1; 50_000]))),
        (json!({ "anyOf": alternatives(json!({ "required": ["b", "c"] }), 2000) }), of("a", json!(name))),
        (json!({ "allOf": alternatives(json!({ "unevaluatedItems": false }), 2000) }), json!([[name]])),
    ] {
        assert_eq!(messages(&schema, &value), [NOT_SEARCHED], "{}", &schema.to_string()[..40]);
    }
    let paths = Validator::new(&json!({ "additionalProperties": { "type": "string" } })).unwrap();
    let told = paths.errors(&of(&name, json!(1))).unwrap();
    assert_eq!(told[0].path.chars().count(), MAX_MESSAGE_CHARS + 1, "a path is cut like a message");
}

#[test]
fn the_places_in_a_value_of_a_usual_size_are_told() {
    let row = json!({ "type": "object", "required": ["id"], "additionalProperties": false, "properties": {
        "id": { "type": "string", "maxLength": 64 },
        "at": { "anyOf": [{ "type": "string" }, { "type": "null" }, { "type": "object", "required": ["s"] }] } } });
    let value = json!(vec![json!({ "id": "x".repeat(70), "at": { "t": [1, 2, 3] } }); 5000]);
    assert_eq!(messages(&json!({ "items": row }), &value).len(), MAX_VIOLATIONS);
}

/// The compiled schema has the path to every keyword written out.
#[test]
fn long_names_above_many_parts_are_refused() {
    let schema = |name: usize, parts: usize| {
        let deep = json!({ "allOf": vec![json!({ "type": "string" }); parts] });
        json!({ "properties": { ("n".repeat(name)): deep } })
    };
    let refused = Validator::new(&schema(400_000, 5000)).unwrap_err().message;
    assert_eq!(refused, "its names are so long that the paths to its parts take more than 33554432 bytes");
    assert!(Validator::new(&schema(400_000, 10)).is_ok());
    assert!(Validator::new(&schema(100, 5000)).is_ok());
}

/// The schema of schemas of these drafts compares them each with each.
#[test]
fn a_long_enum_of_an_old_draft_is_refused() {
    let schema = |draft: &str, count: usize| {
        let numbers = list((0..count).map(|number| format!("1{number:040}")));
        json!({ "$schema": format!("http://json-schema.org/draft-{draft}/schema#"), "enum": numbers })
    };
    let refused = Validator::new(&schema("04", 20_000)).unwrap_err().message;
    assert_eq!(refused, "an enum of its draft has more than 1000 values that are not texts");
    assert!(Validator::new(&schema("06", 2000)).is_err());
    assert!(Validator::new(&schema("04", 100)).is_ok());
    assert!(Validator::new(&schema("07", 2000)).is_ok());
}
