//! How faults come to their end: the last of them, and what is well again after it.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::stage::{Event, Stage};

/// What goes wrong last.
#[derive(Debug, Clone, Copy)]
enum Last {
    Dies,
    IsPaused,
    IsCutOff,
}

impl Stage {
    /// The last fault, aimed at a node where an engine works. It is not over when the others have to settle what that node worked on.
    pub fn last_fault(&mut self) {
        let world = self.common.world.clone();
        // The first goes on.
        let busy: Vec<usize> = self.busy_nodes().into_iter().filter(|at| *at > 0).collect();
        if busy.is_empty() || self.nodes[0].life.as_ref().is_some_and(|life| life.ending) {
            return;
        }
        let (at, last) = (world.dice.pick(&busy), world.dice.pick(&[Last::Dies, Last::IsPaused, Last::IsCutOff]));
        world.note(format!("FAULT Last {last:?} n{}, where an engine works", at + 1));
        match last {
            Last::Dies => {
                self.crash(at, world.dice.once_in(3));
                self.nodes[at].gone = true;
            }
            Last::IsPaused => self.nodes[at].paused = true,
            Last::IsCutOff => self.nodes[at].link.cut(true),
        }
        self.left_out = Some(at);
        world.is_in_trouble(Some(at + 1));
    }

    /// The node that the last fault met is back, unless it is gone for good.
    pub fn let_in(&mut self) {
        if let Some(at) = self.left_out.take() {
            self.nodes[at].link.heal();
            self.resume(at);
            // It needs a moment to have a lease again.
            self.pass(Duration::from_secs(2));
            self.common.world.is_in_trouble(None);
        }
    }

    /// Nothing goes wrong from now on: whatever is away comes back, but for nodes that are gone for good and the one of the last fault.
    pub fn calm_down(&mut self) {
        let world = self.common.world.clone();
        world.calm_down();
        for at in 0..self.nodes.len() {
            self.nodes[at].clock.ahead.store(0, Ordering::Relaxed);
            if self.left_out != Some(at) {
                self.nodes[at].link.heal();
                self.resume(at);
            }
        }
        let agenda = std::mem::take(&mut self.agenda);
        let stays = |event: &Event| matches!(event, Event::EngineEnds(_) | Event::Lands(_));
        let soon = self.now + Duration::from_secs(3);
        self.agenda = (agenda.into_iter())
            .filter(|(_, event)| stays(event))
            .map(|(moment, event)| (moment.min(soon), event))
            .collect();
        for at in 0..self.nodes.len() {
            if self.nodes[at].life.is_some() {
                continue;
            }
            if self.nodes[at].gone || at > 0 && world.dice.once_in(3) {
                world.note(format!("n{} is gone for good", at + 1));
            } else {
                self.start(at);
            }
        }
    }
}
