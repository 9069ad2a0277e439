//! One step of a task, and how it gets its turn.

use std::panic::{self, AssertUnwindSafe};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

use loop_handle::Snapshot;

use super::cell::{Body, TaskKey};
use super::join::AnyJoin;
use super::state::{QUEUED, REQUESTED, ROOT, RUNNING, WOKEN};
use super::task_ref::{TaskRef, find, report_pending};
use super::waker::TaskWaker;
use crate::cancel::{self, Turn};
use crate::debug::Timing;
use crate::error::{LoopAbort, PanicError, TaskError};
use crate::guard;
use crate::inner::Inner;
use crate::loop_ref::LoopRef;
use crate::ready::Ready;

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
        inner.ready.push(Ready::Task(key));
    }
}

/// As [`schedule`], and has the step look at requests.
pub(crate) fn attend(inner: &Inner, key: TaskKey) {
    if let Some(entry) = inner.tasks.borrow().get(key) {
        entry.join.header().set(REQUESTED);
    }
    schedule(inner, key);
}

/// Runs `f` as if the task that begins a step were still queued: waking it does nothing.
pub(crate) fn while_queued(inner: &Inner, key: TaskKey, f: impl FnOnce()) {
    let set = |state: u8| {
        if let Some(entry) = inner.tasks.borrow_mut().get_mut(key) {
            entry.state = state;
        }
    };
    set(QUEUED);
    f();
    set(RUNNING);
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

/// A request is delivered, else the body is polled.
fn deliver_or_poll(lp: &LoopRef, key: TaskKey, root: &mut Option<Root<'_>>) {
    let inner = &*lp.inner;
    let (body, waker, mut values, join) = {
        let mut tasks = inner.tasks.borrow_mut();
        let Some(entry) = tasks.get_mut(key) else { return };
        entry.state = RUNNING;
        let (body, kept) = (entry.body.take(), entry.waker.take());
        let (values, join) = (std::mem::take(&mut entry.values), entry.join.clone());
        // A spare is nobody's, so it may point to this task from now on.
        let spare = || tasks.spare.take().inspect(|waker| waker.retarget(key));
        (body, kept.or_else(spare), values, join)
    };
    let waker = waker.unwrap_or_else(|| TaskWaker::new(inner.inbox.clone(), key));
    let mut body = body;
    let turn = if join.header().has(REQUESTED) {
        join.header().clear(REQUESTED);
        cancel::begin_step(lp, key, join.header().take_asked())
    } else {
        Turn::Poll
    };
    let watch = matches!(turn, Turn::Watch);
    let mut cancelled = None;
    let polled = if let Turn::Cancel(reason) = turn {
        cancelled = Some(reason);
        Ok(Poll::Ready(()))
    } else {
        let _current = Current::enter(inner, key);
        let mut context = Context::from_waker(waker.waker());
        match &mut body {
            Some(body) => {
                // Caught inside the context, so that it keeps what was written before a panic.
                let poll = AssertUnwindSafe(|| body.as_mut().poll(&mut context));
                values.run_keeping(|| panic::catch_unwind(poll))
            }
            // The caller of the run wants the root's panic for itself.
            None => match root.as_mut().filter(|root| root.key == key) {
                Some(root) => {
                    Ok(values.run_keeping(|| (root.advance)(Advance::Poll(&mut context))))
                }
                None => Ok(Poll::Pending),
            },
        }
    };
    let (panicked, abort) = match polled {
        Ok(Poll::Pending) => {
            if watch {
                cancel::end_step(inner, key, is_woken(inner, key));
            }
            return suspend(inner, key, body, waker, values);
        }
        Ok(Poll::Ready(())) => (None, None),
        Err(payload) => {
            let abort = payload.downcast_ref::<LoopAbort>().copied();
            (Some(TaskError::Panicked(PanicError::new(payload))), abort)
        }
    };
    let abort = drop_body(lp, key, body, &mut values).or(abort);
    // A request counts also if the body ended without suspending for it; a panic wins (B-TASK-13).
    if cancelled.is_none() && join.header().has(REQUESTED) {
        cancelled = cancel::left_over(&lp.inner, key, join.header().take_asked());
    }
    if let (Some(reason), true, Some(root)) = (&cancelled, join.header().has(ROOT), root) {
        let _current = Current::enter(inner, key);
        let cancel = || (root.advance)(Advance::Cancel(reason.clone()));
        _ = values.run_keeping(cancel);
    }
    let cancelled = cancelled.map(|reason| TaskError::Cancelled { reason });
    end(lp, key, &join, panicked.or(cancelled), Some(waker), values);
    // An abort is the outcome of the task, and it ends the run (B-TASK-22).
    if let Some(abort) = abort {
        abort.raise();
    }
}

fn is_woken(inner: &Inner, key: TaskKey) -> bool {
    inner.tasks.borrow().get(key).is_some_and(|entry| entry.state & WOKEN != 0)
}

/// Puts a pending task back, and into the queue if it was woken meanwhile.
fn suspend(inner: &Inner, key: TaskKey, body: Option<Body>, waker: TaskWaker, values: Snapshot) {
    let mut tasks = inner.tasks.borrow_mut();
    let mut unkept = None;
    let woken = match tasks.get_mut(key) {
        Some(entry) => {
            entry.body = body;
            entry.values = values;
            if waker.is_kept() {
                entry.waker = Some(waker);
            } else {
                unkept = Some(waker);
            }
            let woken = entry.state & WOKEN != 0;
            entry.state = if woken { QUEUED } else { 0 };
            woken
        }
        None => unreachable!("a task leaves the table only at the end of its own step"),
    };
    if unkept.is_some() {
        tasks.spare = unkept;
    }
    drop(tasks);
    if woken {
        inner.ready.push(Ready::Task(key));
    }
}

/// Drops a body with its task current, in its context, and the loop usable (B-TASK-31). An abort that
/// comes of it is handed back, for the task has to end first.
fn drop_body(
    lp: &LoopRef,
    key: TaskKey,
    body: Option<Body>,
    values: &mut Snapshot,
) -> Option<LoopAbort> {
    let _current = Current::enter(&lp.inner, key);
    let discard = AssertUnwindSafe(|| guard::discard(lp, body));
    let aborted = values.run_keeping(|| panic::catch_unwind(discard)).err()?;
    aborted.downcast_ref::<LoopAbort>().copied()
}

/// Takes the task off the table and tells who waits (B-TASK-30: the body is gone by now). `values` is
/// its context, in which a panic is reported (B-EXC-06).
fn end(
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
        end(lp, key, &join, Some(TaskError::Closed), None, values);
        if let Some(abort) = abort {
            abort.raise();
        }
    }
}
