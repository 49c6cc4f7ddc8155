//! Takes a schema apart. References are resolved by the resolver that the validator itself uses.

use std::collections::{HashMap, HashSet};

use referencing::{Draft, Registry, Resolver, uri};
use serde_json::{Map, Value};

use super::graph::{Graph, Id, Part};
use super::meter;
use super::number;
use super::pattern::Pattern;

/// Deepest nesting of a schema's text: schemas are compiled by recursion.
const DEPTH_MAX: usize = 64;
/// Most parts of a schema, with those of other schemas that it refers to.
const PARTS_MAX: usize = 10_000;
/// Most places that all dynamic references together may lead to.
const DYNAMIC_MAX: usize = 10_000;
/// Most different patterns, and most states of all of them together: each takes memory, when it is compiled and while it is matched.
const PATTERNS_MAX: usize = 300;
const STATES_MAX: u64 = 50_000;
/// Bytes of the paths to all keywords: the compiled schema has each written out.
const PATHS_MAX: u64 = 32 * 1024 * 1024;
/// Most values besides texts in a list that the schema of schemas wants to be without repetition: it compares them each with each.
const COMPARED_MAX: usize = 1000;
/// The base of a schema without `$id`.
const NO_BASE: &str = "json-schema:///";

/// The parts of a schema, or why it is not used.
pub(super) fn graph(schema: &Value) -> Result<Graph, String> {
    if !is_shallow(schema, DEPTH_MAX) {
        return Err(format!("it is nested more than {DEPTH_MAX} deep"));
    }
    let draft = Draft::default().detect(schema);
    let told = |error: referencing::Error| error.to_string();
    let resource = draft.create_resource_ref(schema);
    let base = uri::from_str(resource.id().unwrap_or(NO_BASE).trim_end_matches('#')).map_err(told)?;
    let registry =
        Registry::new().draft(draft).add(base.as_str(), resource).and_then(|one| one.prepare()).map_err(told)?;
    let mut builder = Builder { compares: matches!(draft, Draft::Draft4 | Draft::Draft6), ..Builder::default() };
    builder.id(schema, &registry.resolver(base), draft, 0)?;
    while let Some(place) = builder.waiting.pop() {
        builder.take_apart(place)?;
    }
    builder.finish()
}

fn is_shallow(value: &Value, depth: usize) -> bool {
    match value {
        Value::Object(fields) => depth > 0 && fields.values().all(|field| is_shallow(field, depth - 1)),
        Value::Array(items) => depth > 0 && items.iter().all(|item| is_shallow(item, depth - 1)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => true,
    }
}

/// A schema within the schema, and where its references are resolved from.
struct Place<'r> {
    id: Id,
    keywords: &'r Map<String, Value>,
    resolver: Resolver<'r>,
    draft: Draft,
    /// Bytes of the path that leads here.
    path: u64,
}

#[derive(Default)]
struct Builder<'r> {
    /// Whether the schema of schemas of this draft wants every `enum` without repetition.
    compares: bool,
    /// Bytes of the paths so far.
    paths: u64,
    graph: Graph,
    known: HashMap<*const Value, Id>,
    waiting: Vec<Place<'r>>,
    /// The parts with a dynamic anchor, by its name; the empty name is that of `$recursiveAnchor`.
    anchors: HashMap<&'r str, Vec<Id>>,
    /// Parts with a dynamic reference, and the name it looks for.
    dynamic: Vec<(Id, &'r str)>,
    patterns: HashSet<&'r str>,
}

impl<'r> Builder<'r> {
    /// The part that this is; it is taken apart later.
    fn id(&mut self, schema: &'r Value, resolver: &Resolver<'r>, draft: Draft, path: u64) -> Result<Id, String> {
        let place = std::ptr::from_ref(schema);
        if let Some(id) = self.known.get(&place) {
            return Ok(*id);
        }
        let id = self.graph.parts.len();
        if id == PARTS_MAX {
            return Err(format!("it has more than {PARTS_MAX} parts"));
        }
        self.graph.parts.push(Part { flat: 1, ..Part::default() });
        self.known.insert(place, id);
        if let Value::Object(keywords) = schema {
            let draft = draft.detect(schema);
            let resolver =
                resolver.in_subresource(draft.create_resource_ref(schema)).map_err(|error| error.to_string())?;
            self.paths = self.paths.saturating_add(path.saturating_mul(1 + count(keywords.len())));
            if self.paths > PATHS_MAX {
                return Err(format!(
                    "its names are so long that the paths to its parts take more than {PATHS_MAX} bytes"
                ));
            }
            self.waiting.push(Place { id, keywords, resolver, draft, path });
        }
        Ok(id)
    }

    fn take_apart(&mut self, place: Place<'r>) -> Result<(), String> {
        let mut part = Part { flat: 1, ..Part::default() };
        for (keyword, value) in place.keywords {
            self.keyword(&place, keyword, value, &mut part)?;
        }
        self.graph.parts[place.id] = part;
        Ok(())
    }

    fn keyword(&mut self, at: &Place<'r>, keyword: &str, value: &'r Value, part: &mut Part) -> Result<(), String> {
        part.flat = part.flat.saturating_add(1);
        part.violations += 1;
        match (keyword, value) {
            ("$ref", Value::String(reference)) => part.all.push(self.target(at, reference)?),
            ("$dynamicRef", Value::String(reference)) => {
                part.all.push(self.target(at, reference)?);
                self.dynamic.push((at.id, reference.rsplit_once('#').map_or("", |(_, name)| name)));
            }
            ("$recursiveRef", Value::String(_)) => {
                part.all.push(self.target(at, "#")?);
                self.dynamic.push((at.id, ""));
            }
            ("$dynamicAnchor", Value::String(name)) => self.anchors.entry(name).or_default().push(at.id),
            ("$recursiveAnchor", Value::Bool(true)) => self.anchors.entry("").or_default().push(at.id),
            ("allOf", Value::Array(_)) => part.all.extend(self.each(at, keyword, value)?),
            ("then" | "else", _) => part.all.push(self.child(at, keyword, "", value)?),
            ("dependentSchemas" | "dependencies", Value::Object(_)) => part.all.extend(self.each(at, keyword, value)?),
            ("anyOf" | "oneOf", Value::Array(_)) => part.tried.extend(self.each(at, keyword, value)?),
            ("not", _) => {
                part.tried.push(self.child(at, keyword, "", value)?);
                part.forbidden = part.forbidden.saturating_add(meter::size(value));
            }
            ("if", _) => part.tried.push(self.child(at, keyword, "", value)?),
            ("properties", Value::Object(fields)) => {
                part.flat = part.flat.saturating_add(count(fields.len()));
                for (name, field) in fields {
                    part.properties.insert(name.clone(), self.child(at, keyword, name, field)?);
                }
            }
            ("patternProperties", Value::Object(fields)) => {
                for (pattern, field) in fields {
                    part.patterns.push((self.pattern(pattern)?, self.child(at, keyword, pattern, field)?));
                }
            }
            ("additionalProperties", _) => part.additional = Some(self.child(at, keyword, "", value)?),
            ("propertyNames", _) => part.names = Some(self.child(at, keyword, "", value)?),
            ("unevaluatedProperties", _) => part.unevaluated_properties = Some(self.child(at, keyword, "", value)?),
            ("prefixItems" | "items", Value::Array(_)) => part.prefix = self.each(at, keyword, value)?,
            ("items" | "additionalItems", _) => part.items = Some(self.child(at, keyword, "", value)?),
            ("contains", _) => part.contains = Some(self.child(at, keyword, "", value)?),
            ("unevaluatedItems", _) => part.unevaluated_items = Some(self.child(at, keyword, "", value)?),
            // It is computed with fractions of any size.
            ("multipleOf", _) => part.flat = part.flat.saturating_add(300).saturating_add(weight(value)),
            ("uniqueItems", Value::Bool(true)) => part.unique = true,
            ("pattern", Value::String(pattern)) => part.pattern = Some(self.pattern(pattern)?),
            // The names of its groups are compared with each other.
            ("format", Value::String(format)) if format == "regex" => part.is_pattern = true,
            ("format", _) => part.per_byte += 16,
            ("minLength" | "maxLength" | "contentEncoding" | "contentMediaType", _) => part.per_byte += 4,
            ("minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum", _) => {
                part.flat = part.flat.saturating_add(weight(value));
            }
            ("required" | "dependentRequired", _) => {
                // Each name that is not there is a violation of its own.
                part.violations = part.violations.saturating_add(weight(value));
                part.flat = part.flat.saturating_add(weight(value));
            }
            ("enum" | "const", _) => {
                let items = value.as_array().into_iter().flatten();
                if self.compares && items.filter(|item| !item.is_string()).count() > COMPARED_MAX {
                    return Err(format!("an enum of its draft has more than {COMPARED_MAX} values that are not texts"));
                }
                part.flat = part.flat.saturating_add(weight(value));
            }
            // They apply where something refers to them.
            ("$defs" | "definitions", Value::Object(_)) => drop(self.each(at, keyword, value)?),
            _ => {}
        }
        Ok(())
    }

    fn child(&mut self, at: &Place<'r>, keyword: &str, name: &str, schema: &'r Value) -> Result<Id, String> {
        // In a path, two bytes stand for each of these.
        let escaped = name.bytes().filter(|byte| matches!(byte, b'~' | b'/')).count();
        let path = at.path.saturating_add(count(keyword.len() + name.len() + escaped + 2));
        self.id(schema, &at.resolver, at.draft, path)
    }

    /// The schemas in a list or a map.
    fn each(&mut self, at: &Place<'r>, keyword: &str, schemas: &'r Value) -> Result<Vec<Id>, String> {
        match schemas {
            Value::Array(each) => each.iter().map(|schema| self.child(at, keyword, "0000", schema)).collect(),
            Value::Object(each) => each.iter().map(|(name, schema)| self.child(at, keyword, name, schema)).collect(),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Ok(Vec::new()),
        }
    }

    fn target(&mut self, at: &Place<'r>, reference: &str) -> Result<Id, String> {
        let found = at.resolver.lookup(reference);
        let (schema, resolver, draft) =
            found.map_err(|error| format!("the reference {reference:?} leads nowhere: {error}"))?.into_inner();
        // Nobody knows its path from here; it is written in the reference, or it has a name that is.
        self.id(schema, &resolver, draft, at.path.max(count(reference.len())))
    }

    fn pattern(&mut self, text: &'r str) -> Result<Pattern, String> {
        let pattern = Pattern::of(text)?;
        // The same pattern at another place is the same one compiled.
        if self.patterns.insert(text) {
            self.graph.states = self.graph.states.saturating_add(pattern.states);
            self.graph.backtracks |= pattern.backtracks;
        }
        if self.patterns.len() > PATTERNS_MAX || self.graph.states > STATES_MAX {
            return Err("its patterns are too many or too large".into());
        }
        Ok(pattern)
    }

    /// A dynamic reference may lead to each of the anchors of its name.
    fn finish(mut self) -> Result<Graph, String> {
        let leads = |(_, name): &(Id, &str)| self.anchors.get(name).map_or(0, Vec::len);
        if self.dynamic.iter().map(leads).sum::<usize>() > DYNAMIC_MAX {
            return Err(format!("its dynamic references lead to more than {DYNAMIC_MAX} places"));
        }
        for (id, name) in self.dynamic {
            for anchored in self.anchors.get(name).into_iter().flatten() {
                let targets = &mut self.graph.parts[id].all;
                if !targets.contains(anchored) {
                    targets.push(*anchored);
                }
            }
        }
        self.graph.check()?;
        Ok(self.graph)
    }
}

fn count(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}

/// Steps to compare a value with this one, however late they differ.
fn weight(value: &Value) -> u64 {
    match value {
        Value::Object(fields) => fields.iter().fold(1, |sum: u64, (name, field)| {
            sum.saturating_add(1 + count(name.len()) / 64).saturating_add(weight(field))
        }),
        Value::Array(items) => items.iter().fold(1, |sum: u64, item| sum.saturating_add(weight(item))),
        Value::String(text) => 1 + count(text.len()) / 64,
        Value::Number(number) => 1 + number::steps(number),
        Value::Null | Value::Bool(_) => 1,
    }
}
