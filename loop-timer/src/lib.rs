//! A timer heap that gets cancelling right, for an event loop or anything else that waits.
//!
//! Most timers never fire: a timeout is set, the answer comes, the timeout is cancelled. A plain
//! heap finds a timer to cancel only by searching, so [`TimerHeap`] is lazy, as asyncio's is:
//! [`cancel`](TimerHeap::cancel) takes the value out of a table at once and leaves a dead entry
//! behind. A dead entry goes when its turn comes, or when more than half of the entries are dead
//! and all of them are swept out together: O(1) a cancel, and memory stays bounded.
//!
//! ```
//! use loop_timer::TimerHeap;
//!
//! let mut heap: TimerHeap<&str> = TimerHeap::new(); // deadlines are u64 ticks unless you say otherwise
//! let timeout = heap.insert(300, "give up");
//! heap.insert(100, "knock");
//! heap.insert(100, "knock again");
//!
//! assert_eq!(heap.next_deadline(), Some(100)); // how long to sleep
//! assert_eq!(heap.pop_due(99), None);
//! assert_eq!(heap.pop_due(100).map(|due| due.2), Some("knock")); // equal deadlines: in order
//! assert_eq!(heap.cancel(timeout), Some("give up")); // the value is back now
//! assert_eq!(heap.cancel(timeout), None); // a stale key is never another timer
//! ```
//!
//! # How it is laid out
//!
//! A timer lies in a table of slots, and its deadline in a *ladder*: a radix heap with 64 buckets a
//! rung. A deadline goes into the bucket of the highest digit in which it differs from what is near,
//! in a few instructions whether it is near or far. When the time of a bucket comes, it is sorted if
//! it is small, or spread over the rungs below. So most timers are never compared with another one,
//! and what was cancelled in time is never sorted. A timer that is put off stays where it is, and
//! moves on when the bucket's time comes: [`reschedule`](TimerHeap::reschedule) to a later deadline
//! takes a few instructions, and no memory.
//!
//! This asks a little more of a deadline than an order: see [`Deadline`]. The ladder's bad day is a
//! far deadline that is looked at, because nothing comes before it, followed by many insertions
//! before it: they go to a plain binary heap, until they are more than half of all and the ladder is
//! set up anew. The benchmark calls this load `overtake`.
//!
//! # Map
//!
//! [`TimerHeap`] is the crate. A [`TimerKey`] names a timer, a [`Deadline`] says when it is due,
//! [`PurgePolicy`] says when dead entries are swept, [`Statistics`] tells how it goes. `no_std` with
//! `alloc`, no dependency; the feature `std`, on by default, adds deadlines that are
//! `std::time::Instant`.

#![no_std]
#![forbid(unsafe_code)]
#![deny(missing_docs)]

extern crate alloc;
#[cfg(feature = "std")]
extern crate std;

mod bucket;
mod counter;
mod deadline;
mod entry;
mod heap;
mod key;
mod ladder;
mod purge;
mod slots;
mod stats;
mod tag;

pub use deadline::Deadline;
pub use heap::TimerHeap;
pub use key::TimerKey;
pub use purge::PurgePolicy;
pub use stats::Statistics;

#[cfg(all(doctest, feature = "std"))]
#[doc = include_str!("../README.md")]
struct Readme;
