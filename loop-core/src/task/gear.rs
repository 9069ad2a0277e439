//! What the steps of a task need beside its future, in the same memory.

use std::any::Any;
use std::panic::{self, AssertUnwindSafe};
use std::task::{Context, Poll};

use loop_handle::Snapshot;

use super::cell::TaskKey;
use super::waker::TaskWaker;
use crate::inner::Inner;

/// What became of a step.
pub(crate) enum Stepped {
    /// The future waits; and whether the task has woken itself meanwhile.
    Pending {
        woken: bool,
    },
    Ended(Left),
    Panicked(Box<dyn Any + Send>),
}

/// What is left of a body that has ended.
#[derive(Clone, Copy)]
pub(crate) enum Left {
    /// Nothing of a user's: the future was dropped.
    Nothing,
    /// Something to be [cleared](super::body::Body::clear).
    Something,
}

pub(crate) struct Gear {
    /// Kept from step to step while somebody holds a clone of it, or while the task is queued; and from task
    /// to task with the memory.
    pub(super) waker: Option<TaskWaker>,
    /// The task's context between its steps.
    pub(super) values: Snapshot,
}

impl Gear {
    pub(super) fn new(values: Snapshot) -> Self {
        Gear { waker: None, values }
    }

    /// Polls, with the task current and in its context, and catches a panic inside that, so that what was
    /// written before it is kept.
    #[inline(always)]
    pub(super) fn step(
        &mut self,
        inner: &Inner,
        key: TaskKey,
        poll: impl FnOnce(&mut Context<'_>) -> Poll<Left>,
    ) -> Stepped {
        let caught = |cx: &mut Context<'_>| panic::catch_unwind(AssertUnwindSafe(|| poll(cx)));
        match self.run(inner, key, caught) {
            (Ok(Poll::Pending), woken) => self.pending(inner, woken),
            (Ok(Poll::Ready(left)), _) => Stepped::Ended(left),
            (Err(payload), _) => Stepped::Panicked(payload),
        }
    }

    /// Runs what polls; and whether the task was woken by it.
    #[inline(always)]
    pub(super) fn run<R>(
        &mut self,
        inner: &Inner,
        key: TaskKey,
        poll: impl FnOnce(&mut Context<'_>) -> R,
    ) -> (R, bool) {
        let Gear { waker, values } = self;
        let waker = match waker {
            Some(waker) => waker,
            none => none.insert(spare_waker(inner, key)),
        };
        waker.aim(key);
        let _current = Current::enter(inner, key);
        let running = waker.run();
        let mut context = Context::from_waker(waker.waker());
        let result = values.run_keeping(|| poll(&mut context));
        (result, running.leave())
    }

    /// The task is over: its context. A waker that somebody holds stays with the task, for good.
    #[inline]
    pub(super) fn take_values(&mut self) -> Snapshot {
        if self.waker.as_ref().is_some_and(TaskWaker::is_kept) {
            self.waker = None;
        }
        std::mem::take(&mut self.values)
    }

    /// A waker that nobody holds serves the next task that needs one, unless this one goes on at once.
    #[inline(always)]
    pub(super) fn pending(&mut self, inner: &Inner, woken: bool) -> Stepped {
        if !woken && self.waker.as_ref().is_some_and(|waker| !waker.is_kept()) {
            inner.tasks.borrow_mut().spare = self.waker.take();
        }
        Stepped::Pending { woken }
    }
}

/// A waker for a task that has none.
fn spare_waker(inner: &Inner, key: TaskKey) -> TaskWaker {
    let spare = inner.tasks.borrow_mut().spare.take();
    spare.unwrap_or_else(|| TaskWaker::new(inner.inbox.clone(), key))
}

/// Makes a task current until dropped.
pub(super) struct Current<'a> {
    inner: &'a Inner,
    previous: Option<TaskKey>,
}

impl<'a> Current<'a> {
    pub(super) fn enter(inner: &'a Inner, key: TaskKey) -> Self {
        Current { inner, previous: inner.current_task.replace(Some(key)) }
    }
}

impl Drop for Current<'_> {
    fn drop(&mut self) {
        self.inner.current_task.set(self.previous);
    }
}
