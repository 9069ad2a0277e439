//! `TimerHandle`: a handle with a deadline and an owner that wants to know of a cancel.

use std::fmt;
use std::panic::Location;
use std::rc::Weak;
use std::time::Instant;

use crate::handle::Handle;

/// Whoever holds the queue of timers: asyncio's `_timer_handle_cancelled`, as an interface.
pub trait TimerOwner {
    /// A timer was cancelled. `id` is what the owner gave to [`TimerHandle::new`]; the timer may
    /// have left the queue already.
    ///
    /// Called once a timer at most, and before the closure is dropped: a destructor that looks at
    /// the owner finds the timer gone.
    fn timer_cancelled(&self, id: u64);

    /// A timer is to have another deadline: [`TimerHandle::reschedule`]. `false` if it has left the queue, and
    /// from an owner that does not know how.
    fn timer_rescheduled(&self, id: u64, when: Instant) -> bool {
        let _ = (id, when);
        false
    }
}

/// The handle of a callback that is scheduled for an instant: asyncio's `TimerHandle`.
///
/// A clone is the same timer. The owner is held weakly, so a handle keeps no loop alive. The
/// [`Handle`] inside is not shown: cancelling it would bypass the owner. There is no order among
/// timer handles; that belongs to the owner's queue.
#[derive(Clone)]
pub struct TimerHandle {
    handle: Handle,
    when: Instant,
    owner: Weak<dyn TimerOwner>,
    id: u64,
}

impl TimerHandle {
    /// Makes the handle of a timer that `owner` knows as `id`. The owner keeps a clone of
    /// `handle`, to run it.
    pub fn new(handle: Handle, when: Instant, owner: Weak<dyn TimerOwner>, id: u64) -> TimerHandle {
        TimerHandle { handle, when, owner, id }
    }

    /// The deadline given at creation, or by [`reschedule`](TimerHandle::reschedule) since; neither a cancel nor a
    /// run changes it.
    pub fn when(&self) -> Instant {
        self.when
    }

    /// Gives the timer another deadline, earlier or later: an idle timeout is put off so, instead of being
    /// cancelled and made anew. Among equal deadlines the timer is the last one now. `false`, and nothing changes,
    /// if it is cancelled, has run, or has come due and is about to.
    ///
    /// Clones are the same timer, and go on to tell the deadline that they were made with.
    pub fn reschedule(&mut self, when: Instant) -> bool {
        let owner = self.owner.upgrade().filter(|_| !self.is_cancelled());
        let moved = owner.map_or(false, |owner| owner.timer_rescheduled(self.id, when));
        if moved {
            self.when = when;
        }
        moved
    }

    /// Cancels the timer: marks it, tells the owner if it is still alive, and drops the closure as
    /// [`Handle::cancel`] does. Only the first cancel over all clones does anything.
    pub fn cancel(&self) {
        if self.handle.mark_cancelled() {
            if let Some(owner) = self.owner.upgrade() {
                owner.timer_cancelled(self.id);
            }
            self.handle.release();
        }
    }

    /// True from the first [`cancel`](TimerHandle::cancel) on, for ever.
    pub fn is_cancelled(&self) -> bool {
        self.handle.is_cancelled()
    }

    /// True if the timer's run has ended, or it is cancelled and not running.
    pub fn is_done(&self) -> bool {
        self.handle.is_done()
    }

    /// The type name of the closure.
    pub fn name(&self) -> &'static str {
        self.handle.name()
    }

    /// Where the timer was scheduled.
    pub fn site(&self) -> &'static Location<'static> {
        self.handle.site()
    }
}

impl fmt::Debug for TimerHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TimerHandle(when {:?}, {:?})", self.when, self.handle)
    }
}
