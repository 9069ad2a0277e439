//! Which task's step runs on this thread, known by its waker: how a task that wakes itself, which is what
//! giving way is, needs no look at any table.

use std::cell::Cell;
use std::ptr;

thread_local! {
    // Without a destructor, so that a look at it is a load.
    static RUNNING: Cell<*const ()> = const { Cell::new(ptr::null()) };
}

/// Makes the task with this waker the running one until it is dropped or [`leave`](Running::leave)s. Steps
/// nest: an eager start is one inside another.
pub(super) struct Running {
    target: *const (),
    outer: *const (),
}

impl Running {
    /// `target` is what the waker points to. It is compared and never followed.
    #[inline]
    pub(super) fn enter(target: *const ()) -> Self {
        Running { target, outer: RUNNING.replace(target) }
    }

    /// Ends it; whether the task was [woken](wake) meanwhile.
    #[inline]
    pub(super) fn leave(self) -> bool {
        RUNNING.get() != self.target
    }
}

impl Drop for Running {
    #[inline]
    fn drop(&mut self) {
        RUNNING.set(self.outer);
    }
}

/// Whether this is the target of the running task's waker. It is not when the task has woken itself in this
/// step.
#[inline]
pub(super) fn is(target: *const ()) -> bool {
    RUNNING.get() == target
}

/// Takes note that a task is woken, if it is the running one and this is the first time in its step. What
/// [`Running::leave`] finds changed is the note.
#[inline]
pub(super) fn wake(target: *const ()) -> bool {
    let first = is(target);
    if first {
        RUNNING.set(ptr::null());
    }
    first
}
