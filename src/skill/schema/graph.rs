//! A schema as the parts that apply to a value, with references followed as the validator follows them.

use std::collections::HashMap;

use super::pattern::Pattern;

/// Most steps that the parts of a schema take at one place of a value.
const STEPS_AT_ONE_PLACE_MAX: u64 = 100_000;
/// Longest way through parts that apply to the same place.
const WAY_MAX: usize = 100;

/// The number of a part.
pub(super) type Id = usize;

/// One schema within a schema.
#[derive(Debug, Default)]
pub(super) struct Part {
    /// Steps for the keywords that look at a value only once.
    pub(super) flat: u64,
    /// Most violations of its keywords at one place.
    pub(super) violations: u64,
    /// Bytes of the schema behind `not`, which a violation of it holds.
    pub(super) forbidden: u64,
    /// Apply to the same place: `allOf`, references and their like.
    pub(super) all: Vec<Id>,
    /// Are tried at the same place, and again when a violation is to be told: `anyOf` and its like.
    pub(super) tried: Vec<Id>,
    pub(super) properties: HashMap<String, Id>,
    pub(super) patterns: Vec<(Pattern, Id)>,
    pub(super) additional: Option<Id>,
    pub(super) names: Option<Id>,
    pub(super) unevaluated_properties: Option<Id>,
    pub(super) prefix: Vec<Id>,
    pub(super) items: Option<Id>,
    pub(super) contains: Option<Id>,
    pub(super) unevaluated_items: Option<Id>,
    pub(super) unique: bool,
    /// The pattern of a text.
    pub(super) pattern: Option<Pattern>,
    /// Steps for each byte of a text, in 64ths.
    pub(super) per_byte: u64,
    /// A text is to be a regular expression.
    pub(super) is_pattern: bool,
}

impl Part {
    pub(super) fn here(&self) -> impl Iterator<Item = Id> + '_ {
        self.all.iter().chain(&self.tried).copied()
    }
}

/// All parts of a schema; the first is the whole.
#[derive(Debug, Default)]
pub(super) struct Graph {
    pub(super) parts: Vec<Part>,
    /// The states of all different patterns.
    pub(super) states: u64,
    /// Whether one of the patterns is matched by backtracking.
    pub(super) backtracks: bool,
}

impl Graph {
    /// Refuses parts that lead to themselves at the same place, or to others again and again.
    pub(super) fn check(&self) -> Result<(), String> {
        let mut users = vec![0_usize; self.parts.len()];
        self.parts.iter().flat_map(Part::here).for_each(|id| users[id] += 1);
        // Parts come after all that apply them: what is left at the end leads to itself.
        let mut order: Vec<Id> = (0..self.parts.len()).filter(|id| users[*id] == 0).collect();
        let mut at = 0;
        while let Some(id) = order.get(at).copied() {
            at += 1;
            for next in self.parts[id].here() {
                users[next] -= 1;
                if users[next] == 0 {
                    order.push(next);
                }
            }
        }
        if order.len() < self.parts.len() {
            return Err("a part of it applies itself to the same place, without end".into());
        }
        let mut steps = vec![0_u64; self.parts.len()];
        let mut ways = vec![0_usize; self.parts.len()];
        for id in order.into_iter().rev() {
            let part = &self.parts[id];
            let below = |ids: &[Id]| ids.iter().fold(0_u64, |sum, id| sum.saturating_add(steps[*id]));
            steps[id] = part.flat.saturating_add(below(&part.all)).saturating_add(below(&part.tried).saturating_mul(2));
            ways[id] = 1 + part.here().map(|id| ways[id]).max().unwrap_or(0);
            if steps[id] > STEPS_AT_ONE_PLACE_MAX {
                return Err(format!(
                    "its parts apply to one place of a value more than {STEPS_AT_ONE_PLACE_MAX} times"
                ));
            }
            if ways[id] > WAY_MAX {
                return Err(format!("its references and alternatives lead on and on, more than {WAY_MAX} deep"));
            }
        }
        Ok(())
    }
}
