//! What the steps of a task need beside its future, in the same memory.

use std::panic::{self, AssertUnwindSafe};
use std::task::{Context, Poll, Waker};

use loop_handle::Snapshot;

use super::cell::TaskKey;
use super::running::Running;
use super::step::Lent;
use super::waker::TaskWaker;
use crate::inner::Inner;

/// What became of a step.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stepped {
    /// The future waits.
    Waits,
    /// The same, and the task has woken itself meanwhile.
    Woken,
    /// It was dropped, and nothing of a user's is left.
    Ended,
    /// It has ended, and is to be [cleared](super::body::Body::clear).
    Left,
    /// With what is [lent](super::step::Lent::panic) now.
    Panicked,
}

impl Stepped {
    #[inline(always)]
    pub(super) fn new(polled: Poll<Stepped>, woken: bool) -> Self {
        match polled {
            Poll::Ready(ended) => ended,
            Poll::Pending if woken => Stepped::Woken,
            Poll::Pending => Stepped::Waits,
        }
    }

    /// Of a future that waits: whether its task was woken.
    #[inline(always)]
    pub(super) fn woken(self) -> Option<bool> {
        matches!(self, Stepped::Waits | Stepped::Woken).then_some(self == Stepped::Woken)
    }
}

pub(crate) struct Gear {
    /// The task's own, once somebody has kept a clone of the one that its step was lent.
    pub(super) waker: Option<Waker>,
    /// The task's context between its steps.
    pub(super) values: Snapshot,
}

impl Gear {
    pub(super) fn new(values: Snapshot) -> Self {
        Gear { waker: None, values }
    }

    /// Polls, for how it has ended if it has, with the task current and in its context, and catches a panic inside that, so that what was
    /// written before it is kept.
    #[inline(always)]
    pub(super) fn step(
        &mut self,
        inner: &Inner,
        key: TaskKey,
        lent: &mut Lent<'_, '_>,
        poll: impl FnOnce(&mut Context<'_>) -> Poll<Stepped>,
    ) -> Stepped {
        let caught = |cx: &mut Context<'_>| panic::catch_unwind(AssertUnwindSafe(|| poll(cx)));
        match self.run(inner, key, lent.waker, caught) {
            (Ok(polled), woken) => Stepped::new(polled, woken),
            (Err(payload), _) => {
                lent.panic = Some(payload);
                Stepped::Panicked
            }
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
            None => lent.get_or_insert_with(|| new_waker(inner, key)).aim(key),
        };
        let running = Running::enter(waker.data(), key);
        let mut context = Context::from_waker(waker);
        let result = values.run_keeping(|| poll(&mut context));
        let woken = running.leave();
        if own.is_none() && lent.as_ref().is_some_and(TaskWaker::is_kept) {
            // It stays with the task.
            *own = lent.take().map(TaskWaker::into_waker);
        }
        (result, woken)
    }

    /// The task is over: its context.
    #[inline]
    pub(super) fn take_values(&mut self) -> Snapshot {
        self.waker = None;
        std::mem::take(&mut self.values)
    }
}

#[cold]
fn new_waker(inner: &Inner, key: TaskKey) -> TaskWaker {
    TaskWaker::new(inner.inbox.clone(), key)
}
