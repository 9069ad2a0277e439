//! What keeps virtual time from jumping.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use loop_selector::Waker;

use crate::loop_ref::LoopRef;

/// How many reasons there are not to jump. A clone is the same count.
#[derive(Debug, Clone, Default)]
pub(crate) struct Holds(Arc<State>);

#[derive(Debug, Default)]
struct State {
    count: AtomicUsize,
    /// Of a loop that would jump: it waits while time is held, and has to hear of the end of that.
    waker: Option<Waker>,
}

impl Holds {
    /// The count of a loop that jumps.
    pub(super) fn with_waker(waker: Waker) -> Self {
        Holds(Arc::new(State { count: AtomicUsize::new(0), waker: Some(waker) }))
    }

    /// Once more. It comes from somebody who holds time or from the loop's own thread, so there is
    /// nothing to order.
    pub(crate) fn add(&self) {
        self.0.count.fetch_add(1, Ordering::Relaxed);
    }

    /// Once less. What was done before it, a wake above all, is seen by whoever sees this.
    pub(crate) fn release(&self) {
        let before = self.0.count.fetch_sub(1, Ordering::Release);
        if let (1, Some(waker)) = (before, &self.0.waker) {
            waker.wake();
        }
    }

    pub(crate) fn any(&self) -> bool {
        self.0.count.load(Ordering::Acquire) > 0
    }
}

/// While it lives, virtual time does not jump: something is under way that the loop cannot see, a child
/// process or a thread of your own that will wake a task. Let go of it after that wake. From
/// [`LoopRef::hold_time`]; without [virtual time](crate::AutoJump) it does nothing.
#[must_use = "time is held until this is dropped"]
pub struct TimeHold {
    holds: Holds,
}

impl LoopRef {
    /// Keeps virtual time from jumping until what comes back is dropped, here or on another thread. The
    /// loop does this by itself for its blocking work, for watched signals and for every
    /// [`Remote`](crate::Remote).
    ///
    /// ```
    /// use loop_core::{EventLoop, LoopFuture};
    ///
    /// let mut event_loop = EventLoop::builder().simulated()?.build()?;
    /// let answer: LoopFuture<u32> = event_loop.create_future();
    /// let hold = event_loop.hold_time();
    /// let setter = answer.clone();
    /// event_loop.call_soon(move || {
    ///     setter.set_result(42).unwrap();
    ///     drop(hold);
    /// });
    /// assert_eq!(event_loop.run_until_complete(answer)?.unwrap(), 42);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn hold_time(&self) -> TimeHold {
        TimeHold::new(&self.inner.inbox.holds)
    }
}

impl TimeHold {
    pub(crate) fn new(holds: &Holds) -> Self {
        holds.add();
        TimeHold { holds: holds.clone() }
    }
}

impl Clone for TimeHold {
    fn clone(&self) -> Self {
        TimeHold::new(&self.holds)
    }
}

impl Drop for TimeHold {
    fn drop(&mut self) {
        self.holds.release();
    }
}

impl fmt::Debug for TimeHold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TimeHold")
    }
}
