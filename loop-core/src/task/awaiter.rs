//! Who waits: a task by its number, anybody else by a waker.

use std::task::Waker;

use super::cell::TaskKey;
use super::running;
use super::step::schedule;
use super::waker::is_ours;
use crate::current;

/// Somebody who is to be woken by what belongs to a loop, kept where that loop's number is known. The loop's
/// own tasks are kept by number, for a clone of a waker costs two atomic operations and its wake a third.
pub(crate) enum Awaiter {
    Task(TaskKey),
    Waker(Waker),
}

impl Awaiter {
    /// Whoever `waker` wakes. Cloning a waker is user code.
    #[inline]
    pub(crate) fn new(loop_id: u64, waker: &Waker) -> Self {
        match own_task(loop_id, waker) {
            Some(task) => Awaiter::Task(task),
            None => Awaiter::Waker(waker.clone()),
        }
    }

    /// Whether `waker` wakes the same. It may also do so if this says no.
    #[inline]
    pub(crate) fn is(&self, loop_id: u64, waker: &Waker) -> bool {
        match self {
            Awaiter::Task(task) => own_task(loop_id, waker) == Some(*task),
            Awaiter::Waker(kept) => kept.will_wake(waker),
        }
    }

    /// Wakes it, on its loop's thread. A waker is user code.
    #[inline]
    pub(crate) fn wake(self, loop_id: u64) {
        match self {
            Awaiter::Task(task) => wake_task(loop_id, task),
            Awaiter::Waker(waker) => waker.wake(),
        }
    }

    /// Shows its waker, for those who ask who waits; a task that has none is none of those that are asked
    /// about.
    pub(crate) fn show(&self, loop_id: u64, visit: impl FnOnce(&Waker)) {
        match self {
            Awaiter::Waker(waker) => visit(waker),
            Awaiter::Task(task) => {
                let Some(inner) = current::find(loop_id) else { return };
                if let Some(waker) = inner.tasks.borrow().get(*task).and_then(|task| task.waker()) {
                    visit(waker);
                }
            }
        }
    }
}

#[inline]
fn wake_task(loop_id: u64, task: TaskKey) {
    if current::with_running(loop_id, |inner| schedule(inner, task)).is_none() {
        wake_idle(loop_id, task);
    }
}

/// The loop does not run now. One that is gone has no tasks.
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
