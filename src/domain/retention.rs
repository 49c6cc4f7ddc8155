//! Which runs that have ended are kept, and which the service deletes.

use std::collections::BTreeMap;
use std::fmt;

use super::time::Timestamp;

const DAY_SECONDS: u64 = 24 * 60 * 60;

/// How long runs that have ended are kept. A run that has not ended is never deleted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Retention {
    /// 0 is for ever.
    pub(crate) keep_days: u64,
    /// The newest of them, which stay however old they are; 0 is none.
    pub(crate) keep_last: u64,
    pub(crate) by_label: Vec<LabelRule>,
}

/// How long runs with a label are kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LabelRule {
    name: String,
    value: String,
    /// `None` is for ever.
    days: Option<u64>,
}

/// What is known of a run that has ended.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EndedRun<'a> {
    pub(crate) ended_at: Timestamp,
    pub(crate) labels: &'a BTreeMap<String, String>,
    /// How many newer runs have ended.
    pub(crate) newer: u64,
}

impl LabelRule {
    /// Reads `name:value=DAYS` or `name:value=forever`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (label, days) = text.rsplit_once('=')?;
        let (name, value) = label.split_once(':')?;
        let days = match days.trim() {
            "forever" => None,
            days => Some(days.parse().ok().filter(|days| (1..=36_500).contains(days))?),
        };
        (!name.is_empty()).then(|| Self { name: name.to_owned(), value: value.to_owned(), days })
    }
}

impl fmt::Display for LabelRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.days {
            Some(days) => write!(f, "{}:{}={days}", self.name, self.value),
            None => write!(f, "{}:{}=forever", self.name, self.value),
        }
    }
}

impl Retention {
    /// Whether anything is ever deleted.
    pub(crate) fn deletes(&self) -> bool {
        self.keep_days > 0 || self.keep_last > 0 || self.by_label.iter().any(|rule| rule.days.is_some())
    }

    /// Whether this run is kept.
    pub(crate) fn keeps(&self, run: EndedRun<'_>, now: Timestamp) -> bool {
        if !self.deletes() || run.newer < self.keep_last {
            return true;
        }
        let fits = |rule: &&LabelRule| run.labels.get(&rule.name) == Some(&rule.value);
        let rules: Vec<Option<u64>> = self.by_label.iter().filter(fits).map(|rule| rule.days).collect();
        let days = match rules.as_slice() {
            // Of several that fit, the one that keeps longest.
            [_, ..] if rules.contains(&None) => return true,
            [_, ..] => rules.into_iter().flatten().max().unwrap_or(0),
            // Without a number of days, `keep_last` alone decides; without that, only labels do.
            [] if self.keep_days == 0 => return self.keep_last == 0,
            [] => self.keep_days,
        };
        run.ended_at.plus_seconds(days.saturating_mul(DAY_SECONDS)) > now
    }

    /// In one line, for operators.
    pub(crate) fn in_words(&self) -> String {
        if !self.deletes() {
            return "runs are kept until somebody deletes them".to_owned();
        }
        let mut parts = Vec::new();
        match (self.keep_days, self.keep_last) {
            (0, 0) => parts.push("ended runs are kept".to_owned()),
            (0, last) => parts.push(format!("the newest {last} ended runs are kept, older ones are deleted")),
            (days, 0) => parts.push(format!("ended runs are deleted after {days} days")),
            (days, last) => parts.push(format!("ended runs are deleted after {days} days, but for the newest {last}")),
        }
        parts.extend(self.by_label.iter().map(|rule| match rule.days {
            Some(days) => format!("those with the label {}:{} after {days} days", rule.name, rule.value),
            None => format!("those with the label {}:{} never", rule.name, rule.value),
        }));
        parts.join("; ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn retention(keep_days: u64, keep_last: u64, rules: &[&str]) -> Retention {
        let by_label = rules.iter().map(|text| LabelRule::parse(text).unwrap()).collect();
        Retention { keep_days, keep_last, by_label }
    }

    /// Whether a run is kept that ended so many days ago, with so many newer ones.
    fn keeps(retention: &Retention, days_ago: u64, newer: u64, labels: &[(&str, &str)]) -> bool {
        let now = Timestamp::from_micros(0).plus_seconds(1000 * DAY_SECONDS);
        let ended_at = Timestamp::from_micros(0).plus_seconds((1000 - days_ago) * DAY_SECONDS);
        let labels = labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        retention.keeps(EndedRun { ended_at, labels: &labels, newer }, now)
    }

    #[test]
    fn days_count_from_the_end_of_a_run_and_the_newest_stay() {
        let forever = retention(0, 0, &[]);
        assert!(!forever.deletes() && keeps(&forever, 900, 50, &[]));
        let month = retention(30, 0, &[]);
        assert!(keeps(&month, 29, 50, &[]) && !keeps(&month, 30, 50, &[]) && !keeps(&month, 30, 0, &[]));
        let last = retention(0, 10, &[]);
        assert!(keeps(&last, 900, 9, &[]) && !keeps(&last, 0, 10, &[]));
        let both = retention(30, 10, &[]);
        assert!(keeps(&both, 900, 9, &[]) && keeps(&both, 29, 10, &[]) && !keeps(&both, 30, 10, &[]));
    }

    #[test]
    fn a_label_takes_the_place_of_the_days_and_the_longest_counts() {
        let rules = retention(30, 0, &["team:a=90", "keep:yes=forever", "class:scratch=1"]);
        assert!(keeps(&rules, 89, 0, &[("team", "a")]) && !keeps(&rules, 90, 0, &[("team", "a")]));
        assert!(!keeps(&rules, 1, 0, &[("class", "scratch")]));
        assert!(keeps(&rules, 40, 0, &[("class", "scratch"), ("team", "a")]));
        assert!(keeps(&rules, 900, 0, &[("class", "scratch"), ("keep", "yes")]));
        assert!(!keeps(&rules, 30, 0, &[("team", "b")]));
        let labels_alone = retention(0, 0, &["class:scratch=1"]);
        assert!(labels_alone.deletes() && keeps(&labels_alone, 900, 0, &[]));
        assert!(!keeps(&labels_alone, 1, 0, &[("class", "scratch")]));
        let last = retention(0, 1, &["keep:yes=forever"]);
        assert!(keeps(&last, 5, 9, &[("keep", "yes")]) && !keeps(&last, 5, 9, &[]));
    }

    #[test]
    fn rules_are_read_and_told_and_wrong_ones_refused() {
        for text in ["team:a=90", "keep:yes=forever", "url:a=b=3", "empty:=2"] {
            assert_eq!(LabelRule::parse(text).unwrap().to_string(), text);
        }
        for wrong in ["team=90", "team:a", "team:a=0", "team:a=-1", ":a=1", "team:a=1.5", ""] {
            assert_eq!(LabelRule::parse(wrong), None, "{wrong}");
        }
        assert_eq!(
            retention(30, 5, &["team:a=90", "keep:yes=forever"]).in_words(),
            "ended runs are deleted after 30 days, but for the newest 5; those with the label team:a after 90 days; \
             those with the label keep:yes never"
        );
    }
}
