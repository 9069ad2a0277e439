//! `Event`: something that has happened, or not yet.

use std::cell::Cell;
use std::fmt;
use std::future::{Future, poll_fn};
use std::panic::Location;
use std::task::Poll;

use super::wait_list::{Turn, WaitList};

/// A flag that tasks can wait for; asyncio's `Event`.
///
/// ```
/// # use loop_core::{run, spawn, sync::Event};
/// # use std::rc::Rc;
/// # run(async {
/// let started = Rc::new(Event::new());
/// let waiter = started.clone();
/// let task = spawn(async move { waiter.wait().await });
/// started.set();
/// task.await.unwrap();
/// # }).unwrap();
/// ```
pub struct Event {
    set: Cell<bool>,
    waiters: WaitList,
}

impl Event {
    /// An event that is not set.
    #[track_caller]
    pub fn new() -> Self {
        Event { set: Cell::new(false), waiters: WaitList::new("event", Location::caller()) }
    }

    /// Sets the flag and wakes everybody who waits now, also if it is cleared before they run
    /// (B-EVT-01, B-EVT-02).
    pub fn set(&self) {
        self.set.set(true);
        self.waiters.grant_all();
    }

    /// Clears the flag: who comes from now on waits.
    pub fn clear(&self) {
        self.set.set(false);
    }

    /// Whether the flag is set.
    pub fn is_set(&self) -> bool {
        self.set.get()
    }

    /// Waits until the flag is set; returns at once if it is.
    ///
    #[doc = lost!(event_wait)]
    #[inline]
    pub fn wait(&self) -> impl Future<Output = ()> + '_ {
        let mut turn = Turn::new(&self.waiters, || ());
        poll_fn(move |cx| {
            if turn.has_place() || !self.set.get() { turn.poll_now(cx) } else { Poll::Ready(()) }
        })
    }
}

impl Default for Event {
    #[track_caller]
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Event")
            .field("set", &self.is_set())
            .field("waiting", &self.waiters.waiting())
            .finish()
    }
}
