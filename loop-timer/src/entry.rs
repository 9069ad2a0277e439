//! `Entry`: a deadline waiting for its turn.

use core::cmp::Ordering;

use crate::counter::NonZeroCounter;

/// A deadline in the ladder. It is live while its slot holds a timer with the same `seq`.
#[derive(Clone, Copy)]
pub(crate) struct Entry<W> {
    pub(crate) when: W,
    pub(crate) seq: NonZeroCounter,
    pub(crate) slot: u32,
}

// `BinaryHeap` has its greatest entry on top, so the earliest deadline is the greatest entry.
impl<W: Ord> Ord for Entry<W> {
    fn cmp(&self, other: &Self) -> Ordering {
        other.when.cmp(&self.when).then(other.seq.cmp(&self.seq))
    }
}

impl<W: Ord> PartialOrd for Entry<W> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<W: Ord> PartialEq for Entry<W> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl<W: Ord> Eq for Entry<W> {}
