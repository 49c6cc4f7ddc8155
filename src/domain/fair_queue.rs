//! Which waiting run starts next: by priority, fairly between those who share the queue, within the limits.
//!
//! Runs of a higher priority go first, but a priority that was passed over `PATIENCE` times has its turn. Among runs of one
//! priority it is the turn of the share with the fewest running runs, then of the one that has waited longest for a start; within a
//! share they go in the order in which they came. A run whose engine or skill has as many runs as it may is passed over.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, VecDeque};

use super::ids::RunId;

/// So many runs may start before one of a lower priority that could start, too.
pub(crate) const PATIENCE: u32 = 8;

/// The priorities that a request may ask for.
pub(crate) const PRIORITIES: std::ops::RangeInclusive<i8> = -5..=5;

/// What the queue knows of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ticket {
    pub(crate) run: RunId,
    pub(crate) priority: i8,
    /// Who shares the queue fairly with others.
    pub(crate) share: String,
    pub(crate) engine: String,
    pub(crate) skill: String,
}

/// How many runs may run and wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    pub running: usize,
    pub waiting: usize,
    pub per_engine: Option<usize>,
    pub per_skill: Option<usize>,
}

/// By what those are told apart who share the queue fairly.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ShareRule {
    /// The value of this label; runs without it are together one share of their own.
    pub label: Option<String>,
    /// Else the named token, if that is wanted. Who has neither is in the share without a name.
    pub tokens: bool,
}

impl ShareRule {
    pub(crate) fn share_of(&self, labels: &BTreeMap<String, String>, by: Option<&str>) -> String {
        match &self.label {
            Some(label) => format!("={}", labels.get(label).map_or("", String::as_str)),
            None => by.filter(|_| self.tokens).map_or_else(String::new, |token| format!("@{token}")),
        }
    }
}

#[derive(Debug)]
pub(crate) struct FairQueue {
    bounds: Bounds,
    /// Highest priority first.
    levels: BTreeMap<Reverse<i8>, Level>,
    running: HashMap<RunId, Ticket>,
    /// Places promised to runs that are being created, by share.
    promised: HashMap<String, usize>,
    /// Runs that wait in a queue that several services share, and not in this one, by share.
    elsewhere: BTreeMap<String, usize>,
    /// How many runs have come, and how many have started.
    came: u64,
    started: u64,
}

#[derive(Debug, Default)]
struct Level {
    lines: BTreeMap<String, Line>,
    passed_over: u32,
}

/// The waiting runs of one share.
#[derive(Debug)]
struct Line {
    waiting: VecDeque<Waiting>,
    /// The last start of this share, or its coming: who comes anew is not before those who wait.
    served: u64,
}

#[derive(Debug)]
struct Waiting {
    ticket: Ticket,
    number: u64,
}

impl FairQueue {
    pub(crate) fn new(bounds: Bounds) -> Self {
        let (levels, running, promised, elsewhere) = Default::default();
        Self { bounds, levels, running, promised, elsewhere, came: 0, started: 0 }
    }

    /// Promises a place, if there is one.
    pub(crate) fn promise(&mut self, share: &str) -> bool {
        let has_place = self.has_place(share);
        if has_place {
            *self.promised.entry(share.to_owned()).or_default() += 1;
        }
        has_place
    }

    /// Whether a run of this share finds a place now. A share holds no more places than are left for all, so that there is always
    /// one for a share that has none; the share without a name has no such bound.
    pub(crate) fn has_place(&self, share: &str) -> bool {
        // A run that can start at once does not wait, so free slots count as well.
        let free_slots = self.bounds.running.saturating_sub(self.running.len());
        let promised: usize = self.promised.values().sum();
        let taken = self.waiting() + self.waiting_elsewhere() + promised;
        let left = (self.bounds.waiting + free_slots).saturating_sub(taken);
        left > 0 && (share.is_empty() || self.held(share) < left + free_slots)
    }

    /// So many runs of each share wait in a queue that this service shares with others.
    pub(crate) fn wait_elsewhere(&mut self, runs: BTreeMap<String, usize>) {
        self.elsewhere = runs;
    }

    pub(crate) fn waiting_elsewhere(&self) -> usize {
        self.elsewhere.values().sum()
    }

    /// How many more runs may run.
    pub(crate) fn free_slots(&self) -> usize {
        self.bounds.running.saturating_sub(self.running.len() + self.waiting())
    }

    /// Takes a promise back, or the run it was for is about to come.
    pub(crate) fn settle(&mut self, share: &str) {
        if let Some(promised) = self.promised.get_mut(share) {
            *promised -= 1;
            if *promised == 0 {
                self.promised.remove(share);
            }
        }
    }

    /// A run waits, behind those of its share and priority.
    pub(crate) fn push(&mut self, ticket: Ticket) {
        let number = self.number();
        self.put_back(ticket, number);
    }

    /// The number of the next run that comes.
    pub(crate) fn number(&mut self) -> u64 {
        self.came += 1;
        self.came
    }

    /// A run waits where its number says: one that is not started after all is where it was.
    pub(crate) fn put_back(&mut self, ticket: Ticket, number: u64) {
        let level = self.levels.entry(Reverse(ticket.priority)).or_default();
        let started = self.started;
        let new = || Line { waiting: VecDeque::new(), served: started };
        let line = level.lines.entry(ticket.share.clone()).or_insert_with(new);
        let at = line.waiting.partition_point(|waiting| waiting.number < number);
        line.waiting.insert(at, Waiting { ticket, number });
    }

    /// The next run to start, if there is one that may. It runs until [`FairQueue::finished`].
    pub(crate) fn next(&mut self) -> Option<Ticket> {
        self.next_if(|_| true)
    }

    /// Other limits from now on.
    pub(crate) fn limit(&mut self, per_engine: Option<usize>, per_skill: Option<usize>) {
        (self.bounds.per_engine, self.bounds.per_skill) = (per_engine, per_skill);
    }

    /// The same, of those that the condition lets start.
    pub(crate) fn next_if(&mut self, may: impl Fn(&Ticket) -> bool) -> Option<Ticket> {
        if self.running.len() >= self.bounds.running {
            return None;
        }
        let ready: Vec<(i8, u32, (String, usize))> = (self.levels.iter())
            .filter_map(|(Reverse(priority), level)| Some((*priority, level.passed_over, self.ready_in(level, &may)?)))
            .collect();
        let longest = ready.iter().filter(|(_, passed_over, _)| *passed_over >= PATIENCE);
        let (priority, _, (share, at)) = longest.max_by_key(|(_, passed_over, _)| *passed_over).or(ready.first())?;
        for (lower, _, _) in ready.iter().filter(|(other, _, _)| other < priority) {
            if let Some(level) = self.levels.get_mut(&Reverse(*lower)) {
                level.passed_over += 1;
            }
        }
        let ticket = self.take(*priority, share, *at)?;
        self.running.insert(ticket.run, ticket.clone());
        Some(ticket)
    }

    /// Whose turn it is among the runs of one priority: the share, and where in its line.
    fn ready_in(&self, level: &Level, may: &impl Fn(&Ticket) -> bool) -> Option<(String, usize)> {
        let is_ready = |waiting: &Waiting| self.may_start(&waiting.ticket) && may(&waiting.ticket);
        let may_start = |line: &Line| line.waiting.iter().position(is_ready);
        let ready = level.lines.iter().filter_map(|(share, line)| Some((share, line, may_start(line)?)));
        let next = ready.min_by_key(|(share, line, _)| {
            let running = self.running.values().filter(|ticket| ticket.share == **share).count();
            (running, line.served, line.waiting.front().map(|first| first.number))
        });
        next.map(|(share, _, at)| (share.clone(), at))
    }

    fn may_start(&self, ticket: &Ticket) -> bool {
        let below = |limit: Option<usize>, same: fn(&Ticket, &Ticket) -> bool| {
            limit.is_none_or(|limit| self.running.values().filter(|other| same(other, ticket)).count() < limit)
        };
        // A run that was answered before its last turn's actor had gone waits for that: one run, one actor, one slot.
        !self.running.contains_key(&ticket.run)
            && below(self.bounds.per_engine, |one, other| one.engine == other.engine)
            && below(self.bounds.per_skill, |one, other| one.skill == other.skill)
    }

    fn take(&mut self, priority: i8, share: &str, at: usize) -> Option<Ticket> {
        self.started += 1;
        let level = self.levels.get_mut(&Reverse(priority))?;
        level.passed_over = 0;
        let line = level.lines.get_mut(share)?;
        line.served = self.started;
        let taken = line.waiting.remove(at)?.ticket;
        self.forget_if_empty(priority, share);
        Some(taken)
    }

    fn forget_if_empty(&mut self, priority: i8, share: &str) {
        let Some(level) = self.levels.get_mut(&Reverse(priority)) else { return };
        if level.lines.get(share).is_some_and(|line| line.waiting.is_empty()) {
            level.lines.remove(share);
        }
        if level.lines.is_empty() {
            self.levels.remove(&Reverse(priority));
        }
    }

    /// A run gives its slot back.
    pub(crate) fn finished(&mut self, run: RunId) {
        self.running.remove(&run);
    }

    /// Takes a run out of the queue, if it waits.
    pub(crate) fn remove(&mut self, run: RunId) -> Option<Ticket> {
        let (priority, share, at) = self.find(run)?;
        let taken = self.levels.get_mut(&Reverse(priority))?.lines.get_mut(&share)?.waiting.remove(at)?.ticket;
        self.forget_if_empty(priority, &share);
        Some(taken)
    }

    fn find(&self, run: RunId) -> Option<(i8, String, usize)> {
        let mut lines = self.levels.iter().flat_map(|(Reverse(priority), level)| {
            level.lines.iter().map(move |(share, line)| (*priority, share, line))
        });
        let at = |line: &Line| line.waiting.iter().position(|waiting| waiting.ticket.run == run);
        lines.find_map(|(priority, share, line)| Some((priority, share.clone(), at(line)?)))
    }

    /// About how many runs are to start before this one: those of a higher priority, and of its own priority those that are
    /// not as far back in their share.
    pub(crate) fn position(&self, run: RunId) -> Option<usize> {
        let (priority, share, at) = self.find(run)?;
        let number = |line: &Line| line.waiting.get(at).map(|waiting| waiting.number);
        let level = self.levels.get(&Reverse(priority))?;
        let own = number(level.lines.get(&share)?)?;
        let higher = self.levels.range(..Reverse(priority)).flat_map(|(_, level)| level.lines.values());
        let higher: usize = higher.map(|line| line.waiting.len()).sum();
        let before = |line: &Line| line.waiting.len().min(at) + usize::from(number(line).is_some_and(|it| it < own));
        Some(higher + level.lines.values().map(before).sum::<usize>())
    }

    pub(crate) fn waiting(&self) -> usize {
        self.levels.values().flat_map(|level| level.lines.values()).map(|line| line.waiting.len()).sum()
    }

    pub(crate) fn running(&self) -> usize {
        self.running.len()
    }

    /// The places of a share: runs that wait, and promises.
    fn held(&self, share: &str) -> usize {
        let waiting = self.levels.values().filter_map(|level| level.lines.get(share)).map(|line| line.waiting.len());
        let told = |counts: Option<&usize>| counts.copied().unwrap_or(0);
        waiting.sum::<usize>() + told(self.elsewhere.get(share)) + told(self.promised.get(share))
    }
}

#[cfg(test)]
mod tests;
