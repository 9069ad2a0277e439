//! `TimerKey`: the name of a timer, safe to keep after the timer is gone.

use crate::counter::Counter;

/// Names one timer of one [`TimerHeap`](crate::TimerHeap).
///
/// A key stays valid over [`reschedule`](crate::TimerHeap::reschedule) and is stale once the timer
/// was popped, cancelled or drained. A stale key names nothing: its slot may serve another timer
/// by then, but under another generation, and no pair of slot and generation is used twice. A slot
/// that has used up its 2^32 generations is retired: it is lost, and the memory of one timer with
/// it.
///
/// # Keys of other heaps
///
/// The generations of each heap of a process begin elsewhere, as far from those of the others as
/// can be. That a key of one heap names nothing in another is *certain* while, with `h` heaps made
/// so far, no slot of either heap was used more than 2^32 / (3 `h`) times: a million times a slot
/// for a thousand heaps. Beyond that it is *improbable*: the slot in the other heap must be at one
/// generation of 2^32. After 2^32 heaps the beginnings repeat. On targets without 32-bit atomic
/// instructions all heaps begin alike, and a key means something in its own heap only.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct TimerKey {
    pub(crate) slot: u32,
    pub(crate) generation: Counter,
}

impl TimerKey {
    /// The key as an integer, for callers that carry ids of their own kind.
    pub const fn to_bits(self) -> u64 {
        (self.generation as u64) << 32 | self.slot as u64
    }

    /// The key that [`to_bits`](TimerKey::to_bits) turned into `bits`. Every integer makes a key;
    /// one that never came from this heap names nothing, or whichever timer has that key.
    pub const fn from_bits(bits: u64) -> TimerKey {
        TimerKey { slot: bits as u32, generation: (bits >> 32) as Counter }
    }
}
