//! Answers held against the OpenAPI document: each must be one that the document tells of.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex};

use jsonschema::Validator;
use serde_json::{Value, json};

use super::Answer;

/// Larger bodies are not read again: tests of large answers have deadlines.
const BODY_MAX: usize = 256 * 1024;

pub static DOCUMENT: LazyLock<Value> = LazyLock::new(skill_runner::http::openapi_document);

/// The validators made so far, by the place of their schema in the document.
static VALIDATORS: LazyLock<Mutex<HashMap<String, Arc<Validator>>>> = LazyLock::new(Mutex::default);

/// The path of the document that a request's path is answered by: the one with the most fixed parts.
pub fn path_of(path: &str) -> Option<&'static str> {
    let path = path.split('?').next().unwrap();
    let asked: Vec<&str> = path.split('/').collect();
    let fits = |known: &str| {
        let parts: Vec<&str> = known.split('/').collect();
        let rest = known.ends_with("{path}") || known.ends_with("{page}");
        let long_enough = if rest { asked.len() >= parts.len() } else { asked.len() == parts.len() };
        let same = parts.iter().zip(&asked).all(
            |(part, asked)| {
                if part.starts_with('{') { !asked.is_empty() } else { part == asked }
            },
        );
        long_enough && same
    };
    let fixed = |known: &&str| known.split('/').filter(|part| !part.starts_with('{')).count();
    let paths = DOCUMENT["paths"].as_object().unwrap().keys().map(String::as_str);
    paths.filter(|known| fits(known)).max_by_key(fixed)
}

/// Follows a reference to another place of the document.
pub fn resolved(value: &'static Value) -> (&'static Value, Option<&'static str>) {
    match value["$ref"].as_str() {
        Some(place) => (DOCUMENT.pointer(place.trim_start_matches('#')).unwrap(), Some(place)),
        None => (value, None),
    }
}

/// A validator of the schema at this place of the document, such as `#/components/schemas/Job`.
pub fn validator(place: &str) -> Arc<Validator> {
    let mut made = VALIDATORS.lock().unwrap();
    let make = || {
        let schema = json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "$ref": place,
            "components": DOCUMENT["components"],
            "paths": DOCUMENT["paths"],
        });
        Arc::new(jsonschema::validator_for(&schema).unwrap_or_else(|error| panic!("{place}: {error}")))
    };
    made.entry(place.to_owned()).or_insert_with(make).clone()
}

fn escaped(part: &str) -> String {
    part.replace('~', "~0").replace('/', "~1").replace('{', "%7B").replace('}', "%7D")
}

/// Panics if the document does not tell of such an answer to such a request.
pub fn check(method: &str, path: &str, answer: &Answer) {
    let Some(known) = path_of(path) else { return };
    let name = method.to_lowercase();
    let Some(operation) = DOCUMENT["paths"][known].get(&name) else { return };
    let status = answer.status.to_string();
    let asked = format!("{method} {path} ({known}): {status} {}", String::from_utf8_lossy(&answer.body));
    let asked: String = asked.chars().take(2000).collect();
    let response =
        operation["responses"].get(&status).unwrap_or_else(|| panic!("the status is not documented: {asked}"));
    let (response, place) = resolved(response);
    let place = place.map_or_else(|| format!("#/paths/{}/{name}/responses/{status}", escaped(known)), str::to_owned);
    let Some(content) = response.get("content") else {
        assert!(answer.body.is_empty(), "no body is documented: {asked}");
        return;
    };
    let given = answer.header("content-type");
    let media = given.split(';').next().unwrap();
    let documented = |media: &&str| content.get(media).is_some();
    let media =
        [media, "*/*"].into_iter().find(documented).unwrap_or_else(|| panic!("{given} is not documented: {asked}"));
    if media == "application/json" && answer.body.len() <= BODY_MAX {
        let schema = format!("{place}/content/application~1json/schema");
        let flaws: Vec<String> = validator(&schema)
            .iter_errors(&answer.json())
            .map(|flaw| format!("{}: {flaw}", flaw.instance_path()).chars().take(600).collect())
            .collect();
        assert!(flaws.is_empty(), "the body is not as documented: {asked}\n{}", flaws.join("\n"));
    }
}
