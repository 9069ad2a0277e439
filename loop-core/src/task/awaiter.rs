//! Who waits: a task by its number, anybody else by a waker.

use std::fmt;
use std::task::Waker;

use super::cell::TaskKey;
use super::running;
use super::step::schedule;
use super::waker::is_ours;
use crate::current;
use crate::loop_ref::LoopRef;

/// Somebody who is to be woken by what belongs to a loop, kept where that loop's number is known. The loop's
/// own tasks are kept by number, for a clone of a waker costs two atomic operations and its wake a third.
///
/// From [`LoopRef::awaiter`]. Dropping one wakes nobody, and the default one is nobody.
pub struct Awaiter(pub(crate) Kind);

pub(crate) enum Kind {
    Task(TaskKey),
    Waker(Waker),
}

impl Awaiter {
    /// Whoever `waker` wakes. Cloning a waker is user code.
    #[inline]
    pub(crate) fn new(loop_id: u64, waker: &Waker) -> Self {
        match own_task(loop_id, waker) {
            Some(task) => Awaiter(Kind::Task(task)),
            None => Awaiter(Kind::Waker(waker.clone())),
        }
    }

    /// Whether `waker` wakes the same. It may also do so if this says no.
    #[inline]
    pub(crate) fn is(&self, loop_id: u64, waker: &Waker) -> bool {
        match &self.0 {
            Kind::Task(task) => own_task(loop_id, waker) == Some(*task),
            Kind::Waker(kept) => kept.will_wake(waker),
        }
    }

    /// Wakes it, on its loop's thread. A waker is user code.
    #[inline]
    pub(crate) fn wake(self, loop_id: u64) {
        match self.0 {
            Kind::Task(task) => wake_task(loop_id, task),
            Kind::Waker(waker) => waker.wake(),
        }
    }

    /// The same out of line, which leaves [`wake`](Self::wake) to where it counts.
    #[inline(never)]
    pub(crate) fn wake_seldom(self, loop_id: u64) {
        self.wake(loop_id);
    }

    /// Shows its waker, for those who ask who waits; a task that has none is none of those that are asked
    /// about.
    pub(crate) fn show(&self, loop_id: u64, visit: impl FnOnce(&Waker)) {
        match &self.0 {
            Kind::Waker(waker) => visit(waker),
            Kind::Task(task) => {
                let Some(inner) = current::find(loop_id) else { return };
                if let Some(waker) = inner.tasks.borrow().get(*task).and_then(|task| task.waker()) {
                    visit(waker);
                }
            }
        }
    }
}

impl LoopRef {
    /// Whoever `waker` wakes, for something that tasks of this loop wait for: to be kept until it is to be
    /// [woken](Self::wake). Cloning a waker is user code, and is done only for others than these tasks.
    ///
    /// ```
    /// use loop_core::{Awaiter, LoopRef, spawn, yield_now};
    /// use std::{cell::Cell, future::poll_fn, rc::Rc, task::Poll};
    ///
    /// # loop_core::run(async {
    /// let (lp, open) = (LoopRef::current(), Rc::new(Cell::new(false)));
    /// let waiter = Rc::new(Cell::new(Awaiter::default()));
    /// let task = {
    ///     let (lp, open, waiter) = (lp.clone(), open.clone(), waiter.clone());
    ///     spawn(poll_fn(move |cx| {
    ///         if open.get() {
    ///             return Poll::Ready(());
    ///         }
    ///         waiter.set(lp.awaiter(cx.waker()));
    ///         Poll::Pending
    ///     }))
    /// };
    /// yield_now().await;
    /// open.set(true);
    /// lp.wake(waiter.take());
    /// task.await.unwrap();
    /// # })?;
    /// # Ok::<(), loop_core::LoopError>(())
    /// ```
    #[inline]
    pub fn awaiter(&self, waker: &Waker) -> Awaiter {
        Awaiter::new(self.inner.id, waker)
    }

    /// Wakes somebody: nothing, if the task has ended. A waker is user code.
    #[inline]
    pub fn wake(&self, awaiter: Awaiter) {
        match awaiter.0 {
            Kind::Task(task) => schedule(&self.inner, task),
            Kind::Waker(waker) => waker.wake(),
        }
    }

    /// Shows the waker of somebody who waits, for an [`Awaited`](crate::Awaited).
    pub fn show_awaiter(&self, awaiter: &Awaiter, visit: impl FnOnce(&Waker)) {
        awaiter.show(self.inner.id, visit);
    }
}

impl Default for Awaiter {
    #[inline]
    fn default() -> Self {
        Awaiter(Kind::Task(TaskKey::NONE))
    }
}

impl fmt::Debug for Awaiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Awaiter").finish_non_exhaustive()
    }
}

#[inline]
fn wake_task(loop_id: u64, task: TaskKey) {
    if current::with_running(loop_id, |inner| schedule(inner, task)).is_none() {
        wake_idle(loop_id, task);
    }
}

/// Whether or not the loop runs now. One that is gone has no tasks.
#[cold]
fn wake_idle(loop_id: u64, task: TaskKey) {
    if let Some(inner) = current::find(loop_id) {
        schedule(&inner, task);
    }
}

/// The running task of this loop, if that is what `waker` wakes. `None` may also be for want of knowing.
#[inline]
pub(crate) fn own_task(loop_id: u64, waker: &Waker) -> Option<TaskKey> {
    if is_ours(waker) { running::task_of_waker(loop_id, waker.data()) } else { None }
}
