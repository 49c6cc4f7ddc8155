//! What runs are asked for by: their status, skill, engine, labels and time, taken from their rows.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::domain::statechart::Status;
use crate::domain::time::Timestamp;
use crate::fcmp::LogHead;

/// Which runs to find; what is `None` may be anything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunFilter {
    pub status: Option<Status>,
    pub skill_id: Option<String>,
    pub engine: Option<String>,
    /// Of a skill of their own, or of installed ones.
    pub temporary: Option<bool>,
    /// With all these labels.
    pub labels: Vec<(String, String)>,
    /// Created then or later.
    pub since: Option<Timestamp>,
    /// Created before then.
    pub until: Option<Timestamp>,
}

impl RunFilter {
    /// Whether it finds all runs.
    pub(super) fn is_empty(&self) -> bool {
        *self == RunFilter::default()
    }

    pub(super) fn finds(&self, run: &Labels) -> bool {
        self.status.is_none_or(|status| status == run.status)
            && self.skill_id.as_ref().is_none_or(|skill| *skill == run.skill_id)
            && self.engine.as_ref().is_none_or(|engine| *engine == run.engine)
            && self.temporary.is_none_or(|temporary| temporary == run.temporary)
            && self.labels.iter().all(|(name, value)| run.labels.get(name) == Some(value))
            && self.covers(run.created_at)
    }

    /// Whether it finds runs that were created then.
    pub(super) fn covers(&self, created_at: Option<Timestamp>) -> bool {
        self.since.is_none_or(|since| created_at.is_some_and(|at| at >= since))
            && self.until.is_none_or(|until| created_at.is_some_and(|at| at < until))
    }
}

/// How many runs there are of each status; those that no run has are left out.
pub type RunCounts = BTreeMap<Status, u64>;

/// What a run can be found by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Labels {
    pub(crate) status: Status,
    pub(super) skill_id: String,
    pub(crate) engine: String,
    pub(crate) temporary: bool,
    pub(super) labels: BTreeMap<String, String>,
    pub(super) created_at: Option<Timestamp>,
}

impl Labels {
    /// Those of a run's row; `None` if it is not one.
    pub(crate) fn of_row(row: &[u8]) -> Option<Labels> {
        if let Ok(Row { state }) = serde_json::from_slice(row) {
            let Part { skill, engine, status, temporary, labels, created_at } = state;
            return Some(Labels { status: status.into(), skill_id: skill.id, engine, temporary, labels, created_at });
        }
        // Rows of older versions are different.
        let state = LogHead::from_row(row).ok()?.state;
        let (status, temporary, created_at) = (state.status(), state.temporary, Some(state.created_at));
        let (skill_id, engine, labels) = (state.skill.id, state.engine, state.labels);
        Some(Labels { status, skill_id, engine, temporary, labels, created_at })
    }
}

/// The parts of a row that count; all else is passed over, which takes a tenth of the time.
#[derive(Deserialize)]
struct Row {
    state: Part,
}

#[derive(Deserialize)]
struct Part {
    skill: Skill,
    engine: String,
    status: Phase,
    #[serde(default)]
    temporary: bool,
    #[serde(default)]
    labels: BTreeMap<String, String>,
    #[serde(default)]
    created_at: Option<Timestamp>,
}

#[derive(Deserialize)]
struct Skill {
    id: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Phase {
    Queued,
    Running,
    Asking(IgnoredAny),
    WaitingUser(IgnoredAny),
    Succeeded,
    Failed,
    Canceled,
}

impl From<Phase> for Status {
    fn from(phase: Phase) -> Status {
        match phase {
            Phase::Queued => Status::Queued,
            Phase::Running | Phase::Asking(_) => Status::Running,
            Phase::WaitingUser(_) => Status::WaitingUser,
            Phase::Succeeded => Status::Succeeded,
            Phase::Failed => Status::Failed,
            Phase::Canceled => Status::Canceled,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(status: serde_json::Value) -> Option<Labels> {
        let state =
            json!({"run_id": "x", "skill": {"id": "s", "version": "1"}, "engine": "e", "status": status, "more": [{}]});
        Labels::of_row(json!({"state": state, "chain": "…"}).to_string().as_bytes())
    }

    fn run(status: Status, temporary: bool) -> Labels {
        let (skill_id, engine, labels) = ("s".to_owned(), "e".to_owned(), BTreeMap::new());
        Labels { status, skill_id, engine, temporary, labels, created_at: None }
    }

    #[test]
    fn every_phase_has_its_status_and_what_is_no_row_has_none() {
        let labels = |status| Some(run(status, false));
        for status in [Status::Queued, Status::Running, Status::Succeeded, Status::Failed, Status::Canceled] {
            assert_eq!(of(json!(status)), labels(status));
        }
        assert_eq!(of(json!({"asking": {"interaction": {}}})), labels(Status::Running));
        assert_eq!(of(json!({"waiting_user": {"interaction": {}}})), labels(Status::WaitingUser));
        assert_eq!(of(json!("gone")), None);
        assert_eq!(Labels::of_row(b"row"), None);
    }

    #[test]
    fn a_filter_finds_what_has_all_that_it_names() {
        let run = run(Status::Failed, true);
        let filter = |status, skill: &str, engine: &str, temporary| RunFilter {
            status: Some(status),
            skill_id: Some(skill.into()),
            engine: Some(engine.into()),
            temporary: Some(temporary),
            ..RunFilter::default()
        };
        assert!(RunFilter::default().finds(&run) && filter(Status::Failed, "s", "e", true).finds(&run));
        for other in [
            filter(Status::Queued, "s", "e", true),
            filter(Status::Failed, "t", "e", true),
            filter(Status::Failed, "s", "f", true),
            filter(Status::Failed, "s", "e", false),
        ] {
            assert!(!other.finds(&run));
        }
    }
}
