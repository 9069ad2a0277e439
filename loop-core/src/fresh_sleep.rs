//! A sleep that has begun in the step of a task that goes on: when it began is read from the clock only at the
//! end of that step, or when somebody asks for the time before.
//!
//! Most sleeps are limits of something else, and many are dropped in the step in which they began. These read no
//! clock then, which costs more than all the rest of them. A sleep never ends early for it, and late by the rest
//! of the step at most. Sleeps and timers that begin later in the step, and whatever the loop's time is read for,
//! come after it.

use std::cell::Cell;
use std::time::Instant;

use loop_timer::TimerKey;

use crate::clock::{Clock, MonotonicClock};
use crate::inner::{FRESH, Inner, TIMERS, TimerItem};
use crate::task::TaskKey;

/// There is one at most: another that begins, or any timer, settles it.
pub(crate) struct FreshSleep {
    /// Its timer, and for how many nanoseconds. Stale unless [`FRESH`] is set.
    sleep: Cell<(TimerKey, u64)>,
    /// Whether there may be one. With a clock of the user's there is none: it may be moved within a step.
    allowed: bool,
}

impl FreshSleep {
    pub(crate) fn new(allowed: bool) -> Self {
        FreshSleep { sleep: Cell::new((TimerKey::from_bits(0), 0)), allowed }
    }
}

impl Inner {
    /// The loop's time.
    #[inline]
    pub(crate) fn now(&self) -> Instant {
        let now = self.clock.now();
        if self.is_marked(FRESH) {
            self.settle_at(now);
        }
        now
    }

    /// A timer for the next step of a task, so many nanoseconds from now or from later in this step. `None` if
    /// the clock has to be looked at.
    #[inline]
    pub(crate) fn insert_fresh(&self, delay: u64, task: TaskKey) -> Option<TimerKey> {
        if !self.fresh_sleep.allowed {
            return None;
        }
        self.settle();
        let key = self.timers.borrow_mut().insert_with_key(u64::MAX, |_| TimerItem::Step(task));
        self.fresh_sleep.sleep.set((key, delay));
        self.mark(TIMERS | FRESH);
        Some(key)
    }

    /// The sleep with this timer is dropped: it needs no beginning.
    #[inline]
    pub(crate) fn forget_fresh(&self, timer: TimerKey) {
        if self.is_marked(FRESH) && self.fresh_sleep.sleep.get().0 == timer {
            self.unmark(FRESH);
        }
    }

    /// Comes at the end of a step, and before another timer is added.
    #[inline]
    pub(crate) fn settle(&self) {
        if self.is_marked(FRESH) {
            self.settle_now();
        }
    }

    #[inline(never)]
    fn settle_now(&self) {
        // The loop's clock, which is no other where there is a fresh sleep.
        self.settle_at(MonotonicClock.now());
    }

    fn settle_at(&self, now: Instant) {
        self.unmark(FRESH);
        let (key, delay) = self.fresh_sleep.sleep.get();
        let when = self.ticks(now).saturating_add(delay);
        self.timers.borrow_mut().reschedule(key, when);
    }
}
