//! Chance that can be had again: everything a world leaves open is drawn from one seed.

use std::sync::{Arc, Mutex};
use std::time::Duration;

/// One stream of numbers, shared by all who draw; a world has a single thread, so the order of drawing is fixed.
#[derive(Clone)]
pub struct Dice(Arc<Mutex<u64>>);

impl Dice {
    pub fn new(seed: u64) -> Dice {
        Dice(Arc::new(Mutex::new(seed)))
    }

    /// The next number (splitmix64: every seed is as good as any other).
    pub fn next(&self) -> u64 {
        let mut state = self.0.lock().unwrap();
        *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = *state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Less than this.
    pub fn below(&self, bound: u64) -> u64 {
        self.next() % bound
    }

    /// Once in so many times.
    pub fn once_in(&self, times: u64) -> bool {
        self.below(times) == 0
    }

    /// One of these.
    pub fn pick<T: Clone>(&self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u64) as usize].clone()
    }

    /// One of these, each as likely as its weight.
    pub fn weighted<T: Clone>(&self, choices: &[(u64, T)]) -> T {
        let mut left = self.below(choices.iter().map(|(weight, _)| weight).sum());
        for (weight, choice) in choices {
            match left.checked_sub(*weight) {
                Some(rest) => left = rest,
                None => return choice.clone(),
            }
        }
        unreachable!("the weights were summed")
    }

    /// A pause: mostly none or short, now and then long.
    pub fn pause(&self) -> Duration {
        let longest = self.weighted(&[(6, 1), (4, 20), (3, 800), (1, 8_000), (1, 40_000)]);
        Duration::from_millis(self.below(longest))
    }
}
