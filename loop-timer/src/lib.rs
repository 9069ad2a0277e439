//! A timer heap that gets cancelling right, for an event loop or anything else that waits.
//!
//! Most timers never fire: a timeout is set, the answer comes, the timeout is cancelled. A plain
//! heap finds a timer to cancel only by searching, so [`TimerHeap`] is lazy, as asyncio's is:
//! [`cancel`](TimerHeap::cancel) takes the value out of a table at once and leaves a dead entry in
//! the heap. A dead entry goes when it comes to the head, or when more than half of the entries are
//! dead and all of them are swept out together: O(1) a cancel, and memory stays bounded.
//!
//! ```
//! use loop_timer::TimerHeap;
//!
//! let mut heap = TimerHeap::new(); // deadlines are u64 ticks unless you say otherwise
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
//! # Map
//!
//! [`TimerHeap`] is the crate. A [`TimerKey`] names a timer, [`PurgePolicy`] says when dead entries
//! are swept, [`Statistics`] tells how it goes. `no_std` with `alloc`, no dependency, no `unsafe`.

#![no_std]
#![forbid(unsafe_code)]
#![deny(missing_docs)]

extern crate alloc;

mod entry;
mod heap;
mod key;
mod purge;
mod slots;
mod stats;

pub use heap::TimerHeap;
pub use key::TimerKey;
pub use purge::PurgePolicy;
pub use stats::Statistics;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
