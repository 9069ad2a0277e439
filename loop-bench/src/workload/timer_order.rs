//! The order in which timers ought to leave, to check what a store did.

use crate::rival::timer_store::TimerStore;
use crate::sample::Wrong;

/// Timers as they should be: what is known of each without asking the store.
pub(super) struct Expected {
    pub(super) whens: Vec<u64>,
    /// Each timer's place in the order of insertion.
    pub(super) places: Vec<u64>,
    inserted: u64,
    last: (u64, u64),
}

impl Expected {
    pub(super) fn new(whens: &[u64]) -> Self {
        let inserted = whens.len() as u64;
        Self { whens: whens.to_vec(), places: (0..inserted).collect(), inserted, last: (0, 0) }
    }

    pub(super) fn insert(&mut self, id: u32, when: u64) {
        self.whens[id as usize] = when;
        self.places[id as usize] = self.inserted;
        self.inserted += 1;
    }

    /// A timer left. By deadline, and where the store promises it, equal deadlines by their place.
    pub(super) fn left<S: TimerStore>(&mut self, id: u32) -> Result<(), Wrong> {
        let this = (self.whens[id as usize], self.places[id as usize]);
        let right = if S::FIFO { self.last <= this } else { self.last.0 <= this.0 };
        if !right {
            let before = self.last;
            return Err(Wrong(format!("(deadline, place): {before:?} left before {this:?}")));
        }
        self.last = this;
        Ok(())
    }

    /// All of `due` left, each once, and they are exactly those that `lives` names.
    pub(super) fn all_left<S: TimerStore>(
        &mut self,
        due: &[u32],
        lives: impl Fn(u32) -> bool,
    ) -> Result<(), Wrong> {
        due.iter().try_for_each(|&id| self.left::<S>(id))?;
        let mut times = vec![0_u32; self.whens.len()];
        due.iter().for_each(|&id| times[id as usize] += 1);
        for (id, &times) in (0..).zip(&times) {
            if times != u32::from(lives(id)) {
                return Err(Wrong(format!("timer {id} expired {times} times")));
            }
        }
        Ok(())
    }
}
