//! Waiting for several things at once: `gather`, `wait`, `as_completed`, `staggered_race`.

mod as_completed;
mod children;
mod gather;
mod staggered;
mod wait;

pub use as_completed::{AsCompleted, AsCompletedWithin, as_completed};
pub use gather::{Gather, GatherSettled, gather, gather_settled, try_gather};
pub use staggered::{RaceOutcome, staggered_race};
pub use wait::{Wait, WaitUntil, Waited, wait};
