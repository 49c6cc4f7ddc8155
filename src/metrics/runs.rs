//! What the step of a run from one state to the next adds to the metrics.

use std::time::Duration;

use super::all::Metrics;
use crate::domain::codes::ErrorCode;
use crate::domain::engine::Engine;
use crate::domain::outcome::Usage;
use crate::domain::state::RunState;
use crate::domain::statechart::Status;
use crate::domain::time::Timestamp;

/// What codes of a skill's own are counted as: anybody can make up as many as he likes.
const SKILLS_OWN_CODE: &str = "SKILL";

/// The engine of a run, as a label: one of those that are known.
fn engine_label(name: &str) -> &'static str {
    name.parse::<Engine>().map_or("other", Engine::as_str)
}

fn code_label(code: &str) -> &str {
    let known = ErrorCode::ALL.iter().map(|known| known.as_str()).any(|known| known == code);
    if known { code } else { SKILLS_OWN_CODE }
}

fn between(from: Timestamp, to: Timestamp) -> Duration {
    Duration::from_micros(u64::try_from(to.as_micros().saturating_sub(from.as_micros())).unwrap_or(0))
}

impl Metrics {
    /// A run in this state was found when the service started.
    pub(crate) fn found(&self, engine: &str, status: Status) {
        if !status.is_final() {
            self.open_runs.add([engine_label(engine), status.as_str()], 1);
        }
    }

    /// A run was written to its log: its state before that, if there was one, and after it.
    pub(crate) fn moved(&self, before: Option<&RunState>, after: &RunState) {
        let engine = engine_label(&after.engine);
        if before.is_none() {
            self.created.add([engine], 1);
        }
        let old = before.map(|run| (engine_label(&run.engine), run.status()));
        let new = (engine, after.status());
        if old != Some(new) {
            if let Some((engine, status)) = old.filter(|(_, status)| !status.is_final()) {
                self.open_runs.add([engine, status.as_str()], -1);
            }
            if !new.1.is_final() {
                self.open_runs.add([engine, new.1.as_str()], 1);
            }
        }
        let turns = after.turns.saturating_sub(before.map_or(0, |run| run.turns));
        if turns > 0 {
            self.turns.add([engine], turns.into());
        }
        if let Some(before) = before.filter(|run| run.status() == Status::Queued && turns > 0 && !run.awaiting_upload) {
            self.queue_seconds.observe(between(before.updated_at, after.updated_at));
        }
        self.used(engine, before.map_or_else(Usage::default, |run| run.usage), after.usage);
        if after.status().is_final() && !old.is_some_and(|(_, status)| status.is_final()) {
            self.ended(engine, after);
        }
    }

    fn ended(&self, engine: &'static str, run: &RunState) {
        self.finished.add([engine, run.status().as_str()], 1);
        self.run_seconds.observe(between(run.created_at, run.updated_at));
        if run.cache_hit {
            self.cache_hits.add([engine], 1);
        }
        if let Some(error) = &run.error {
            self.errors.add([code_label(&error.code)], 1);
        }
    }

    fn used(&self, engine: &'static str, before: Usage, after: Usage) {
        for (kind, count) in [
            ("input", after.input_tokens.saturating_sub(before.input_tokens)),
            ("cached_input", after.cached_input_tokens.saturating_sub(before.cached_input_tokens)),
            ("output", after.output_tokens.saturating_sub(before.output_tokens)),
        ] {
            if count > 0 {
                self.tokens.add([engine, kind], count);
            }
        }
        self.cost.add(after.cost_usd.unwrap_or(0.0) - before.cost_usd.unwrap_or(0.0));
    }
}
