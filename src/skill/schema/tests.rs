//! Tests of schemas: what they find, and what they may cost.

use serde_json::json;

use super::*;

#[test]
fn every_violation_is_named_by_its_place() {
    let schema = json!({ "type": "object", "required": ["a"], "properties": { "b": { "type": "integer" } } });
    let validator = Validator::new(&schema).unwrap();
    assert_eq!(
        validator.errors(&json!({ "b": "x" })).unwrap(),
        [
            Violation { path: String::new(), message: "\"a\" is a required property".into() },
            Violation { path: "/b".into(), message: "\"x\" is not of type \"integer\"".into() },
        ]
    );
    assert_eq!(validator.errors(&json!({ "a": 1 })), Ok(vec![]));
}

#[test]
fn violations_are_bounded_in_number_and_length() {
    let validator = Validator::new(&json!({ "items": { "type": "string" } })).unwrap();
    assert_eq!(validator.errors(&json!(vec![1; 1000])).unwrap().len(), MAX_VIOLATIONS);
    let long = Validator::new(&json!({ "type": "integer" })).unwrap().errors(&json!("x".repeat(10_000))).unwrap();
    assert_eq!(long[0].message.chars().count(), MAX_MESSAGE_CHARS + 1);
}

#[test]
fn a_schema_from_elsewhere_is_refused_and_not_fetched() {
    for reference in ["http://127.0.0.1:9/schema.json", "file:///etc/hostname", "https://example.com/x"] {
        assert!(Validator::new(&json!({ "$ref": reference })).is_err(), "{reference}");
    }
    assert!(Validator::new(&json!({ "type": "objekt" })).is_err());
}

#[test]
fn a_schema_that_refers_to_itself_for_ever_does_no_harm() {
    for schema in [
        json!({ "$ref": "#" }),
        json!({ "type": "object", "allOf": [{ "$ref": "#" }] }),
        json!({ "anyOf": [{ "$ref": "#/$defs/a" }], "$defs": { "a": { "$ref": "#/$defs/b" }, "b": { "$ref": "#/$defs/a" } } }),
        json!({ "not": { "$ref": "#" } }),
    ] {
        if let Ok(validator) = Validator::new(&schema) {
            drop(validator.errors(&json!({})));
        }
    }
}

#[test]
fn a_pattern_made_to_backtrack_for_ever_gives_up() {
    let text = json!("a".repeat(5000) + "!");
    for pattern in ["^(a+)+$", "^(?=(a+)+$)b", "^(a|a)*\\1$", "(.*)*(.*)*(.*)*x"] {
        assert_eq!(
            Validator::new(&json!({ "pattern": pattern })).unwrap().errors(&text).map_or(1, |errors| errors.len()),
            1,
            "{pattern}"
        );
    }
}

#[test]
fn formats_are_asserted_where_the_draft_says_so() {
    let value = json!("not a date");
    assert_eq!(Validator::new(&json!({ "format": "date" })).unwrap().errors(&value), Ok(vec![]));
    let draft7 = json!({ "$schema": "http://json-schema.org/draft-07/schema#", "format": "date" });
    assert_eq!(Validator::new(&draft7).unwrap().errors(&value).unwrap().len(), 1);
}

/// A schema whose parts lead on by references, each level made by `level` of a reference to the next.
fn chain(levels: usize, refer: impl Fn(usize) -> String, level: impl Fn(usize, Value) -> Value) -> Value {
    let next = |number: usize| json!({ "$ref": refer(number) });
    let mut defs: serde_json::Map<String, Value> =
        (0..levels).map(|number| (format!("a{number}"), level(number, next(number + 1)))).collect();
    let last = level(levels, json!({ "type": "object" }));
    defs.insert(format!("a{levels}"), last);
    json!({ "type": "object", "$ref": refer(0), "$defs": defs })
}

fn twice(_: usize, next: Value) -> Value {
    json!({ "allOf": [next.clone(), next] })
}

fn refusal(schema: &Value) -> String {
    Validator::new(schema).unwrap_err().message
}

#[test]
fn references_that_multiply_are_found_however_they_are_written() {
    let pointer = |number: usize| format!("#/$defs/a{number}");
    assert!(Validator::new(&chain(10, pointer, twice)).is_ok());
    let with = |key: &'static str, value: fn(usize) -> String| {
        move |number: usize, next: Value| {
            let mut level = twice(number, next);
            level[key] = json!(value(number));
            level
        }
    };
    let url = |number: usize| format!("http://example.com/a{number}");
    let anchor = |number: usize| format!("x{number}");
    let many = "apply to one place of a value more than 100000 times";
    for schema in [
        chain(40, pointer, twice),
        chain(40, |number| format!("#/%24defs/a{number}"), twice),
        chain(40, |number| format!("#/$defs/%61{number}"), twice),
        chain(40, |number| format!("#/%24%64efs/%61{number}"), twice),
        chain(40, url, with("$id", url)),
        chain(40, |number| format!("a{number}"), with("$id", |number| format!("a{number}"))),
        chain(40, |number| format!("#x{number}"), with("$anchor", anchor)),
        chain(40, |number| format!("#x{number}"), with("$dynamicAnchor", anchor)),
        chain(40, pointer, |_, next| json!({ "if": next.clone(), "then": next })),
        chain(40, pointer, |_, next| json!({ "anyOf": [next.clone(), next] })),
        chain(40, pointer, |_, next| json!({ "not": next.clone(), "dependentSchemas": { "x": next } })),
        chain(40, pointer, |_, next| json!({ "allOf": [next.clone(), next], "unevaluatedProperties": false })),
    ] {
        let mut schema = schema;
        if schema.to_string().contains("\"a0\"") && !schema.to_string().contains("http://") {
            schema["$id"] = json!("http://example.com/root");
        }
        assert!(refusal(&schema).contains(many), "{}: {}", &schema.to_string()[..200], refusal(&schema));
    }
    let mut dynamic = chain(40, |number| format!("#x{number}"), with("$dynamicAnchor", anchor));
    let text = dynamic.to_string().replace("$ref", "$dynamicRef");
    dynamic = serde_json::from_str(&text).unwrap();
    assert!(refusal(&dynamic).contains(many), "{}", refusal(&dynamic));
}

#[test]
fn a_reference_that_leads_nowhere_or_back_is_refused() {
    for reference in ["#/$defs/none", "#none", "#/%24defs/none"] {
        assert!(
            refusal(&json!({ "$ref": reference })).contains("leads nowhere"),
            "{}",
            refusal(&json!({ "$ref": reference }))
        );
    }
    for schema in [json!({ "$ref": "#" }), json!({ "allOf": [{ "anyOf": [{ "$ref": "#" }] }] })] {
        assert_eq!(refusal(&schema), "a part of it applies itself to the same place, without end");
    }
    let long = chain(10_000, |number| format!("#/$defs/a{number}"), |_, next| next);
    assert!(refusal(&long).contains("deep") || refusal(&long).contains("parts"), "{}", refusal(&long));
    let nested = (0..60).fold(json!({}), |inner, _| json!({ "not": { "items": inner } }));
    assert_eq!(refusal(&nested), "it is nested more than 64 deep");
}

#[test]
fn what_comes_back_to_itself_below_is_checked_as_deep_as_the_value_goes() {
    let list = json!({ "$anchor": "list", "type": "object", "properties": { "tail": { "$ref": "#list" } } });
    let validator = Validator::new(&list).unwrap();
    let value = (0..60).fold(json!({ "tail": 1 }), |tail, _| json!({ "tail": tail }));
    assert_eq!(validator.errors(&value).unwrap().len(), 1);
    // Two ways from each level to the next: a value of depth 60 would be checked 2^60 times.
    let doubling = json!({ "properties": { "tail": { "allOf": [{ "$ref": "#" }, { "$ref": "#" }] } } });
    let doubling = Validator::new(&doubling).unwrap();
    assert_eq!(doubling.errors(&value), Err(TooCostly::Steps));
    assert_eq!(doubling.errors(&json!({ "tail": { "tail": {} } })), Ok(vec![]));
}

#[test]
fn unevaluated_members_are_counted_as_often_as_they_are_looked_for() {
    let mut schema = json!({ "type": "object", "unevaluatedProperties": false });
    for _ in 0..14 {
        schema = json!({ "anyOf": [schema, true], "unevaluatedProperties": false });
    }
    let validator = Validator::new(&schema).map(|validator| validator.errors(&json!({ "a": 1, "b": 2 })));
    assert!(matches!(validator, Err(_) | Ok(Err(TooCostly::Steps))), "{validator:?}");
}

#[test]
fn large_values_and_costly_patterns_are_refused_and_usual_ones_are_not() {
    let rows = |count: usize, row: &Value| json!({ "rows": vec![row.clone(); count] });
    let table = |row: Value| Validator::new(&json!({ "properties": { "rows": { "items": row } } })).unwrap();
    let email = "^(?!\\.)(?!.*\\.\\.)([A-Za-z0-9_'+.-]*)[A-Za-z0-9_+-]@([A-Za-z0-9][A-Za-z0-9-]*\\.)+[A-Za-z]{2,}$";
    let record = json!({ "type": "object", "required": ["id", "kind"], "additionalProperties": false, "properties": {
        "id": { "type": "string", "pattern": "^[A-Za-z0-9_-]{1,64}$" }, "kind": { "enum": ["a", "b", "c"] },
        "at": { "anyOf": [{ "type": "string", "maxLength": 40 }, { "type": "null" }] } } });
    let one = json!({ "id": "0192f0c1-2d3e-7f40-8a51-6b7c8d9e0f11", "kind": "b", "at": null });
    assert_eq!(table(record).errors(&rows(10_000, &one)), Ok(vec![]));
    assert_eq!(table(json!({ "pattern": email })).errors(&rows(500, &json!("ann.example@example.com"))), Ok(vec![]));
    assert_eq!(
        table(json!({ "pattern": email })).errors(&rows(20_000, &json!("a".repeat(200)))),
        Err(TooCostly::Steps)
    );
    let costly = table(json!({ "pattern": "(a|b)*a(a|b){200}c" }));
    assert_eq!(costly.errors(&json!({ "rows": ["ab".repeat(1_000_000)] })), Err(TooCostly::Steps));
    let multiples = table(json!({ "multipleOf": 1e-9 }));
    assert_eq!(multiples.errors(&rows(100_000, &json!(1e300))), Err(TooCostly::Steps));
    assert_eq!(table(json!({ "multipleOf": 0.01 })).errors(&rows(1000, &json!(12.34))), Ok(vec![]));
    let unique = Validator::new(&json!({ "uniqueItems": true })).unwrap();
    assert_eq!(unique.errors(&json!((0..100_000).collect::<Vec<_>>())), Ok(vec![]));
}

/// Every violation takes memory, and the library collects all of them.
#[test]
fn the_violations_of_a_large_value_are_not_collected() {
    let validator = Validator::new(&json!({ "items": { "type": "string" } })).unwrap();
    assert_eq!(validator.errors(&json!(vec![1; 10_000])).unwrap().len(), MAX_VIOLATIONS);
    let told = Violation {
        path: String::new(),
        message: "it breaks the schema; a value so large is not searched for the places".into(),
    };
    assert_eq!(validator.errors(&json!(vec![1; 500_000])), Ok(vec![told]));
    assert_eq!(validator.errors(&json!(vec!["x"; 500_000])), Ok(vec![]));
}

/// Nesting of every kind, as deep as it is let through, on the stack of a test.
#[test]
fn the_deepest_check_needs_no_large_stack() {
    let deep = |level: &dyn Fn(Value) -> Value| (0..110).fold(json!(1), |inner, _| level(inner));
    let object = deep(&|inner| json!({ "a": inner }));
    let array = deep(&|inner| json!([inner]));
    let back = || json!({ "$ref": "#" });
    for keywords in [
        json!({ "properties": { "a": back() } }),
        json!({ "additionalProperties": back() }),
        json!({ "patternProperties": { "a": back() } }),
        json!({ "unevaluatedProperties": back() }),
        json!({ "items": back() }),
        json!({ "prefixItems": [back()] }),
        json!({ "contains": back() }),
        json!({ "unevaluatedItems": back() }),
        json!({ "items": { "anyOf": [back()] } }),
        json!({ "items": { "oneOf": [{ "allOf": [back()] }, { "type": "string" }] } }),
        json!({ "items": { "if": { "type": "array" }, "then": back() } }),
        json!({ "items": { "not": { "not": back() } } }),
        json!({ "properties": { "a": { "allOf": [{ "anyOf": [{ "oneOf": [back()] }] }] } } }),
    ] {
        let mut schema = keywords.clone();
        schema["type"] = json!(["object", "array"]);
        let validator = Validator::new(&schema).unwrap();
        for value in [&object, &array] {
            drop(validator.errors(value));
        }
        for applicator in ["not", "items", "additionalProperties", "unevaluatedProperties", "contains", "propertyNames"]
        {
            let nested = (0..62).fold(keywords.clone(), |inner, _| json!({ applicator: inner }));
            if let Ok(validator) = Validator::new(&nested) {
                drop((validator.errors(&object), validator.errors(&array)));
            }
        }
    }
}

#[test]
fn a_text_that_is_to_be_a_pattern_costs_by_the_square_of_its_length() {
    let schema = json!({ "$schema": "http://json-schema.org/draft-07/schema#", "format": "regex" });
    let validator = Validator::new(&schema).unwrap();
    let names = |most: usize| json!((0..most).map(|number| format!("(?<a{number}>)")).collect::<String>());
    assert_eq!(validator.errors(&names(1000)), Ok(vec![]));
    assert_eq!(validator.errors(&names(20_000)), Err(TooCostly::Steps));
}

#[test]
fn patterns_are_limited_in_number_and_those_that_backtrack_in_size() {
    let patterns = |most: usize, behind: &str| {
        let pattern = |number: usize| format!("[ab]*a[ab]{{12}}[^ab]|{number}{behind}");
        json!({ "allOf": (0..most).map(|number| json!({ "pattern": pattern(number) })).collect::<Vec<_>>() })
    };
    assert_eq!(Validator::new(&patterns(2, "")).unwrap().errors(&json!("a".repeat(13) + "x")), Ok(vec![]));
    assert_eq!(Validator::new(&patterns(2, "(?=x)")).unwrap().errors(&json!("a".repeat(13) + "x")), Ok(vec![]));
    assert!(Validator::new(&patterns(301, "")).is_err());
    assert!(Validator::new(&patterns(200, "(?=x)")).is_err());
    // The same pattern at many places is one.
    let same = json!({ "allOf": (0..1000).map(|_| json!({ "pattern": "^[a-z]+$" })).collect::<Vec<_>>() });
    assert_eq!(Validator::new(&same).unwrap().errors(&json!("abc")), Ok(vec![]));
}

#[test]
fn dynamic_references_that_lead_to_too_many_places_are_refused_at_once() {
    let schema = |anchors: usize| {
        let part =
            |number: usize| (format!("a{number}"), json!({ "$dynamicAnchor": "n", "items": { "$dynamicRef": "#n" } }));
        let parts: serde_json::Map<String, Value> = (0..anchors).map(part).collect();
        json!({ "$defs": parts })
    };
    let refused = Validator::new(&schema(4000)).unwrap_err().message;
    assert_eq!(refused, "its dynamic references lead to more than 10000 places");
    assert_ne!(Validator::new(&schema(20)).map_err(|error| error.message).err(), Some(refused));
}
