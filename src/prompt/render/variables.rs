//! The names that a template uses, compared with those that there are.

use std::collections::{BTreeSet, HashSet};

use serde_json::Value;

/// The member of a template's values that lists the fields of the skill's schemas, given or not.
pub(super) const FIELDS: &str = "__fields";

/// What is wrong with the first name that a template uses and that does not exist. `used` are names with dots, such as
/// `input.title`.
pub(super) fn unknown(used: HashSet<String>, globals: &BTreeSet<&str>, values: &Value) -> Option<String> {
    let mut used: Vec<String> = used.into_iter().collect();
    used.sort();
    used.iter().find_map(|name| fault(name, globals, values))
}

fn fault(name: &str, globals: &BTreeSet<&str>, values: &Value) -> Option<String> {
    let mut parts = name.split('.');
    let root = parts.next().unwrap_or_default();
    if globals.contains(root) {
        return None;
    }
    let Some(value) = values.get(root).filter(|_| root != FIELDS) else {
        let roots = names(values.as_object().into_iter().flat_map(|values| values.keys()).map(String::as_str));
        return Some(format!("there is no variable {root:?}; there are {roots}"));
    };
    let (given, part) = (value.as_object()?, parts.next()?);
    let declared = || values[FIELDS][root].as_array().into_iter().flatten().filter_map(Value::as_str);
    if given.contains_key(part) || declared().any(|field| field == part) {
        return None;
    }
    let has = names(given.keys().map(String::as_str).chain(declared()));
    let has = if has.is_empty() { "it has none".to_owned() } else { format!("it has {has}") };
    Some(match values[FIELDS].get(root) {
        Some(_) => {
            format!("there is no variable {:?}: the {root} schema has no field {part:?}; {has}", join(root, part))
        }
        None => format!("there is no variable {:?}; {root:?} has no member {part:?}; {has}", join(root, part)),
    })
}

fn join(root: &str, part: &str) -> String {
    format!("{root}.{part}")
}

fn names<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let names: BTreeSet<&str> = names.filter(|name| *name != FIELDS).collect();
    names.into_iter().collect::<Vec<_>>().join(", ")
}
