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
    /// The task's own, once somebody has kept a clone of the one that its step was lent.
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
        lent: &mut Option<TaskWaker>,
        poll: impl FnOnce(&mut Context<'_>) -> Poll<Left>,
    ) -> Stepped {
        let caught = |cx: &mut Context<'_>| panic::catch_unwind(AssertUnwindSafe(|| poll(cx)));
        match self.run(inner, key, lent, caught) {
            (Ok(Poll::Pending), woken) => Stepped::Pending { woken },
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
        lent: &mut Option<TaskWaker>,
        poll: impl FnOnce(&mut Context<'_>) -> R,
    ) -> (R, bool) {
        let Gear { waker: own, values } = self;
        let waker = match own {
            Some(own) => &*own,
            None => &*lent.get_or_insert_with(|| new_waker(inner, key)),
        };
        waker.aim(key);
        let running = waker.run(key);
        let mut context = Context::from_waker(waker.waker());
        let result = values.run_keeping(|| poll(&mut context));
        let woken = running.leave();
        if waker.is_kept() == own.is_none() {
            change_hands(own, lent);
        }
        (result, woken)
    }

    /// The task is over: its context. A waker that somebody holds stays with the task, for good.
    #[inline]
    pub(super) fn take_values(&mut self) -> Snapshot {
        self.waker = None;
        std::mem::take(&mut self.values)
    }
}

/// A waker that was lent stays with the task if somebody keeps it, and the task's own is lent to others when
/// nobody does any more.
#[cold]
fn change_hands(own: &mut Option<TaskWaker>, lent: &mut Option<TaskWaker>) {
    match own.take() {
        Some(left) => *lent = Some(left),
        None => *own = lent.take(),
    }
}

#[cold]
fn new_waker(inner: &Inner, key: TaskKey) -> TaskWaker {
    TaskWaker::new(inner.inbox.clone(), key)
}
