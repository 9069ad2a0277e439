//! One step of a task, and how it gets its turn.

use std::panic::{self, AssertUnwindSafe};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

use loop_handle::Snapshot;

use super::body::AnyBody;
use super::cell::TaskKey;
use super::join::AnyJoin;
use super::state::{ATTEND, QUEUED, ROOT, RUNNING, WOKEN};
use super::task_ref::{TaskRef, find, report_pending};
use super::waker::TaskWaker;
use crate::cancel::{self, Turn};
use crate::debug::Timing;
use crate::error::{LoopAbort, PanicError, TaskError};
use crate::guard;
use crate::inner::Inner;
use crate::loop_ref::LoopRef;

/// The future of a `run_until_complete`: polled in place, so that it may borrow from its caller. It
/// stores its output itself.
pub(crate) struct Root<'a> {
    pub(crate) key: TaskKey,
    /// Polls it, or drops it because it was cancelled.
    pub(crate) advance: &'a mut dyn FnMut(Advance<'_, '_>) -> Poll<()>,
}

pub(crate) enum Advance<'a, 'b> {
    Poll(&'a mut Context<'b>),
    Cancel(Option<Arc<str>>),
}

/// Queues a task's next step, once however often it is asked for (B-TASK-25, B-TASK-26).
pub(crate) fn schedule(inner: &Inner, key: TaskKey) {
    let mut tasks = inner.tasks.borrow_mut();
    let Some(entry) = tasks.get_mut(key) else { return };
    if entry.state & RUNNING != 0 {
        entry.state |= WOKEN;
    } else if entry.state & QUEUED == 0 {
        entry.state |= QUEUED;
        inner.ready.push_task(key);
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

/// Makes a task current until dropped.
struct Current<'a> {
    inner: &'a Inner,
    previous: Option<TaskKey>,
}

impl<'a> Current<'a> {
    fn enter(inner: &'a Inner, key: TaskKey) -> Self {
        Current { inner, previous: inner.current_task.replace(Some(key)) }
    }
}

impl Drop for Current<'_> {
    fn drop(&mut self) {
        self.inner.current_task.set(self.previous);
    }
}

/// Runs one step.
#[inline]
pub(crate) fn step(lp: &LoopRef, key: TaskKey, root: &mut Option<Root<'_>>) {
    let timing = Timing::start(lp, |context| context.task = find(&lp.inner, key));
    deliver_or_poll(lp, key, root);
    timing.finish(lp);
}

/// What a step takes out of the table.
struct Stage {
    body: Option<AnyBody>,
    waker: TaskWaker,
    values: Snapshot,
}

type Polled = std::thread::Result<Poll<()>>;

/// A request is delivered, else the body is polled.
#[inline(never)]
fn deliver_or_poll(lp: &LoopRef, key: TaskKey, root: &mut Option<Root<'_>>) {
    let inner = &*lp.inner;
    let (attends, mut stage) = {
        let mut tasks = inner.tasks.borrow_mut();
        let Some(entry) = tasks.get_mut(key) else { return };
        let attends = entry.state & ATTEND != 0;
        entry.state = RUNNING;
        let (body, kept) = (entry.body.take(), entry.waker.take());
        let values = std::mem::take(&mut entry.values);
        // A spare is nobody's, so it may point to this task from now on.
        let spare = || tasks.spare.take().inspect(|waker| waker.retarget(key));
        let waker = kept.or_else(spare).unwrap_or_else(|| TaskWaker::new(inner.inbox.clone(), key));
        (attends, Stage { body, waker, values })
    };
    if attends {
        return deliver(lp, key, stage, root);
    }
    match poll(inner, key, &mut stage, root) {
        (Ok(Poll::Pending), woken) => suspend(inner, key, stage, woken),
        (ended, _) => end(lp, key, stage, root, ended, None),
    }
}

/// Polls the body, with its task current and in its context; and whether it has woken itself.
#[inline(always)]
fn poll(
    inner: &Inner,
    key: TaskKey,
    stage: &mut Stage,
    root: &mut Option<Root<'_>>,
) -> (Polled, bool) {
    let Stage { body, waker, values } = stage;
    let _current = Current::enter(inner, key);
    let running = waker.run();
    let mut context = Context::from_waker(waker.waker());
    let polled = match body {
        Some(body) => {
            // Caught inside the context, so that it keeps what was written before a panic.
            let poll = AssertUnwindSafe(|| body.as_mut().poll(&mut context));
            values.run_keeping(|| panic::catch_unwind(poll))
        }
        None => poll_root(key, values, root, &mut context),
    };
    (polled, running.leave())
}

/// The caller of the run wants the root's panic for itself.
#[cold]
fn poll_root(
    key: TaskKey,
    values: &mut Snapshot,
    root: &mut Option<Root<'_>>,
    context: &mut Context<'_>,
) -> Polled {
    match root.as_mut().filter(|root| root.key == key) {
        Some(root) => Ok(values.run_keeping(|| (root.advance)(Advance::Poll(context)))),
        None => Ok(Poll::Pending),
    }
}

/// A step that has something to deliver.
#[cold]
fn deliver(lp: &LoopRef, key: TaskKey, mut stage: Stage, root: &mut Option<Root<'_>>) {
    let inner = &*lp.inner;
    let asked = find(inner, key).map(|task| task.join.header().take_asked());
    let turn = cancel::begin_step(lp, key, asked.unwrap_or_default());
    if let Turn::Cancel(reason) = turn {
        return end(lp, key, stage, root, Ok(Poll::Ready(())), Some(reason));
    }
    match poll(inner, key, &mut stage, root) {
        (Ok(Poll::Pending), woken) => {
            if matches!(turn, Turn::Watch) {
                cancel::end_step(inner, key, woken || has(inner, key, WOKEN));
            }
            suspend(inner, key, stage, woken);
        }
        (ended, _) => end(lp, key, stage, root, ended, None),
    }
}

fn has(inner: &Inner, key: TaskKey, bit: u8) -> bool {
    inner.tasks.borrow().get(key).is_some_and(|entry| entry.state & bit != 0)
}

/// Puts a pending task back, and into the queue if it was woken meanwhile.
#[inline(always)]
fn suspend(inner: &Inner, key: TaskKey, stage: Stage, woken: bool) {
    let Stage { body, waker, values } = stage;
    let mut tasks = inner.tasks.borrow_mut();
    let Some(entry) = tasks.get_mut(key) else {
        unreachable!("a task leaves the table only at the end of its own step")
    };
    entry.body = body;
    entry.values = values;
    let woken = woken || entry.state & WOKEN != 0;
    entry.state = if woken { QUEUED } else { 0 } | entry.state & ATTEND;
    if waker.is_kept() {
        entry.waker = Some(waker);
    } else {
        tasks.spare = Some(waker);
    }
    drop(tasks);
    if woken {
        inner.ready.push_task(key);
    }
}

/// The body has ended, or is to end because of a request: drops it, and then the task is over.
#[inline(never)]
fn end(
    lp: &LoopRef,
    key: TaskKey,
    stage: Stage,
    root: &mut Option<Root<'_>>,
    ended: Polled,
    mut cancelled: Option<Option<Arc<str>>>,
) {
    let Stage { body, waker, mut values } = stage;
    let (panicked, abort) = match ended {
        Ok(_) => (None, None),
        Err(payload) => {
            let abort = payload.downcast_ref::<LoopAbort>().copied();
            (Some(TaskError::Panicked(PanicError::new(payload))), abort)
        }
    };
    let abort = drop_body(lp, key, body, &mut values).or(abort);
    let Some(TaskRef { join }) = find(&lp.inner, key) else { return };
    // A request counts also if the body ended without suspending for it; a panic wins (B-TASK-13).
    if cancelled.is_none() && has(&lp.inner, key, ATTEND) {
        cancelled = cancel::left_over(&lp.inner, key, join.header().take_asked());
    }
    if let (Some(reason), true, Some(root)) = (&cancelled, join.header().has(ROOT), root) {
        let _current = Current::enter(&lp.inner, key);
        let cancel = || (root.advance)(Advance::Cancel(reason.clone()));
        _ = values.run_keeping(cancel);
    }
    let cancelled = cancelled.map(|reason| TaskError::Cancelled { reason });
    finish(lp, key, &join, panicked.or(cancelled), Some(waker), values);
    // An abort is the outcome of the task, and it ends the run (B-TASK-22).
    if let Some(abort) = abort {
        abort.raise();
    }
}

/// Drops a body with its task current, in its context, and the loop usable (B-TASK-31). An abort that
/// comes of it is handed back, for the task has to end first.
fn drop_body(
    lp: &LoopRef,
    key: TaskKey,
    body: Option<AnyBody>,
    values: &mut Snapshot,
) -> Option<LoopAbort> {
    let mut body = body?;
    let _current = Current::enter(&lp.inner, key);
    let clear = || guard::guarded(lp, guard::DESTRUCTOR, || body.as_mut().clear());
    match values.run_keeping(|| panic::catch_unwind(AssertUnwindSafe(clear))) {
        Ok(()) => {
            lp.inner.tasks.borrow_mut().bodies.keep(body);
            None
        }
        Err(aborted) => aborted.downcast_ref::<LoopAbort>().copied(),
    }
}

/// Takes the task off the table and tells who waits (B-TASK-30: the body is gone by now). `values` is
/// its context, in which a panic is reported (B-EXC-06).
fn finish(
    lp: &LoopRef,
    key: TaskKey,
    join: &Rc<dyn AnyJoin>,
    error: Option<TaskError>,
    waker: Option<TaskWaker>,
    values: Snapshot,
) {
    let entry = {
        let mut tasks = lp.inner.tasks.borrow_mut();
        if let Some(waker) = waker.filter(|waker| !waker.is_kept()) {
            tasks.spare = Some(waker);
        }
        tasks.remove(key)
    };
    // What else is left in the entry is no user value.
    if let Some(tree) = entry.and_then(|entry| entry.tree) {
        cancel::forget(lp, &tree);
    }
    values.run(|| join.clone().end(lp, error));
    // Context values are user values.
    guard::discard(lp, values);
}

/// Closing: drops every body while the table still owns the other cells, so that a chain of tasks
/// that hold each other's handles does not recurse. Reports what was pending (B-TASK-24). A closed loop
/// gets no new tasks, so one pass is enough.
pub(crate) fn drop_all(lp: &LoopRef) {
    let slots = lp.inner.tasks.borrow().slots();
    for slot in 0..slots {
        let found = lp.inner.tasks.borrow().key_at(slot);
        let Some(key) = found else { continue };
        let Some(TaskRef { join }) = find(&lp.inner, key) else { continue };
        // While the task still has its context, which the report is made in (B-EXC-06).
        if !join.header().has(ROOT) && !join.header().is_asked() {
            report_pending(lp, &join);
        }
        let taken = {
            let mut tasks = lp.inner.tasks.borrow_mut();
            tasks.get_mut(key).map(|entry| (entry.body.take(), std::mem::take(&mut entry.values)))
        };
        let Some((body, mut values)) = taken else { continue };
        let abort = drop_body(lp, key, body, &mut values);
        finish(lp, key, &join, Some(TaskError::Closed), None, values);
        if let Some(abort) = abort {
            abort.raise();
        }
    }
}
