//! N0: finds the one JSON value in a text that holds more than that, in time proportional to its length.

use std::collections::VecDeque;
use std::ops::Range;

use serde_json::Value;

use super::scan::{Repairs, Scan, is_double, is_single, scan};
use super::step::{Step, StepName};
use crate::bounded;

/// How often, on average, a byte may be scanned again. No honest answer needs more; the bound stops hostile text.
const LOOKS_PER_BYTE: usize = 4;

/// The value in a trimmed text that is not JSON as it stands, with each repair recorded.
pub(super) fn value(text: &str, steps: &mut Vec<Step>) -> Option<Value> {
    let text = without_bom(text, steps);
    if let Ok(value) = bounded::json::from_str(text) {
        return Some(value);
    }
    let fenced = || fences(text).find_map(|fence| in_fence(&fence));
    if let Some(found) = fenced().or_else(|| first_in_prose(text)) {
        steps.extend(found.steps);
        return Some(found.value);
    }
    steps.push(nothing_found());
    None
}

/// The values in a text that is not JSON as it stands, in the order of the text: the code fences that hold nothing but
/// JSON, and the values between them. Of very many, the last `most`; empty ones only when there are no others.
pub(super) fn values(text: &str, most: usize) -> Vec<Found> {
    let (mut full, mut empty) = (VecDeque::new(), VecDeque::new());
    let mut keep = |found: Found| {
        let kept = if is_empty(&found.value) { &mut empty } else { &mut full };
        if kept.len() == most {
            kept.pop_front();
        }
        kept.push_back(found);
    };
    let mut at = 0;
    for fence in fences(text) {
        let Some(found) = in_fence(&fence) else { continue };
        // A value whose brackets are open where a fence begins was not cut off there: it is broken.
        Prose::of(text, at..fence.from).filter(|found| !found.unclosed).for_each(&mut keep);
        keep(found);
        at = fence.to;
    }
    let mut rest = Prose::of(text, at..text.len());
    rest.by_ref().for_each(&mut keep);
    match full.is_empty() {
        false => full.into(),
        true if rest.broken => Vec::new(),
        true => empty.into(),
    }
}

/// The step of a text in which there is no value.
pub(super) fn nothing_found() -> Step {
    Step::new(StepName::Extract, false, "the text holds no complete JSON object or array")
}

pub(super) fn without_bom<'a>(text: &'a str, steps: &mut Vec<Step>) -> &'a str {
    let Some(rest) = text.strip_prefix('\u{feff}') else { return text };
    steps.push(Step::new(StepName::RemoveBom, true, "a byte order mark stood before the text"));
    rest.trim()
}

/// A value in a text.
pub(super) struct Found {
    pub(super) value: Value,
    /// What was cut off around it, and repaired in it.
    pub(super) steps: Vec<Step>,
    /// Its bytes in the text.
    pub(super) place: Range<usize>,
    /// Whether its brackets had to be closed.
    unclosed: bool,
}

impl Found {
    fn new(value: Value, place: Range<usize>, cut: Vec<Step>, repairs: Repairs) -> Self {
        let Repairs { trailing_commas, smart_quotes, closed_brackets } = repairs;
        let repaired = [
            (StepName::SmartQuotes, smart_quotes, "strings had typographic quotes around them"),
            (StepName::TrailingCommas, trailing_commas, "commas stood before a closing bracket"),
            (StepName::CloseBrackets, closed_brackets, "brackets were still open at the very end"),
        ];
        let made = repaired.into_iter().filter(|(_, times, _)| *times > 0);
        let steps = made.map(|(step, times, what)| Step::new(step, true, format!("{times} {what}")));
        Self { value, steps: cut.into_iter().chain(steps).collect(), place, unclosed: closed_brackets > 0 }
    }
}

/// The value of a code fence whose whole content is JSON: its author marked it as the answer.
fn in_fence(fence: &Fence<'_>) -> Option<Found> {
    let (value, repairs) = whole_value(fence.content, fence.alone)?;
    let mut cut = vec![Step::new(StepName::RemoveFences, true, format!("a code fence begins at byte {}", fence.from))];
    if !fence.alone {
        cut.push(Step::new(StepName::RemoveProse, true, "text stood around the code fence"));
    }
    Some(Found::new(value, fence.from..fence.to, cut, repairs))
}

fn whole_value(content: &str, any_kind: bool) -> Option<(Value, Repairs)> {
    if any_kind && let Ok(value) = bounded::json::from_str(content) {
        return Some((value, Repairs::default()));
    }
    if !content.starts_with(['{', '[']) {
        return None;
    }
    let Scan::Whole { end, json, repairs } = scan(content, 0) else { return None };
    let value = bounded::json::from_str(&json).ok()?;
    (end == content.len()).then_some((value, repairs))
}

struct Fence<'a> {
    from: usize,
    to: usize,
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
        Some(Fence { from, to: at, content: text[inside..end].trim(), alone })
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
    let mut empty = None;
    let mut prose = Prose::of(text, 0..text.len());
    for found in prose.by_ref() {
        if !is_empty(&found.value) {
            return Some(found);
        }
        empty.get_or_insert(found);
    }
    empty.filter(|_| !prose.broken)
}

/// Whether a value is an array or object without anything in it.
pub(super) fn is_empty(value: &Value) -> bool {
    value.as_array().is_some_and(Vec::is_empty) || value.as_object().is_some_and(|object| object.is_empty())
}

/// The complete objects and arrays in a part of a text, in their order.
struct Prose<'a> {
    whole: &'a str,
    /// The text up to the end of the part.
    text: &'a str,
    at: usize,
    looks: usize,
    /// Whether it stopped at a value that is broken or was cut off.
    broken: bool,
}

impl<'a> Prose<'a> {
    fn of(whole: &'a str, part: Range<usize>) -> Self {
        let looks = part.len().saturating_mul(LOOKS_PER_BYTE);
        Self { whole, text: &whole[..part.end], at: part.start, looks, broken: false }
    }

    /// The next value; `None` at the end, and where nothing that follows can be told from a broken value.
    fn next_value(&mut self) -> Option<Found> {
        let text = self.text;
        self.broken = true;
        while let Some(start) = next_opening(text, self.at) {
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
                    self.looks = self.looks.checked_sub(end.unwrap_or(text.len()) - start)?;
                    self.at = end.unwrap_or(broken.max(start + 1));
                    continue;
                }
            };
            self.looks = self.looks.checked_sub(end - start)?;
            self.at = end;
            let Ok(value) = bounded::json::from_str::<Value>(&json) else { continue };
            self.broken = false;
            return Some(Found::new(value, start..end, around(self.whole, start, end), repairs));
        }
        self.broken = false;
        None
    }
}

impl Iterator for Prose<'_> {
    type Item = Found;

    fn next(&mut self) -> Option<Found> {
        // What follows a broken value is not looked at.
        if self.broken { None } else { self.next_value() }
    }
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
