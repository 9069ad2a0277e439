//! Numbers from a seed, so that a failure that names it can be repeated.

use std::cell::Cell;

pub struct Random(Cell<u64>);

impl Random {
    /// `seed` is not zero.
    pub fn new(seed: u64) -> Self {
        Random(Cell::new(seed))
    }

    /// A number below `limit`, by xorshift.
    pub fn below(&self, limit: usize) -> usize {
        let mut seed = self.0.get();
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        self.0.set(seed);
        (seed % limit as u64) as usize
    }

    /// Bytes that are like no others of about this time.
    pub fn piece(&self, most: usize) -> Vec<u8> {
        let first = self.below(256);
        (0..self.below(most + 1)).map(|at| (first + at * 7) as u8).collect()
    }
}
