//! What is wrong with a value of a JSON body, in the words of JSON: the parser's own messages name types of Rust.

/// Most characters of a value that a message repeats.
const SHOWN_MAX: usize = 80;
/// Most characters of a message.
const MESSAGE_MAX: usize = 400;

/// The parser's message in other words. `text` is without the line and column at its end.
pub(crate) fn in_words(text: &str) -> String {
    let typed = ["invalid type: ", "invalid value: "].iter().find_map(|prefix| text.strip_prefix(prefix));
    let words = match typed.and_then(|rest| rest.rsplit_once(", expected ")) {
        Some((found, expected)) => format!("must be {}, not {}", wanted(expected), given(found)),
        None => match text.strip_prefix("missing field ") {
            Some(name) => format!("the field {name} is missing"),
            None => text.to_owned(),
        },
    };
    cut(&words, MESSAGE_MAX)
}

fn wanted(expected: &str) -> String {
    let is_number = |sign: char, name: &str| {
        name.strip_prefix(sign).is_some_and(|bits| bits == "size" || bits.parse::<u8>().is_ok())
    };
    match expected {
        "a map" | "map" => "an object".to_owned(),
        "a sequence" | "sequence" => "an array".to_owned(),
        "unit" => "null".to_owned(),
        "f32" | "f64" => "a number".to_owned(),
        "a boolean" => "true or false".to_owned(),
        number if is_number('u', number) => "a whole number of 0 or more".to_owned(),
        number if is_number('i', number) => "a whole number".to_owned(),
        composed if composed.starts_with("struct ") => "an object".to_owned(),
        composed if composed.starts_with("enum ") || composed == "variant identifier" => "a string".to_owned(),
        composed if composed.starts_with("tuple ") => "an array".to_owned(),
        plain => plain.to_owned(),
    }
}

fn given(found: &str) -> String {
    let quoted = |prefix: &str| found.strip_prefix(prefix).map(|value| cut(value.trim_matches('`'), SHOWN_MAX));
    match found {
        "map" => "an object".to_owned(),
        "sequence" => "an array".to_owned(),
        "unit" | "unit value" | "Option value" => "null".to_owned(),
        _ => quoted("integer ")
            .or_else(|| quoted("floating point "))
            .or_else(|| quoted("boolean "))
            .or_else(|| quoted("string "))
            .unwrap_or_else(|| cut(found, SHOWN_MAX)),
    }
}

fn cut(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    text.chars().take(most).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "only the errors matter")]
    struct Everything {
        count: u64,
        size: Option<usize>,
        shift: Option<i32>,
        part: Option<f64>,
        flag: Option<bool>,
        name: Option<String>,
        list: Option<Vec<u8>>,
        map: Option<BTreeMap<String, String>>,
        inner: Option<Inner>,
        kind: Option<Kind>,
    }

    #[derive(Debug, Deserialize)]
    #[expect(dead_code, reason = "only the errors matter")]
    struct Inner {
        a: u8,
    }

    #[derive(Debug, Deserialize)]
    #[serde(rename_all = "snake_case")]
    enum Kind {
        One,
        Two,
    }

    fn message(body: &str) -> String {
        let error = serde_json::from_str::<Everything>(body).unwrap_err().to_string();
        in_words(error.rsplit_once(" at line ").unwrap().0)
    }

    #[test]
    fn messages_speak_of_json_and_never_of_rust() {
        for (member, expected) in [
            (r#""count":"a""#, r#"must be a whole number of 0 or more, not "a""#),
            (r#""count":-1"#, "must be a whole number of 0 or more, not -1"),
            (r#""count":1.5"#, "must be a whole number of 0 or more, not 1.5"),
            (r#""count":{}"#, "must be a whole number of 0 or more, not an object"),
            (r#""count":null"#, "must be a whole number of 0 or more, not null"),
            (r#""size":[]"#, "must be a whole number of 0 or more, not an array"),
            (r#""shift":true"#, "must be a whole number, not true"),
            (r#""part":"x""#, r#"must be a number, not "x""#),
            (r#""flag":"yes""#, r#"must be true or false, not "yes""#),
            (r#""name":7"#, "must be a string, not 7"),
            (r#""list":{}"#, "must be an array, not an object"),
            (r#""list":[300]"#, "must be a whole number of 0 or more, not 300"),
            (r#""map":[]"#, "must be an object, not an array"),
            (r#""inner":3"#, "must be an object, not 3"),
            (r#""inner":{}"#, "the field `a` is missing"),
            (r#""kind":"three""#, "unknown variant `three`, expected `one` or `two`"),
        ] {
            assert_eq!(message(&format!("{{{member}}}")), expected, "{member}");
        }
        assert_eq!(message("3"), "must be an object, not 3");
        assert_eq!(message("{}"), "the field `count` is missing");
    }

    #[test]
    fn a_message_does_not_repeat_a_long_value() {
        let long = "ä".repeat(10_000);
        for body in
            [format!("{{\"count\":\"{long}\"}}"), format!("{{\"{long}\":1}}"), format!("{{\"kind\":\"{long}\"}}")]
        {
            let told = message(&body);
            assert!(told.chars().count() <= MESSAGE_MAX + 1, "{told}");
        }
    }
}
