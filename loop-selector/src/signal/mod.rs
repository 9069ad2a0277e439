//! Signals, turned into counters and a wake.
//!
//! One handler serves the whole process. It adds one to the counter of its signal and wakes every
//! [`SignalWatcher`] of it; whoever waits then asks [`pending`](SignalWatcher::pending). The wake
//! carries no data, so a full pipe loses nothing, and any number of loops may watch one signal.
//! When the last watcher of a signal goes, the disposition from before the first one comes back.

mod handler;
mod mask;
mod number;
mod sys;
mod watcher;

pub use mask::with_clear_mask;
pub use number::Signal;
pub use sys::raise;
pub use watcher::SignalWatcher;
