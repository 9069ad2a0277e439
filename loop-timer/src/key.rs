//! `TimerKey`: the name of a timer, safe to keep after the timer is gone.

/// Names one timer of one [`TimerHeap`](crate::TimerHeap).
///
/// A key stays valid over [`reschedule`](crate::TimerHeap::reschedule) and is stale once the timer
/// was popped, cancelled or drained. A stale key names nothing: its slot may serve another timer
/// by then, but under another generation, and no pair of slot and generation is used twice.
///
/// Keys of different heaps may be equal. Like an index, a key has a meaning in its own heap only.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct TimerKey {
    pub(crate) slot: u32,
    pub(crate) generation: u32,
}

impl TimerKey {
    /// The key as an integer, for callers that carry ids of their own kind.
    pub const fn to_bits(self) -> u64 {
        (self.generation as u64) << 32 | self.slot as u64
    }

    /// The key that [`to_bits`](TimerKey::to_bits) turned into `bits`. Every integer makes a key;
    /// one that never came from this heap names nothing, or whichever timer has that key.
    pub const fn from_bits(bits: u64) -> TimerKey {
        TimerKey { slot: bits as u32, generation: (bits >> 32) as u32 }
    }
}
