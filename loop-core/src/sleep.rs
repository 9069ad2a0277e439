//! Futures that wait for time to pass.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use loop_timer::TimerKey;

use crate::current;
use crate::inbox::Message;
use crate::inner::{Inner, TimerItem, nanoseconds};
use crate::loops;
use crate::task::own_task;

/// Waits until `delay` has passed on the loop's clock, counted from the first poll. Zero gives way for
/// exactly one iteration (B-SLEEP-01, B-SLEEP-02).
///
/// On the machine's clock the moment of the first poll is read at the end of the task's step, or when the step
/// asks for the loop's time or sets another timer: so a sleep that is dropped in its first step costs no look at
/// the clock, and one in a step that goes on for long after it ends later by that much at most. It never ends
/// early. With a [clock](crate::Builder::clock) of yours, the clock is read in the first poll.
///
/// ```
/// # use std::time::Duration;
/// loop_core::run(loop_core::sleep(Duration::from_millis(1))).unwrap();
/// ```
pub fn sleep(delay: Duration) -> Sleep {
    Sleep { state: State::Idle(Until::Passed(nanoseconds(delay))) }
}

/// Waits until the loop's clock reads `deadline`.
pub fn sleep_until(deadline: Instant) -> Sleep {
    Sleep { state: State::Idle(Until::Reads(deadline)) }
}

/// Gives way to everything else that is ready, for one iteration.
pub fn yield_now() -> YieldNow {
    YieldNow { yielded: false }
}

/// The future of [`yield_now`]. Dropping it loses nothing.
#[derive(Debug)]
#[must_use = "futures do nothing unless they are awaited"]
pub struct YieldNow {
    yielded: bool,
}

impl Future for YieldNow {
    type Output = ();

    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.yielded {
            return Poll::Ready(());
        }
        self.yielded = true;
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

/// The future of [`sleep`] and [`sleep_until`].
///
/// It is `Send` and `Sync`: it holds keys, not pointers, so it may be kept and dropped anywhere. It is
/// polled on the thread of its loop.
///
#[doc = lost!(sleep)]
#[must_use = "futures do nothing unless they are awaited"]
pub struct Sleep {
    state: State,
}

enum Until {
    /// Nanoseconds.
    Passed(u64),
    Reads(Instant),
}

enum State {
    Idle(Until),
    Yielded,
    Armed { key: TimerKey, loop_id: u64 },
    Done,
}

impl Sleep {
    /// As `poll`, but a deadline that has passed before the first poll is over at once, without giving
    /// way: what a time limit wants (B-TMO-03).
    pub(crate) fn poll_limit(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let over = match &self.state {
            State::Idle(Until::Passed(delay)) => *delay == 0,
            State::Idle(Until::Reads(deadline)) => {
                current::running().is_some_and(|inner| *deadline <= inner.now())
            }
            _ => false,
        };
        if over {
            self.state = State::Done;
        }
        self.poll(cx)
    }
}

/// A timer that wakes whoever polls. Cloning a waker is user code.
pub(crate) fn waking_timer(inner: &Inner, cx: &Context<'_>) -> TimerItem {
    match own_task(inner.id, cx.waker()) {
        Some(task) => TimerItem::Step(task),
        None => TimerItem::Wake(cx.waker().clone()),
    }
}

impl Future for Sleep {
    type Output = ();

    /// # Panics
    /// If polled outside a running loop, and once it has begun also on another thread than its loop's or after
    /// that is closed.
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        match &self.state {
            State::Idle(Until::Passed(0)) => {
                self.state = State::Yielded;
                cx.waker().wake_by_ref();
                Poll::Pending
            }
            State::Idle(until) => {
                self.state = arm_fresh(until, cx).unwrap_or_else(|| arm(until, cx));
                Poll::Pending
            }
            State::Armed { key, loop_id } => {
                let inner = current::find(*loop_id).expect(
                    "a sleep was polled after its loop was closed, or on another thread than that",
                );
                if !update_waker(&inner, *key, cx) {
                    self.state = State::Done;
                    return Poll::Ready(());
                }
                Poll::Pending
            }
            State::Yielded | State::Done => {
                self.state = State::Done;
                Poll::Ready(())
            }
        }
    }
}

/// The quick way: a sleep of the task whose step this is.
#[inline]
fn arm_fresh(until: &Until, cx: &Context<'_>) -> Option<State> {
    let Until::Passed(delay) = until else { return None };
    current::with_current(|inner| {
        let task = own_task(inner.id, cx.waker())?;
        let key = inner.insert_fresh(*delay, task)?;
        Some(State::Armed { key, loop_id: inner.id })
    })
}

#[inline(never)]
fn arm(until: &Until, cx: &Context<'_>) -> State {
    let inner = current::running().expect("a sleep was polled outside an event loop");
    let ticks = match *until {
        Until::Passed(delay) => inner.ticks_in(delay),
        Until::Reads(deadline) => inner.ticks(deadline),
    };
    let item = waking_timer(&inner, cx);
    State::Armed { key: inner.insert_timer_at(ticks, item), loop_id: inner.id }
}

/// Sees to it that the timer wakes this task. `false` if it has fired.
fn update_waker(inner: &Inner, key: TimerKey, cx: &mut Context<'_>) -> bool {
    match inner.timers.borrow().get(key) {
        Some(TimerItem::Wake(kept)) if kept.will_wake(cx.waker()) => return true,
        Some(TimerItem::Step(task)) if Some(*task) == own_task(inner.id, cx.waker()) => {
            return true;
        }
        Some(_) => {}
        None => return false,
    }
    let new = waking_timer(inner, cx);
    let old = match inner.timers.borrow_mut().get_mut(key) {
        Some(item) => Some(std::mem::replace(item, new)),
        None => None,
    };
    old.is_some()
}

impl Drop for Sleep {
    fn drop(&mut self) {
        let State::Armed { key, loop_id } = self.state else { return };
        match current::with_running(loop_id, |inner| take_waker(inner, key)) {
            Some(waker) => drop(waker),
            None => forget(key, loop_id),
        }
    }
}

/// Takes a sleep's timer out.
#[inline]
fn take_waker(inner: &Inner, key: TimerKey) -> Option<Waker> {
    {
        let mut timers = inner.timers.borrow_mut();
        if let Some(TimerItem::Step(_)) = timers.get(key) {
            // There is nothing in it to drop, so it need not be moved about.
            if !inner.keep_fresh(key) {
                std::mem::forget(timers.cancel(key));
            }
            return None;
        }
    }
    match inner.take_timer(key) {
        Some(TimerItem::Wake(waker)) => Some(waker),
        _ => None,
    }
}

/// Drops a timer of a loop that does not run on this thread.
#[cold]
fn forget(key: TimerKey, loop_id: u64) {
    if let Some(inner) = current::find(loop_id) {
        let item = inner.take_timer(key);
        drop(item);
    } else if let Some(inbox) = loops::inbox(loop_id) {
        // A closed loop has no timers left.
        drop(inbox.send(Message::CancelTimer(key)));
    }
}

impl fmt::Debug for Sleep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match &self.state {
            State::Idle(_) => "idle",
            State::Yielded | State::Armed { .. } => "waiting",
            State::Done => "done",
        };
        f.debug_struct("Sleep").field("state", &state).finish()
    }
}
