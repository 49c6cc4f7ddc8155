//! The queue under any sequence of runs that come, start and end.

use std::collections::HashMap;

use proptest::prelude::*;
use uuid::Uuid;

use super::*;

const BOUNDS: Bounds = Bounds { running: 4, waiting: 1000, per_engine: Some(3), per_skill: Some(2) };

fn run(n: usize) -> RunId {
    RunId(Uuid::from_u128(n as u128))
}

fn ticket(n: usize, priority: i8, share: &str) -> Ticket {
    Ticket { run: run(n), priority, share: share.into(), engine: "e".into(), skill: format!("s{n}") }
}

fn open(running: usize) -> FairQueue {
    FairQueue::new(Bounds { running, waiting: 1000, per_engine: None, per_skill: None })
}

/// Starts and ends one run after the other; their numbers.
fn order(queue: &mut FairQueue) -> Vec<u128> {
    std::iter::from_fn(|| {
        let next = queue.next()?;
        queue.finished(next.run);
        Some(next.run.0.as_u128())
    })
    .collect()
}

#[test]
fn one_share_of_one_priority_is_first_come_first_served() {
    let mut queue = open(1);
    (0..5).for_each(|n| queue.push(ticket(n, 0, "")));
    assert_eq!((0..5).map(|n| queue.position(run(n))).collect::<Vec<_>>(), (0..5).map(Some).collect::<Vec<_>>());
    assert_eq!(queue.remove(run(2)), Some(ticket(2, 0, "")));
    assert_eq!((queue.remove(run(2)), queue.position(run(2)), queue.waiting()), (None, None, 4));
    assert_eq!(order(&mut queue), [0, 1, 3, 4]);
}

#[test]
fn a_higher_priority_goes_first_and_a_lower_one_has_its_turn_after_a_while() {
    let mut queue = open(1);
    queue.push(ticket(100, -5, ""));
    (0..12).for_each(|n| queue.push(ticket(n, 5, "")));
    assert_eq!((queue.position(run(100)), queue.position(run(3))), (Some(12), Some(3)));
    assert_eq!(order(&mut queue), [0, 1, 2, 3, 4, 5, 6, 7, 100, 8, 9, 10, 11]);
}

#[test]
fn shares_take_turns_whoever_has_more_waiting() {
    let mut queue = open(1);
    (0..6).for_each(|n| queue.push(ticket(n, 0, "many")));
    (10..12).for_each(|n| queue.push(ticket(n, 0, "few")));
    assert_eq!(queue.position(run(10)), Some(1));
    assert_eq!(order(&mut queue), [0, 10, 1, 11, 2, 3, 4, 5]);
}

#[test]
fn who_comes_again_and_again_does_not_pass_those_who_wait() {
    let mut queue = open(1);
    (0..3).for_each(|n| queue.push(ticket(n, 0, "a")));
    let mut started = Vec::new();
    for n in 10..14 {
        // The run of the other share is over before its next one comes.
        queue.push(ticket(n, 0, "b"));
        for _ in 0..2 {
            if let Some(next) = queue.next() {
                queue.finished(next.run);
                started.push(next.run.0.as_u128());
            }
        }
    }
    assert_eq!(started, [0, 10, 1, 11, 2, 12, 13]);
}

#[test]
fn a_share_that_holds_all_slots_lets_others_go_first() {
    let mut queue = open(2);
    (0..4).for_each(|n| queue.push(ticket(n, 0, "a")));
    assert_eq!([queue.next(), queue.next(), queue.next()].map(|next| next.is_some()), [true, true, false]);
    (10..12).for_each(|n| queue.push(ticket(n, 0, "b")));
    queue.finished(run(0));
    assert_eq!(queue.next().map(|next| next.run), Some(run(10)));
    queue.finished(run(1));
    assert_eq!(queue.next().map(|next| next.run), Some(run(2)), "each has one running then");
}

#[test]
fn a_run_waits_while_it_still_has_its_slot_and_holds_up_nobody() {
    let mut queue = open(2);
    queue.push(ticket(1, 0, ""));
    assert_eq!(queue.next(), Some(ticket(1, 0, "")));
    queue.push(ticket(1, 0, ""));
    queue.push(ticket(2, 0, ""));
    assert_eq!((queue.next(), queue.next()), (Some(ticket(2, 0, "")), None));
    queue.finished(run(1));
    assert_eq!((queue.next(), queue.waiting(), queue.running()), (Some(ticket(1, 0, "")), 0, 2));
}

#[test]
fn a_share_cannot_take_every_place() {
    let mut queue = FairQueue::new(Bounds { running: 0, waiting: 100, per_engine: None, per_skill: None });
    let taken = |queue: &mut FairQueue, share: &str| (0..200).take_while(|_| queue.promise(share)).count();
    assert_eq!((taken(&mut queue, "a"), taken(&mut queue, "b")), (50, 25));
    assert!(queue.promise("c"));
    queue.settle("c");
    (0..50).for_each(|_| queue.settle("a"));
    assert!(queue.promise("b"), "what was given back is there again");
    // Without shares everybody has the whole queue.
    let mut queue = FairQueue::new(Bounds { running: 0, waiting: 100, per_engine: None, per_skill: None });
    assert_eq!(taken(&mut queue, ""), 100);
}

/// What happens: a run comes (priority, share, engine, skill), the next starts, or one of the running ends.
#[derive(Debug, Clone)]
enum Step {
    Come(i8, usize, usize, usize),
    Start,
    End(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let come = (-2i8..3, 0..3usize, 0..2usize, 0..4usize).prop_map(|(p, share, e, s)| Step::Come(p, share, e, s));
    prop::collection::vec(prop_oneof![3 => come, 2 => Just(Step::Start), 2 => (0..4usize).prop_map(Step::End)], 0..200)
}

proptest! {
    #[test]
    fn no_limit_is_exceeded_and_whoever_is_chosen_had_the_right_to_it(steps in steps()) {
        let mut queue = FairQueue::new(BOUNDS);
        let mut running: Vec<Ticket> = Vec::new();
        let mut waiting: Vec<Ticket> = Vec::new();
        let mut passed: HashMap<i8, u32> = HashMap::new();
        for (n, step) in steps.into_iter().enumerate() {
            match step {
                Step::Come(priority, share, engine, skill) => {
                    let (share, engine, skill) = (share.to_string(), engine.to_string(), skill.to_string());
                    let ticket = Ticket { run: run(n), priority, share, engine, skill };
                    waiting.push(ticket.clone());
                    queue.push(ticket);
                }
                Step::End(n) if n < running.len() => queue.finished(running.remove(n).run),
                Step::End(_) => {}
                Step::Start => {
                    let count = |same: &dyn Fn(&Ticket) -> bool| running.iter().filter(|other| same(other)).count();
                    let may = |ticket: &Ticket| {
                        running.len() < 4
                            && count(&|other| other.engine == ticket.engine) < 3
                            && count(&|other| other.skill == ticket.skill) < 2
                    };
                    let able: Vec<Ticket> = waiting.iter().filter(|ticket| may(ticket)).cloned().collect();
                    let next = queue.next();
                    prop_assert_eq!(next.is_some(), !able.is_empty(), "a slot stays free while a run could have it");
                    let Some(next) = next else { continue };
                    prop_assert!(able.contains(&next), "a limit is exceeded, or the run did not wait");
                    let highest = able.iter().map(|ticket| ticket.priority).max().unwrap();
                    let patient = passed.get(&next.priority).is_some_and(|times| *times >= PATIENCE);
                    prop_assert!(next.priority == highest || patient, "a lower priority went first");
                    // Among its equals it has the fewest running, and is the first of its share that could start.
                    let of_share = |share: &str| count(&|other| other.share == share);
                    let equals = able.iter().filter(|ticket| ticket.priority == next.priority);
                    let fewest = equals.clone().map(|ticket| of_share(&ticket.share)).min();
                    prop_assert_eq!(Some(of_share(&next.share)), fewest, "another share had fewer");
                    let first = equals.clone().find(|ticket| ticket.share == next.share);
                    prop_assert_eq!(first, Some(&next), "another of its share came earlier");
                    let lower: std::collections::BTreeSet<i8> =
                        able.iter().map(|ticket| ticket.priority).filter(|priority| *priority < next.priority).collect();
                    lower.into_iter().for_each(|priority| *passed.entry(priority).or_default() += 1);
                    passed.remove(&next.priority);
                    // No starvation: a priority is passed over at most until all lower ones that were, too, have had theirs.
                    prop_assert!(passed.values().all(|times| *times < PATIENCE + 5));
                    waiting.retain(|ticket| ticket.run != next.run);
                    // A priority without runs has nothing to wait for.
                    passed.retain(|priority, _| waiting.iter().any(|ticket| ticket.priority == *priority));
                    running.push(next);
                }
            }
            prop_assert_eq!((queue.waiting(), queue.running()), (waiting.len(), running.len()));
        }
    }
}
