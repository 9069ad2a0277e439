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
use crate::inner::{FRESH, Inner, SPARE, TIMERS, TimerItem};
use crate::task::TaskKey;

/// There is one at most: another that begins, or any timer, settles it. One that is dropped before leaves its
/// timer to the next one of the iteration.
pub(crate) struct FreshSleep {
    /// That of the sleep if [`FRESH`] is set; nobody's if [`SPARE`] is; else stale.
    timer: Cell<TimerKey>,
    /// In nanoseconds.
    delay: Cell<u64>,
    /// What the loop's clock has read, in ticks, lately. Until the sleep is settled its timer lies that early, for
    /// to put a timer off is cheaper than to file it once more.
    known: Cell<u64>,
    /// Whether there may be one. With a clock of the user's there is none: it may be moved within a step.
    allowed: bool,
}

impl FreshSleep {
    pub(crate) fn new(allowed: bool) -> Self {
        FreshSleep {
            timer: Cell::new(TimerKey::from_bits(0)),
            delay: Cell::new(0),
            known: Cell::new(0),
            allowed,
        }
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

    /// The clock has read so many ticks.
    #[inline]
    pub(crate) fn note_time(&self, ticks: u64) {
        self.fresh_sleep.known.set(ticks);
    }

    /// A timer for the next step of a task, so many nanoseconds from now or from later in this step. `None` if
    /// the clock has to be looked at.
    #[inline]
    pub(crate) fn insert_fresh(&self, delay: u64, task: TaskKey) -> Option<TimerKey> {
        let fresh = &self.fresh_sleep;
        if !fresh.allowed {
            return None;
        }
        self.settle();
        let timer = match self.use_spare(task) {
            Some(spare) => spare,
            None => {
                let early = fresh.known.get().saturating_add(delay);
                let item = |_| TimerItem::Step(task);
                self.timers.borrow_mut().insert_with_key(early, item)
            }
        };
        fresh.timer.set(timer);
        fresh.delay.set(delay);
        self.mark(TIMERS | FRESH);
        Some(timer)
    }

    #[inline]
    fn use_spare(&self, task: TaskKey) -> Option<TimerKey> {
        if !self.is_marked(SPARE) {
            return None;
        }
        self.unmark(SPARE);
        let timer = self.fresh_sleep.timer.get();
        match self.timers.borrow_mut().get_mut(timer) {
            Some(TimerItem::Step(whose)) => *whose = task,
            _ => return None,
        }
        Some(timer)
    }

    /// A sleep with this timer, which is to step a task, is dropped: whether its timer is kept for the next.
    #[inline]
    pub(crate) fn keep_fresh(&self, timer: TimerKey) -> bool {
        let keep = self.is_marked(FRESH) && self.fresh_sleep.timer.get() == timer;
        if keep {
            self.unmark(FRESH);
            self.mark(SPARE);
        }
        keep
    }

    /// Comes before anything else runs, at the end of the run, and before another timer is added.
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
        let (fresh, now) = (&self.fresh_sleep, self.ticks(now));
        self.note_time(now);
        let when = now.saturating_add(fresh.delay.get());
        self.timers.borrow_mut().reschedule(fresh.timer.get(), when);
    }

    /// Comes before anybody looks at what timers there are.
    #[inline]
    pub(crate) fn settle_timers(&self) {
        self.settle();
        if self.is_marked(SPARE) {
            self.drop_spare();
        }
    }

    #[inline(never)]
    fn drop_spare(&self) {
        self.unmark(SPARE);
        // There is no waker in it to drop.
        let item = self.take_timer(self.fresh_sleep.timer.get());
        drop(item);
    }
}
