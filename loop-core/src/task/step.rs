//! One step of a task, and how it gets its turn.

use std::any::Any;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;
use std::task::{Context, Poll};

use loop_handle::Snapshot;

use super::body::AnyBody;
use super::cell::{Removed, TaskKey};
use super::gear::{self, Ended, Gear, Polled};
use super::running::Running;
use super::state::{ATTEND, GEARED, QUEUED, ROOT, RUNNING, WOKEN};
use super::task_ref::{TaskRef, find, report_pending};
use super::waker::TaskWaker;
use crate::cancel::{self, SharedTree, Turn};
use crate::debug::Timing;
use crate::error::{LoopAbort, PanicError, TaskError};
use crate::guard::{self, HeldPanic, Undeterred};
use crate::inner::Inner;
use crate::loop_ref::LoopRef;

/// The future of a `run_until_complete`: polled in place, so that it may borrow from its caller. It
/// stores its output itself.
pub(crate) struct Root<'a> {
    pub(crate) key: TaskKey,
    /// Polls it, or drops it because it was cancelled.
    pub(crate) advance: &'a mut dyn FnMut(Advance<'_, '_>) -> Poll<()>,
}

/// What a loop lends to each of its tasks' steps.
pub(crate) struct Lent<'a, 'r> {
    /// For tasks that have none of their own. Nobody holds it.
    pub(crate) waker: &'a mut TaskWaker,
    pub(crate) beside: Beside<'a, 'r>,
}

/// What a body is told beside its waker.
pub(crate) struct Beside<'a, 'r> {
    /// The task whose step it is.
    pub(crate) key: TaskKey,
    /// Whether it is polled by what a spawn hook has made of it.
    pub(super) hooked: bool,
    /// The future of the run, if the run has one.
    pub(crate) root: &'a mut Option<Root<'r>>,
    /// What a step has left that has [panicked](Ended::Panicked).
    panic: Option<Box<dyn Any + Send>>,
}

impl<'a, 'r> Lent<'a, 'r> {
    pub(crate) fn new(root: &'a mut Option<Root<'r>>, waker: &'a mut TaskWaker) -> Lent<'a, 'r> {
        Lent { waker, beside: Beside::new(root) }
    }
}

impl<'a, 'r> Beside<'a, 'r> {
    pub(super) fn new(root: &'a mut Option<Root<'r>>) -> Self {
        Beside { key: TaskKey::NONE, hooked: false, root, panic: None }
    }

    /// The body has panicked.
    #[cold]
    pub(super) fn keep(&mut self, payload: Box<dyn Any + Send>) -> Poll<Ended> {
        self.panic = Some(payload);
        Poll::Ready(Ended::Panicked)
    }

    /// What it has [kept](Self::keep).
    pub(super) fn take_panic(&mut self) -> Option<Box<dyn Any + Send>> {
        self.panic.take()
    }
}

pub(crate) enum Advance<'a, 'b> {
    Poll(&'a mut Context<'b>),
    Cancel(Option<Arc<str>>),
}

/// Queues a task's next step, once however often it is asked for (B-TASK-25, B-TASK-26).
#[inline(always)]
pub(crate) fn schedule(inner: &Inner, key: TaskKey) {
    let mut tasks = inner.tasks.borrow_mut();
    let Some(entry) = tasks.get_mut(key) else { return };
    if entry.state & (RUNNING | QUEUED) == 0 {
        entry.state |= QUEUED;
        inner.ready.push_task(key);
    } else if entry.state & RUNNING != 0 {
        entry.state |= WOKEN;
    }
}

/// As [`schedule`], and has the step look at requests.
pub(crate) fn attend(inner: &Inner, key: TaskKey) {
    attend_later(inner, key);
    schedule(inner, key);
}

/// Has the next step look at requests, whenever that comes.
pub(crate) fn attend_later(inner: &Inner, key: TaskKey) {
    if let Some(entry) = inner.tasks.borrow_mut().get_mut(key) {
        entry.state |= ATTEND;
    }
}

/// Runs `f` as if the task that begins a step were still queued: waking it does nothing.
pub(crate) fn while_queued(inner: &Inner, key: TaskKey, f: impl FnOnce()) {
    let set = |state: u8| {
        if let Some(entry) = inner.tasks.borrow_mut().get_mut(key) {
            entry.state = state | entry.state & ATTEND;
        }
    };
    set(QUEUED);
    f();
    set(RUNNING);
    // A waker may have asked for something that the step after this one has to deliver.
    if has(inner, key, ATTEND) {
        schedule(inner, key);
    }
}

/// Runs one step.
#[inline(always)]
pub(crate) fn step(lp: &LoopRef, key: TaskKey, lent: &mut Lent<'_, '_>) {
    if lp.inner.before_next() {
        step_observed(lp, key, lent)
    } else {
        deliver_or_poll(lp, key, lent)
    }
}

#[cold]
fn step_observed(lp: &LoopRef, key: TaskKey, lent: &mut Lent<'_, '_>) {
    let timing = Timing::start(lp, |context| context.task = find(&lp.inner, key));
    deliver_or_poll(lp, key, lent);
    lp.inner.settle();
    timing.finish(lp);
}

/// The body is polled, unless there is a request to deliver.
#[inline(always)]
fn deliver_or_poll(lp: &LoopRef, key: TaskKey, lent: &mut Lent<'_, '_>) {
    let begun = lp.inner.tasks.borrow_mut().begin_step(key);
    let Some((state, mut body)) = begun else { return };
    if state & (ATTEND | GEARED) != 0 {
        return step_specially(lp, key, state, body, lent);
    }
    let (polled, values) = gear::step_plainly(&mut body, key, lent);
    if values.is_empty() && !lent.waker.is_kept() {
        conclude(lp, key, body, lent, polled);
    } else {
        let gear = Gear { waker: gear::kept(&lp.inner, lent), values };
        conclude_geared(lp, key, body, gear, lent, polled);
    }
}

/// A step with gear, or with something to deliver.
#[inline(never)]
fn step_specially(
    lp: &LoopRef,
    key: TaskKey,
    state: u8,
    mut body: AnyBody,
    lent: &mut Lent<'_, '_>,
) {
    let inner = &*lp.inner;
    let mut gear = inner.tasks.borrow_mut().take_gear(key);
    if state & ATTEND == 0 {
        let polled = gear::step_geared(inner, &mut body, &mut gear, key, lent);
        return conclude_geared(lp, key, body, gear, lent, polled);
    }
    let asked = find(inner, key).map(|task| task.join.take_asked());
    let mut wakes = Undeterred::default();
    let turn = cancel::begin_step(lp, key, asked.unwrap_or_default(), &mut wakes);
    take_turn(lp, key, body, gear, lent, turn);
    wakes.finish();
}

fn take_turn(
    lp: &LoopRef,
    key: TaskKey,
    mut body: AnyBody,
    mut gear: Gear,
    lent: &mut Lent<'_, '_>,
    turn: Turn,
) {
    let inner = &*lp.inner;
    if let Turn::Cancel(reason) = turn {
        return end(lp, key, body, gear.values, lent, Ended::Left, Some(reason));
    }
    let polled = gear::step_geared(inner, &mut body, &mut gear, key, lent);
    if let (Turn::Watch, (Poll::Pending, woken)) = (turn, polled) {
        cancel::end_step(inner, key, woken || has(inner, key, WOKEN));
    }
    conclude_geared(lp, key, body, gear, lent, polled);
}

/// What follows a poll.
#[inline(always)]
fn conclude(lp: &LoopRef, key: TaskKey, body: AnyBody, lent: &mut Lent<'_, '_>, polled: Polled) {
    match polled {
        (Poll::Pending, woken) => suspend(&lp.inner, key, body, woken),
        (Poll::Ready(ended), _) => over(lp, key, body, Snapshot::default(), lent, ended),
    }
}

/// The same, with gear.
#[inline(never)]
fn conclude_geared(
    lp: &LoopRef,
    key: TaskKey,
    body: AnyBody,
    gear: Gear,
    lent: &mut Lent<'_, '_>,
    polled: Polled,
) {
    match polled {
        (Poll::Pending, woken) => {
            lp.inner.tasks.borrow_mut().put_gear(key, gear);
            suspend(&lp.inner, key, body, woken);
        }
        (Poll::Ready(ended), _) => over(lp, key, body, gear.values, lent, ended),
    }
}

#[inline(always)]
fn over(
    lp: &LoopRef,
    key: TaskKey,
    body: AnyBody,
    values: Snapshot,
    lent: &mut Lent<'_, '_>,
    ended: Ended,
) {
    if ended == Ended::Quietly && !has(&lp.inner, key, ATTEND) {
        finish(lp, key, Some(body), values, None);
    } else {
        end(lp, key, body, values, lent, ended, None);
    }
}

fn has(inner: &Inner, key: TaskKey, bit: u8) -> bool {
    inner.tasks.borrow().get(key).is_some_and(|entry| entry.state & bit != 0)
}

/// Puts a pending task back, and into the queue if it was woken meanwhile.
#[inline(always)]
fn suspend(inner: &Inner, key: TaskKey, body: AnyBody, woken: bool) {
    let mut tasks = inner.tasks.borrow_mut();
    let Some(entry) = tasks.stepping(key) else {
        unreachable!("a task leaves the table only at the end of its own step")
    };
    // There was none meanwhile, and dropping that is a look.
    std::mem::forget(entry.body.replace(body));
    if entry.state == RUNNING && !woken {
        entry.state = 0;
        return;
    }
    let woken = woken || entry.state & WOKEN != 0;
    entry.state = if woken { QUEUED } else { 0 } | entry.state & (ATTEND | GEARED);
    drop(tasks);
    if woken {
        inner.ready.push_task(key);
    }
}

/// The body has ended and not gone quietly, or is to end because of a request: drops it, and then the task
/// is over.
#[inline(never)]
fn end(
    lp: &LoopRef,
    key: TaskKey,
    body: AnyBody,
    mut values: Snapshot,
    lent: &mut Lent<'_, '_>,
    ended: Ended,
    mut cancelled: Option<Option<Arc<str>>>,
) {
    let payload = if ended == Ended::Panicked { lent.beside.take_panic() } else { None };
    let (panicked, abort, destructor) = match payload {
        Some(payload) if !body.has_ended() => {
            let abort = payload.downcast_ref::<LoopAbort>().copied();
            (Some(TaskError::Panicked(PanicError::new(payload))), abort, None)
        }
        destructor => (None, None, destructor),
    };
    let (body, aborted) = drop_body(lp, key, body, &mut values, destructor);
    let abort = aborted.or(abort);
    let Some(TaskRef { join }) = find(&lp.inner, key) else { return };
    // A request counts also if the body ended without suspending for it; a panic wins (B-TASK-13).
    if cancelled.is_none() && has(&lp.inner, key, ATTEND) {
        cancelled = cancel::left_over(&lp.inner, key, join.take_asked());
    }
    if let (Some(reason), true, Some(root)) = (&cancelled, join.has(ROOT), &mut *lent.beside.root) {
        let _current = Running::without_waker(key);
        let cancel = || (root.advance)(Advance::Cancel(reason.clone()));
        _ = values.run_keeping(cancel);
    }
    let cancelled = cancelled.map(|reason| TaskError::Cancelled { reason });
    finish(lp, key, body, values, panicked.or(cancelled));
    // An abort is the outcome of the task, and it ends the run (B-TASK-22).
    if let Some(abort) = abort {
        abort.raise();
    }
}

/// Drops what is in a body with its task current, in its context, and the loop usable (B-TASK-31).
/// `panicked` is how far that has come already. Hands back the body, to be used again, or an abort that
/// came of it, for the task has to end first.
fn drop_body(
    lp: &LoopRef,
    key: TaskKey,
    mut body: AnyBody,
    values: &mut Snapshot,
    panicked: Option<Box<dyn Any + Send>>,
) -> (Option<AnyBody>, Option<LoopAbort>) {
    let _current = Running::without_waker(key);
    let clear = || match panicked {
        Some(payload) => panic::resume_unwind(payload),
        None => body.as_mut().clear(),
    };
    let clear = || guard::guarded(lp, guard::DESTRUCTOR, clear);
    match values.run_keeping(|| panic::catch_unwind(AssertUnwindSafe(clear))) {
        Ok(()) => (Some(body), None),
        Err(aborted) => (None, aborted.downcast_ref::<LoopAbort>().copied()),
    }
}

/// Takes the task off the table and tells who waits (B-TASK-30: what was in the body is gone by now), in
/// its context, in which a panic is reported (B-EXC-06).
#[inline(never)]
fn finish(
    lp: &LoopRef,
    key: TaskKey,
    body: Option<AnyBody>,
    values: Snapshot,
    error: Option<TaskError>,
) {
    let removed = {
        let mut tasks = lp.inner.tasks.borrow_mut();
        if let Some(body) = body {
            tasks.bodies.keep(body);
        }
        tasks.remove(key)
    };
    let Some(Removed { tree, join }) = removed else { return };
    // Whoever waits is told, also if what is left of the tree raises an abort.
    let aborted = tree.and_then(|tree| forget_tree(lp, &tree));
    values.run(|| join.end(lp, error));
    // Context values are user values.
    guard::discard(lp, values);
    if let Some(abort) = aborted {
        abort.resume();
    }
}

#[cold]
fn forget_tree(lp: &LoopRef, tree: &SharedTree) -> Option<HeldPanic> {
    guard::hold_panic(|| cancel::forget(lp, tree)).err()
}

/// Closing: drops every body while the table still owns the other cells, so that a chain of tasks
/// that hold each other's handles does not recurse. Reports what was pending (B-TASK-24). A closed loop
/// gets no new tasks, so one pass is enough.
pub(crate) fn drop_all(lp: &LoopRef, closing: &mut Undeterred) {
    let slots = lp.inner.tasks.borrow().slots();
    for slot in 0..slots {
        let found = lp.inner.tasks.borrow().key_at(slot);
        let Some(key) = found else { continue };
        let Some(TaskRef { join }) = find(&lp.inner, key) else { continue };
        // While the task still has its context, which the report is made in (B-EXC-06).
        if !join.has(ROOT) && !join.is_asked() {
            closing.run(|| report_pending(lp, &join));
        }
        let begun = lp.inner.tasks.borrow_mut().begin_step(key);
        let Some((_, body)) = begun else { continue };
        let Gear { mut values, .. } = lp.inner.tasks.borrow_mut().take_gear(key);
        let (body, abort) = drop_body(lp, key, body, &mut values, None);
        if let Some(abort) = abort {
            closing.run(|| abort.raise());
        }
        closing.run(|| finish(lp, key, body, values, Some(TaskError::Closed)));
    }
}
