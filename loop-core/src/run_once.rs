//! One iteration, a function a phase.
//!
//! 1. purge: cancelled timers leave the head of the heap (cancelling itself purges the rest);
//! 2. flush: the selector hears of changed interests;
//! 3. timeout: zero, the nearest deadline, or none;
//! 4. select;
//! 5. collect: calls from other threads, signals, I/O, due timers join the ready queue;
//! 6. run exactly what is in the queue at this point. What that schedules waits for the next
//!    iteration.

use std::time::Duration;

use loop_handle::Handle;
use loop_selector::{Event, Events};
use loop_timer::TimerKey;

use crate::error::LoopError;
use crate::guard;
use crate::inbox::Message;
use crate::inner::TimerItem;
use crate::io_table;
use crate::loop_ref::LoopRef;
use crate::ready::Ready;
use crate::report::ExceptionContext;
use crate::signals;
use crate::task::{self, Root};

/// No wait is longer: clocks and kernels have had trouble with more (B-LOOP-06).
const MAX_WAIT: Duration = Duration::from_secs(24 * 60 * 60);

pub(crate) fn run_once(
    lp: &LoopRef,
    events: &mut Events,
    root: &mut Option<Root<'_>>,
    limit: Option<Duration>,
) -> Result<(), LoopError> {
    io_table::flush_changes(lp);
    let timeout = timeout(lp, limit);
    select(lp, events, timeout)?;
    collect_inbox(lp);
    signals::collect(lp);
    collect_io(lp, events);
    collect_timers(lp);
    run_ready(lp, root);
    Ok(())
}

/// Phases 1 and 3 (B-LOOP-05). The clock is read only if a timer lives.
fn timeout(lp: &LoopRef, limit: Option<Duration>) -> Duration {
    let inner = &lp.inner;
    if inner.stopping.get() || !inner.ready.is_empty() {
        return Duration::ZERO;
    }
    let longest = limit.unwrap_or(MAX_WAIT).min(MAX_WAIT);
    if longest.is_zero() {
        return longest;
    }
    let deadline = inner.timers.borrow_mut().next_deadline();
    match deadline {
        Some(ticks) => {
            let now = inner.ticks(inner.clock.now());
            Duration::from_nanos(ticks.saturating_sub(now)).min(longest)
        }
        None => longest,
    }
}

/// Phase 4. With nothing registered and no time to wait there is nothing that the kernel could tell;
/// the inbox and the signal counters are looked at in any case (B-LOOP-07).
fn select(lp: &LoopRef, events: &mut Events, timeout: Duration) -> Result<(), LoopError> {
    events.clear();
    match &mut *lp.inner.selector.borrow_mut() {
        Some(selector) if timeout.is_zero() && selector.registry().is_empty() => Ok(()),
        Some(selector) => selector.select(events, Some(timeout)).map_err(LoopError::Select),
        None => Err(LoopError::Closed),
    }
}

/// Bounded by what is there at the start, so that a flooding thread cannot keep I/O out (B-THR-11).
fn collect_inbox(lp: &LoopRef) {
    let inner = &lp.inner;
    for _ in 0..inner.inbox.len() {
        match inner.inbox.pop() {
            Some(Message::Call(handle)) => inner.ready.push(Ready::Remote(handle)),
            Some(Message::Wake(key)) => task::schedule(inner, key),
            Some(Message::CancelTimer(key)) => {
                let item = inner.take_timer(key);
                guard::discard(lp, item);
            }
            Some(Message::Stop) => inner.stopping.set(true),
            None => break,
        }
    }
}

fn collect_io(lp: &LoopRef, events: &Events) {
    for event in events.iter() {
        if let Event::Ready { token, readiness } = *event {
            io_table::queue_ready(lp, token, readiness);
        }
    }
}

/// A timer is due when its deadline lies less than one step of the clock ahead (B-TMR-03). Bounded by
/// what is there at the start: a foreign waker may schedule more.
fn collect_timers(lp: &LoopRef) {
    let inner = &lp.inner;
    let count = inner.timers.borrow().len();
    if count == 0 {
        return;
    }
    let step = u64::try_from(inner.clock.resolution().as_nanos()).unwrap_or(u64::MAX);
    let due = inner.ticks(inner.clock.now()).saturating_add(step.saturating_sub(1));
    // The end of time never comes: what was clamped there does not fire (D-5).
    let due = due.min(u64::MAX - 1);
    for _ in 0..count {
        let popped: Option<(u64, TimerKey, TimerItem)> = inner.timers.borrow_mut().pop_due(due);
        match popped {
            Some((_, _, TimerItem::Callback(handle))) => inner.ready.push(Ready::Handle(handle)),
            Some((_, _, TimerItem::Wake(waker))) => guard::wake(lp, waker),
            None => break,
        }
    }
}

/// Phase 6 (B-LOOP-02).
fn run_ready(lp: &LoopRef, root: &mut Option<Root<'_>>) {
    for _ in 0..lp.inner.ready.len() {
        let Some(entry) = lp.inner.ready.pop() else { break };
        if lp.inner.debug.get() {
            run_timed(lp, root, entry);
        } else {
            run_entry(lp, root, entry);
        }
    }
}

#[inline]
fn run_entry(lp: &LoopRef, root: &mut Option<Root<'_>>, entry: Ready) {
    match entry {
        Ready::Handle(handle) => guard::run_handle(lp, handle),
        Ready::Io(token, readiness) => io_table::run_ready(lp, token, readiness),
        Ready::Task(key) => task::step(lp, key, root),
        Ready::Remote(handle) => guard::run_remote(lp, handle),
    }
}

/// Debug mode: what takes too long is named (B-DBG-02).
#[cold]
fn run_timed(lp: &LoopRef, root: &mut Option<Root<'_>>, entry: Ready) {
    let mut context = ExceptionContext::warning("slow callback");
    match &entry {
        Ready::Handle(handle) => context.handle = Some(Handle::clone(handle)),
        Ready::Remote(handle) => context.set_callback(handle.name(), handle.site()),
        Ready::Task(key) => context.task = task::find(&lp.inner, *key),
        Ready::Io(token, _) => context.subject = io_table::describe(lp, *token),
    }
    let started = lp.inner.clock.now();
    run_entry(lp, root, entry);
    let took = lp.inner.clock.now().saturating_duration_since(started);
    if took >= lp.inner.slow_callback_duration.get() {
        context.duration = Some(took);
        lp.report(&context);
    }
    // It may hold the last reference to what ran.
    guard::discard(lp, context);
}
