//! One iteration, a function a phase.
//!
//! 1. purge: cancelled timers leave the head of the heap (cancelling itself purges the rest);
//! 2. flush: the selector hears of changed interests;
//! 3. timeout: zero, the nearest deadline, or none;
//! 4. select;
//! 5. collect: calls from other threads, signals, I/O, due timers join the ready queue;
//! 6. run exactly what is in the queue at this point. What that schedules waits for the next
//!    iteration, but for [what it puts off](LoopRef::call_before_wait) until the end of this one.

use std::io;
use std::time::Duration;

use loop_selector::{Event, Events};
use loop_timer::TimerKey;

use crate::before_wait::Iteration;
use crate::cancel;
use crate::debug;
use crate::error::LoopError;
use crate::guard;
use crate::inbox::Message;
use crate::inner::{DESCRIPTORS, Inner, SIGNALS, TIMERS, TimerItem};
use crate::loop_ref::LoopRef;
use crate::readiness;
use crate::ready::{Batch, Ready};
use crate::signals;
use crate::sim::{self, Deadlock};
use crate::task::{self, Lent, Root, TaskWaker};
use crate::watchdog::Beat;

/// No wait is longer: clocks and kernels have had trouble with more (B-LOOP-06).
const MAX_WAIT: Duration = Duration::from_secs(24 * 60 * 60);

/// Memory that the loop's owner lends to each iteration.
pub(crate) struct Scratch {
    /// What the latest wait has found.
    pub(crate) events: Events,
    /// Whether handlers were told of it.
    told: bool,
    pub(crate) batch: Batch,
    /// For handlers to read into; see [`IoHandler::ready`](crate::IoHandler::ready).
    buffer: Vec<u8>,
    /// Whether the selector's waker was parked for a host's wait: the next `select` has to un-park it.
    pub(crate) parked: bool,
    /// Whether the last iteration had anything to run.
    pub(crate) ran: bool,
    /// Lent to each task's step, so that a task whose waker is never kept costs none. Nobody holds it.
    waker: TaskWaker,
    /// With callbacks ready, only each n-th iteration asks the selector.
    pub(crate) poll_every: u32,
}

impl Scratch {
    pub(crate) fn new(inner: &Inner, poll_every: u32) -> Self {
        Scratch {
            events: Events::new(),
            told: false,
            batch: Batch::default(),
            buffer: Vec::new(),
            parked: false,
            ran: false,
            waker: TaskWaker::to_lend(inner),
            poll_every,
        }
    }

    /// Comes before the first iteration of a run.
    pub(crate) fn begin_run(&mut self, inner: &Inner) {
        // Somebody keeps it if a root future panicked, which unwinds past the step's end.
        if self.waker.is_kept() {
            self.waker = TaskWaker::to_lend(inner);
        }
    }
}

#[inline(always)]
pub(crate) fn run_once(
    lp: &LoopRef,
    scratch: &mut Scratch,
    root: &mut Option<Root<'_>>,
    limit: Option<Duration>,
) -> Result<(), LoopError> {
    if lp.inner.process.is_forked() {
        return Err(LoopError::Forked);
    }
    lp.inner.counters.iterations.add(1);
    let looks = !lp.inner.is_quiet() || scratch.parked;
    if looks {
        look(lp, scratch, limit)?;
    }
    let _beat = Beat::begin(&lp.inner);
    if looks {
        collect(lp, scratch);
    }
    run_ready(lp, scratch, root);
    Ok(())
}

/// Phases 1 to 4.
#[inline(never)]
fn look(lp: &LoopRef, scratch: &mut Scratch, limit: Option<Duration>) -> Result<(), LoopError> {
    readiness::flush_changes(lp);
    let timeout = timeout(lp, limit);
    select(lp, scratch, timeout)
}

/// Phase 5.
#[inline(always)]
fn collect(lp: &LoopRef, scratch: &Scratch) {
    let inner = &lp.inner;
    let found = scratch.events.len();
    inner.events.set(found);
    if !inner.inbox.is_empty() {
        collect_inbox(lp);
    }
    if inner.is_marked(SIGNALS) {
        signals::collect(lp);
    }
    if found > 0 {
        inner.counters.events.add(found as u64);
        inner.ready.push(Ready::Events);
    }
    if inner.is_marked(TIMERS) {
        collect_timers(lp);
    }
}

/// Phases 1 and 3 (B-LOOP-05). The clock is read only if a timer lives.
fn timeout(lp: &LoopRef, limit: Option<Duration>) -> Option<Duration> {
    let inner = &lp.inner;
    inner.settle_timers();
    if inner.stopping.get() || !inner.ready.is_empty() {
        return Some(Duration::ZERO);
    }
    let limit = limit.map(|limit| limit.min(MAX_WAIT));
    if limit.is_some_and(|limit| limit.is_zero()) {
        return limit;
    }
    // What lies at the end of time never comes.
    let deadline = inner.timers.borrow_mut().next_deadline().filter(|ticks| *ticks < u64::MAX);
    match deadline {
        Some(ticks) => {
            let now = inner.ticks(inner.now());
            let wait = Duration::from_nanos(ticks.saturating_sub(now));
            Some(wait.min(limit.unwrap_or(MAX_WAIT)))
        }
        None => limit,
    }
}

/// Phase 4. With nothing registered and no time to wait there is nothing that the kernel could tell;
/// the inbox and the signal counters are looked at in any case (B-LOOP-07).
fn select(lp: &LoopRef, scratch: &mut Scratch, timeout: Option<Duration>) -> Result<(), LoopError> {
    let Scratch { events, told, parked, poll_every, .. } = scratch;
    events.clear();
    *told = false;
    let inner = &lp.inner;
    let passes_over = *poll_every > 1 && inner.iteration() % *poll_every != 0;
    if passes_over && !*parked && !inner.ready.is_empty() {
        inner.inbox.note_wake();
        return Ok(());
    }
    let parked = std::mem::take(parked);
    let no_time = Some(Duration::ZERO);
    if timeout == no_time && !inner.is_marked(DESCRIPTORS) && !parked {
        inner.inbox.note_wake();
        return Ok(());
    }
    let started = debug::poll_started(lp, timeout);
    let selected = {
        let mut selector = inner.selector.borrow_mut();
        let Some(selector) = &mut *selector else { return Err(LoopError::Closed) };
        // A waker that is parked already cannot be parked again.
        selector.select(events, if parked { no_time } else { timeout })
    };
    if let Some(started) = started {
        debug::poll_finished(lp, started, timeout, events.len());
    }
    selected.or_else(|error| select_failed(lp, error))
}

#[cold]
fn select_failed(lp: &LoopRef, error: io::Error) -> Result<(), LoopError> {
    if !sim::is_stalled(&error) {
        return Err(LoopError::Select(error));
    }
    // A wake may have come since the selector looked.
    if !lp.inner.inbox.is_empty() {
        return Ok(());
    }
    Err(LoopError::Deadlock(Deadlock::new(lp.dump())))
}

/// Bounded by what is there at the start, so that a flooding thread cannot keep I/O out (B-THR-11).
#[inline(never)]
fn collect_inbox(lp: &LoopRef) {
    let inner = &lp.inner;
    let count = inner.inbox.len();
    inner.counters.wakes.add(count as u64);
    for _ in 0..count {
        match inner.inbox.pop() {
            Some(Message::Call(handle)) => inner.ready.push(Ready::Remote(handle)),
            Some(Message::Wake(wake)) => wake.arrive(inner),
            Some(Message::CancelTimer(key)) => {
                let item = inner.take_timer(key);
                guard::discard(lp, item);
            }
            Some(Message::Unbind(task, node)) => {
                guard::guarded(lp, guard::DESTRUCTOR, || cancel::unbind(inner, task, node));
            }
            Some(Message::Stop) => inner.stopping.set(true),
            None => break,
        }
    }
}

/// Due timers. Bounded by what is there at the start: a foreign waker may schedule more.
#[inline(never)]
fn collect_timers(lp: &LoopRef) {
    let inner = &lp.inner;
    let count = inner.timers.borrow().len();
    if count == 0 {
        return inner.unmark(TIMERS);
    }
    let now = inner.ticks(inner.now());
    inner.note_time(now);
    let due = inner.due_at(now);
    for _ in 0..count {
        let popped: Option<(u64, TimerKey, TimerItem)> = inner.timers.borrow_mut().pop_due(due);
        let Some((deadline, _, item)) = popped else { break };
        inner.counters.timer(now.saturating_sub(deadline));
        match item {
            TimerItem::Callback(handle) => inner.ready.push_handle(handle),
            TimerItem::Step(task) => task::schedule(inner, task),
            TimerItem::Wake(waker) => guard::wake(lp, waker),
            TimerItem::Expire(task, node) => cancel::ask(inner, task, node, true),
        }
    }
}

/// Phase 6 (B-LOOP-02). Inlined, so that tasks that hand over to each other, an iteration a step, stay in the
/// run's own loop.
#[inline(always)]
fn run_ready(lp: &LoopRef, scratch: &mut Scratch, root: &mut Option<Root<'_>>) {
    let _iteration = Iteration::begin(lp);
    let ready = &lp.inner.ready;
    let Scratch { events, told, batch, buffer, waker, ran, .. } = scratch;
    let mut lent = Lent::new(root, waker);
    let count = ready.begin(batch);
    *ran = count > 0;
    let mut callbacks = 0;
    while let Some(entry) = ready.next_of(batch) {
        match entry {
            Ready::Task(key) => {
                task::step(lp, key, &mut lent);
                continue;
            }
            // What an aborted iteration has left in the queue is not to tell of them again.
            Ready::Events if *told => {}
            Ready::Events => {
                readiness::run_events(lp, events.iter().copied(), buffer);
                *told = true;
            }
            Ready::Io(token, readiness) => {
                readiness::run_events(lp, [Event::Ready { token, readiness }], buffer)
            }
            Ready::Handle(handle) => guard::run_handle(lp, handle),
            Ready::Remote(handle) => guard::run_remote(lp, handle),
        }
        callbacks += 1;
    }
    lp.inner.counters.callbacks.add(callbacks);
    lp.inner.counters.polls.add(count as u64 - callbacks);
}
