//! What the step of a run from one state to the next adds to the metrics.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;
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
        if !status.is_final() && !self.open_runs_told.load(Relaxed) {
            self.open_runs.add([engine_label(engine), status.as_str()], 1);
        }
    }

    /// From now on others start and end runs as well: what is open is told by [`Metrics::open_runs_are`] alone.
    pub(crate) fn open_runs_are_told(&self) {
        self.open_runs_told.store(true, Relaxed);
    }

    /// So many runs that have not ended have this engine and state, of all services.
    pub(crate) fn open_runs_are(&self, counted: &[(String, Status, u64)]) {
        let mut now: BTreeMap<[String; 2], i64> = BTreeMap::new();
        for (engine, status, count) in counted.iter().filter(|(_, status, _)| !status.is_final()) {
            let labels = [engine_label(engine).to_owned(), status.as_str().to_owned()];
            *now.entry(labels).or_default() += i64::try_from(*count).unwrap_or(i64::MAX);
        }
        for (labels, before) in self.open_runs.all() {
            let after = now.remove(&labels).unwrap_or_default();
            self.open_runs.add([&labels[0], &labels[1]], after - before);
        }
        for (labels, count) in now {
            self.open_runs.add([&labels[0], &labels[1]], count);
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
        if old != Some(new) && !self.open_runs_told.load(Relaxed) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_the_store_tells_what_is_open_nothing_else_counts() {
        let metrics = Metrics::default();
        metrics.open_runs_are_told();
        metrics.found("codex", Status::Running);
        let told = |metrics: &Metrics| {
            let all = metrics.open_runs.all().into_iter().filter(|(_, count)| *count != 0);
            all.map(|([engine, state], count)| (engine, state, count)).collect::<Vec<_>>()
        };
        assert_eq!(told(&metrics), []);
        let counted = |engine: &str, status, count| (engine.to_owned(), status, count);
        metrics.open_runs_are(&[counted("codex", Status::Queued, 3), counted("codex", Status::Succeeded, 9)]);
        assert_eq!(told(&metrics), [("codex".to_owned(), "queued".to_owned(), 3)]);
        metrics.open_runs_are(&[counted("gone", Status::Running, 1)]);
        assert_eq!(told(&metrics), [("other".to_owned(), "running".to_owned(), 1)]);
    }
}
