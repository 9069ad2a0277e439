//! What tasks of one loop wait for each other with.
//!
//! All of it is for one thread and holds no borrow while anything of a user's runs. Every hand-over is
//! undone if the one it went to is cancelled or dropped before it could use it: a lock, a permit, an item or
//! a notification never ends with somebody who is gone. One list of waiters does that for all of them.
//!
//! Other threads reach what lives here by [`Remote`](crate::Remote). They may also send values through any channel
//! whose receiver is a future: a task awaits that like anything else.
//!
//! | for | see |
//! |---|---|
//! | something that happens once in a while | [`Event`] |
//! | one at a time | [`Lock`] |
//! | a change under a lock | [`Condition`] |
//! | so many at a time | [`Semaphore`] |
//! | all together | [`Barrier`] |
//! | items from some tasks to others | [`Queue`], [`LifoQueue`], [`PriorityQueue`] |

mod barrier;
mod condition;
mod event;
mod lock;
mod queue;
mod queue_error;
mod queue_store;
mod semaphore;
mod wait_list;

pub use barrier::{Barrier, BrokenBarrier};
pub use condition::Condition;
pub use event::Event;
pub use lock::{Lock, LockGuard};
pub use queue::{LifoQueue, PriorityQueue, Queue, QueueOf, Shutdown};
pub use queue_error::{PutError, QueueShutDown, TryGetError, TryPutError};
pub use queue_store::{Fifo, Lifo, QueueStore, Smallest};
pub use semaphore::{OwnedPermit, Permit, Semaphore, TooManyReleases};
