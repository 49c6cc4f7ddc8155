//! N0: finds the one JSON value in a text that holds more than that, in time proportional to its length.

use serde_json::Value;

use super::scan::{Repairs, Scan, is_double, is_single, scan};
use super::step::{Step, StepName};

/// How often, on average, a byte may be scanned again. No honest answer needs more; the bound stops hostile text.
const LOOKS_PER_BYTE: usize = 4;

/// The value in a trimmed text that is not JSON as it stands, with each repair recorded.
pub(super) fn value(text: &str, steps: &mut Vec<Step>) -> Option<Value> {
    let text = without_bom(text, steps);
    if let Ok(value) = serde_json::from_str(text) {
        return Some(value);
    }
    if let Some(found) = fenced(text).or_else(|| first_in_prose(text)) {
        steps.extend(found.steps);
        return Some(found.value);
    }
    steps.push(Step::new(StepName::Extract, false, "the text holds no complete JSON object or array"));
    None
}

fn without_bom<'a>(text: &'a str, steps: &mut Vec<Step>) -> &'a str {
    let Some(rest) = text.strip_prefix('\u{feff}') else { return text };
    steps.push(Step::new(StepName::RemoveBom, true, "a byte order mark stood before the text"));
    rest.trim()
}

struct Found {
    value: Value,
    steps: Vec<Step>,
}

impl Found {
    fn new(value: Value, cut: Vec<Step>, repairs: Repairs) -> Self {
        let Repairs { trailing_commas, smart_quotes, closed_brackets } = repairs;
        let repaired = [
            (StepName::SmartQuotes, smart_quotes, "strings had typographic quotes around them"),
            (StepName::TrailingCommas, trailing_commas, "commas stood before a closing bracket"),
            (StepName::CloseBrackets, closed_brackets, "brackets were still open at the very end"),
        ];
        let made = repaired.into_iter().filter(|(_, times, _)| *times > 0);
        let steps = made.map(|(step, times, what)| Step::new(step, true, format!("{times} {what}")));
        Self { value, steps: cut.into_iter().chain(steps).collect() }
    }
}

/// The first code fence whose whole content is JSON: its author marked it as the answer.
fn fenced(text: &str) -> Option<Found> {
    fences(text).find_map(|fence| {
        let (value, repairs) = whole_value(fence.content, fence.alone)?;
        let mut cut =
            vec![Step::new(StepName::RemoveFences, true, format!("a code fence begins at byte {}", fence.from))];
        if !fence.alone {
            cut.push(Step::new(StepName::RemoveProse, true, "text stood around the code fence"));
        }
        Some(Found::new(value, cut, repairs))
    })
}

fn whole_value(content: &str, any_kind: bool) -> Option<(Value, Repairs)> {
    if any_kind && let Ok(value) = serde_json::from_str(content) {
        return Some((value, Repairs::default()));
    }
    if !content.starts_with(['{', '[']) {
        return None;
    }
    let Scan::Whole { end, json, repairs } = scan(content, 0) else { return None };
    let value = serde_json::from_str(&json).ok()?;
    (end == content.len()).then_some((value, repairs))
}

struct Fence<'a> {
    from: usize,
    content: &'a str,
    /// There is no text outside it.
    alone: bool,
}

/// The fenced blocks of a text, in order; one that is never closed reaches to the end.
fn fences(text: &str) -> impl Iterator<Item = Fence<'_>> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let (from, marker) = loop {
            let line = line_at(text, at)?;
            if let Some(marker) = opening(line) {
                break (at, marker);
            }
            at += line.len();
        };
        at += line_at(text, at)?.len();
        let inside = at;
        let mut end = text.len();
        while let Some(line) = line_at(text, at) {
            at += line.len();
            if closes(line, marker) {
                end = at - line.len();
                break;
            }
        }
        let alone = text[..from].trim().is_empty() && text[at..].trim().is_empty();
        Some(Fence { from, content: text[inside..end].trim(), alone })
    })
}

fn line_at(text: &str, at: usize) -> Option<&str> {
    text[at..].split_inclusive('\n').next()
}

fn opening(line: &str) -> Option<&str> {
    let line = line.trim();
    let length = line.bytes().take_while(|byte| *byte == b'`').count();
    let (marker, info) = line.split_at(length);
    (length >= 3 && !info.contains('`')).then_some(marker)
}

fn closes(line: &str, marker: &str) -> bool {
    let line = line.trim();
    line.len() >= marker.len() && line.bytes().all(|byte| byte == b'`')
}

/// The first complete object or array. An empty one counts only when nothing follows: `[ ]` may be a check box.
fn first_in_prose(text: &str) -> Option<Found> {
    let mut looks = text.len().saturating_mul(LOOKS_PER_BYTE);
    let mut empty = None;
    let mut at = 0;
    while let Some(start) = next_opening(text, at) {
        let (json, end, repairs) = match scan(text, start) {
            Scan::Whole { end, json, repairs } => (json, end, repairs),
            // Anything that looks like a value in the rest is part of the value that was cut off, perhaps inside a string.
            Scan::CutOff => return None,
            Scan::Broken { at: broken, depth, meant } => {
                // A value inside a broken value is not the answer: continue after the broken one, if it ends at all.
                let end = end_of_broken(text, broken, depth);
                if meant && end.is_none() {
                    return None;
                }
                looks = looks.checked_sub(end.unwrap_or(text.len()) - start)?;
                at = end.unwrap_or(broken.max(start + 1));
                continue;
            }
        };
        looks = looks.checked_sub(end - start)?;
        at = end;
        let Ok(value) = serde_json::from_str::<Value>(&json) else { continue };
        let is_empty = value.as_array().is_some_and(Vec::is_empty) || value.as_object().is_some_and(|o| o.is_empty());
        let found = || Found::new(value, around(text, start, end), repairs);
        if !is_empty {
            return Some(found());
        }
        empty.get_or_insert_with(found);
    }
    empty
}

fn around(text: &str, start: usize, end: usize) -> Vec<Step> {
    let (before, after) = (text[..start].trim().len(), text[end..].trim().len());
    let step = || {
        let detail = format!("{before} bytes stood before the value and {after} after it");
        Step::new(StepName::RemoveProse, true, detail)
    };
    (before + after > 0).then(step).into_iter().collect()
}

/// The next bracket that could begin JSON, judged by what follows it: `[note]` and `{name}` do not.
fn next_opening(text: &str, from: usize) -> Option<usize> {
    let mut brackets = text[from..].match_indices(['{', '[']);
    let plausible = |(offset, bracket): &(usize, &str)| {
        let rest = &text[from + offset + 1..];
        let next = rest.trim_start_matches([' ', '\t', '\n', '\r']).chars().next();
        match (*bracket, next) {
            (_, None) => false,
            ("{", Some(next)) => next == '"' || next == '}' || is_double(next) || is_single(next),
            (_, Some(next)) => {
                next.is_ascii_digit() || "\"[]{-tfn".contains(next) || is_double(next) || is_single(next)
            }
        }
    };
    brackets.find(plausible).map(|(offset, _)| from + offset)
}

/// Where the brackets around a broken place are all closed again, counting brackets outside strings.
fn end_of_broken(text: &str, at: usize, depth: usize) -> Option<usize> {
    let mut depth = depth;
    let mut in_string = false;
    let mut bytes = text.bytes().enumerate().skip(at);
    while let Some((index, byte)) = bytes.next() {
        match byte {
            b'\\' if in_string => {
                bytes.next();
            }
            b'"' => in_string = !in_string,
            b'{' | b'[' if !in_string => depth += 1,
            b'}' | b']' if !in_string => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return Some(index + 1);
                }
            }
            _ => {}
        }
    }
    None
}
