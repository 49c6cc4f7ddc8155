//! A filter of runs as a condition in SQL, and what runs are found by as columns.

use sha2::{Digest, Sha256};
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use crate::domain::fair_queue::ShareRule;
use crate::store::standing::Standing;
use crate::store::{Labels, RunFilter};

/// A condition on runs that have a row, with its parameters.
pub(super) struct Condition {
    parts: Vec<String>,
    values: Vec<Box<dyn ToSql + Send + Sync>>,
}

impl Condition {
    pub(super) fn of(filter: &RunFilter) -> Condition {
        let RunFilter { status, skill_id, engine, temporary, labels, since, until } = filter;
        let mut condition = Condition { parts: vec!["state is not null".to_owned()], values: Vec::new() };
        if let Some(status) = status {
            condition.and("status =", status.as_str().to_owned());
        }
        if let Some(skill) = skill_id {
            condition.and_text("skill =", skill);
        }
        if let Some(engine) = engine {
            condition.and_text("engine =", engine);
        }
        if let Some(temporary) = temporary {
            condition.and("temporary =", *temporary);
        }
        if !labels.is_empty() {
            let digests: Vec<Vec<u8>> = labels.iter().map(|(name, value)| digest(name, value)).collect();
            condition.and("labels @>", digests);
        }
        if let Some(since) = since {
            condition.and("created_at >=", since.as_micros());
        }
        if let Some(until) = until {
            condition.and("created_at <", until.as_micros());
        }
        condition
    }

    /// Only runs with smaller ids.
    pub(super) fn before(&mut self, run: Uuid) {
        self.and("run <", run);
    }

    pub(super) fn sql(&self) -> String {
        self.parts.join(" and ")
    }

    pub(super) fn values(&self) -> Vec<&(dyn ToSql + Sync)> {
        self.values.iter().map(|value| &**value as &(dyn ToSql + Sync)).collect()
    }

    fn and(&mut self, comparison: &str, value: impl ToSql + Send + Sync + 'static) {
        let place = self.value(value);
        self.parts.push(format!("{comparison} {place}"));
    }

    /// One more parameter; returns how SQL names it.
    pub(super) fn value(&mut self, value: impl ToSql + Send + Sync + 'static) -> String {
        self.values.push(Box::new(value));
        format!("${}", self.values.len())
    }

    fn and_text(&mut self, comparison: &str, value: &str) {
        match storable(value) {
            Some(text) => self.and(comparison, text),
            // No run has it: it was not stored.
            None => self.parts.push("false".to_owned()),
        }
    }
}

/// The columns of a run's row.
#[derive(Default)]
pub(super) struct Columns {
    pub(super) status: Option<&'static str>,
    pub(super) skill: Option<String>,
    pub(super) engine: Option<String>,
    pub(super) temporary: Option<bool>,
    pub(super) labels: Option<Vec<Vec<u8>>>,
    pub(super) created_at: Option<i64>,
    pub(super) place: QueuePlace,
}

/// The columns of a run's row that tell where it is in the queue.
#[derive(Default)]
pub(super) struct QueuePlace {
    pub(super) waits: bool,
    pub(super) not_before: Option<i64>,
    pub(super) due_at: Option<i64>,
    /// `None` if the row does not say what follows, which then stays as it was.
    pub(super) priority: Option<i16>,
    pub(super) share: Option<Vec<u8>>,
    pub(super) shared_key: Option<Vec<u8>>,
}

impl QueuePlace {
    pub(super) fn of(standing: Standing) -> QueuePlace {
        let Standing { waits, not_before, due_at, queued } = standing;
        let (priority, share, shared_key) = match queued {
            Some(queued) => (
                Some(i16::from(queued.ticket.priority)),
                Some(queued.ticket.share.into_bytes()),
                queued.shared_key.map(String::into_bytes),
            ),
            None => (None, None, None),
        };
        QueuePlace { waits, not_before, due_at, priority, share, shared_key }
    }
}

impl Columns {
    /// Those of a row; none if it is not one of a run.
    pub(super) fn of_row(row: &[u8], rule: &ShareRule) -> Columns {
        let Some(found) = Labels::of_row(row) else { return Columns::default() };
        Columns {
            place: QueuePlace::of(Standing::of_row(row, &found, rule)),
            status: Some(found.status.as_str()),
            skill: storable(&found.skill_id),
            engine: storable(&found.engine),
            temporary: Some(found.temporary),
            labels: Some(found.labels.iter().map(|(name, value)| digest(name, value)).collect()),
            created_at: found.created_at.map(|at| at.as_micros()),
        }
    }
}

/// A text that the server can store: it has no NUL.
fn storable(text: &str) -> Option<String> {
    (!text.contains('\0')).then(|| text.to_owned())
}

/// A label as a fixed number of bytes, whatever its characters: no two labels have the same.
fn digest(name: &str, value: &str) -> Vec<u8> {
    let mut hash = Sha256::new();
    hash.update(name.len().to_be_bytes());
    hash.update(name);
    hash.update(value);
    hash.finalize()[..16].to_vec()
}
