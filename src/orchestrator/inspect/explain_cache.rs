//! Why a run was spared its engine, or was not: the cache's part in it, part of the key by part.

use serde::Serialize;

use crate::domain::cache_key::KeyPart;
use crate::domain::event::{Event, Started, Uploaded};
use crate::domain::ids::{RequestId, RunId, Seq};
use crate::domain::request::ExecutionMode;
use crate::domain::state::RunState;
use crate::domain::statechart::Status;
use crate::fcmp::read_envelope;
use crate::orchestrator::error::Error;
use crate::orchestrator::intake::plan::key_of;
use crate::orchestrator::log::run_log::RunLog;
use crate::orchestrator::runs::{ROWS_AT_ONCE, read_rows};
use crate::store::EventBatch;
use crate::workspace::Manifest;

/// Earlier runs looked at, and those of the same skill that are compared part by part.
const RUNS_LOOKED_AT: usize = 10_000;
const RUNS_COMPARED: usize = 200;
/// Bytes of events read at once: what is wanted is near the beginning.
const READ_BYTES: usize = 64 * 1024;

/// What the cache did for a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CacheOutcome {
    /// Its result came from an equal run.
    Hit,
    /// No equal run's result was there.
    Miss,
    /// It neither asks the cache nor gives to it.
    NotCacheable,
}

/// A part of the key that differs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DifferingPart {
    pub part: &'static str,
    /// Its hash in this run.
    pub sha256: String,
    /// Its hash in the other.
    pub nearest_sha256: String,
}

/// The cache's part in a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CacheStory {
    /// The client's name for the run.
    pub request_id: RequestId,
    pub run_id: RunId,
    /// What came of it.
    pub outcome: CacheOutcome,
    pub reason: String,
    /// The run's key, once its files are known.
    pub key: Option<String>,
    /// The run whose result was taken, or the earlier success that differs least.
    pub nearest_run: Option<RunId>,
    /// What differs from it.
    pub differing_parts: Vec<DifferingPart>,
}

impl RunLog {
    /// What the cache did for a run, and why.
    pub async fn explain_cache(&self, run: RunId) -> Result<CacheStory, Error> {
        let state = self.head(run).await?.state;
        let story = |outcome, reason: &str, nearest_run, differing_parts| CacheStory {
            request_id: state.request_id,
            run_id: run,
            outcome,
            reason: reason.to_owned(),
            key: state.cache_key.clone(),
            nearest_run,
            differing_parts,
        };
        if let Some(reason) = not_cacheable(&state) {
            return Ok(story(CacheOutcome::NotCacheable, reason, None, Vec::new()));
        }
        let beginning = self.beginning(run).await?;
        if let Some(source) = beginning.source.filter(|_| state.cache_hit) {
            let reason = "an equal run had succeeded before, and its result was taken";
            return Ok(story(CacheOutcome::Hit, reason, Some(source), Vec::new()));
        }
        let parts = beginning.parts();
        Ok(match self.nearest(&state, &parts).await? {
            None => {
                let reason = "no earlier run of this skill has succeeded with the cache in use";
                story(CacheOutcome::Miss, reason, None, Vec::new())
            }
            Some((nearest, differing)) if differing.is_empty() => {
                let reason = "the nearest earlier run is equal, but its result was not there to be taken: \
                              it had not ended yet, or its files had gone or changed";
                story(CacheOutcome::Miss, reason, Some(nearest), differing)
            }
            Some((nearest, differing)) => {
                let names: Vec<&str> = differing.iter().map(|part| part.part).collect();
                let reason = format!("the nearest earlier run differs in {}", names.join(", "));
                story(CacheOutcome::Miss, &reason, Some(nearest), differing)
            }
        })
    }

    /// The events before a run's first move.
    async fn beginning(&self, run: RunId) -> Result<Beginning, Error> {
        let corrupt = |message: String| Error::Corrupt { run: run.to_string(), message };
        let (mut started, mut uploaded, mut source) = (None, None, None);
        // The first event may be long, and is read on its own.
        let first = self.read(run, Seq::START, 1).await?;
        let next = self.read(run, Seq(1), READ_BYTES).await?;
        let events = first.iter().chain(&next).flat_map(EventBatch::events).map(|(_, event)| event);
        for event in events {
            match read_envelope(&event).map_err(|error| corrupt(error.to_string()))?.event {
                Some(Event::Started(event)) => started = Some(*event),
                Some(Event::Uploaded(event)) => uploaded = Some(*event),
                Some(Event::CacheHit(hit)) => source = Some(hit.source_run_id),
                _ => break,
            }
        }
        let started = started.ok_or_else(|| corrupt("its first event is not conversation.started".into()))?;
        Ok(Beginning { started, uploaded, source })
    }

    /// The earlier success of the same skill that differs in the fewest parts, the newest of them; and these parts.
    async fn nearest(&self, state: &RunState, parts: &[KeyPart]) -> Result<Option<(RunId, Vec<DifferingPart>)>, Error> {
        let mut nearest: Option<(RunId, Vec<DifferingPart>)> = None;
        let (mut before, mut looked_at, mut compared) = (state.run_id, 0, 0);
        while looked_at < RUNS_LOOKED_AT && compared < RUNS_COMPARED {
            let rows = self.rows(Some(before), ROWS_AT_ONCE).await?;
            let Some((last, _)) = rows.last() else { break };
            before = *last;
            looked_at += rows.len();
            for other in read_rows(self.blocking(), rows).await?.into_iter().flatten() {
                let run = other.run_id;
                // A run that took its result from another is no nearer than that one.
                let may_serve = other.status() == Status::Succeeded && other.shared_key().is_some() && !other.cache_hit;
                if !may_serve || other.skill.id != state.skill.id {
                    continue;
                }
                compared += 1;
                let Ok(beginning) = self.beginning(run).await else { continue };
                let differing = differing(parts, &beginning.parts());
                if nearest.as_ref().is_none_or(|(_, least)| differing.len() < least.len()) {
                    nearest = Some((run, differing));
                }
            }
        }
        Ok(nearest)
    }
}

fn not_cacheable(state: &RunState) -> Option<&'static str> {
    if state.options.execution_mode == ExecutionMode::Interactive {
        Some("interactive runs are not cached: their result depends on what their user says")
    } else if state.options.no_cache {
        Some("the run was created with no_cache")
    } else if state.awaiting_upload {
        Some("the run waits for its files, which are part of the key")
    } else {
        None
    }
}

/// What the beginning of a log says about a run's key.
struct Beginning {
    started: Started,
    uploaded: Option<Uploaded>,
    source: Option<RunId>,
}

impl Beginning {
    fn parts(&self) -> Vec<KeyPart> {
        let Some(uploaded) = &self.uploaded else {
            return key_of(&self.started, &Manifest::default().sha256(), None).1;
        };
        match &uploaded.package {
            Some(package) => {
                let started = self.started.clone().with_package(package);
                key_of(&started, &uploaded.manifest_sha256, Some(&package.sha256)).1
            }
            None => key_of(&self.started, &uploaded.manifest_sha256, None).1,
        }
    }
}

fn differing(parts: &[KeyPart], others: &[KeyPart]) -> Vec<DifferingPart> {
    let pairs = parts.iter().zip(others).filter(|(one, other)| one != other);
    pairs
        .map(|((part, sha256), (_, nearest))| DifferingPart {
            part,
            sha256: sha256.clone(),
            nearest_sha256: nearest.clone(),
        })
        .collect()
}
