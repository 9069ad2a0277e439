//! Which task's step runs on this thread, and with which waker: how a task that wakes itself, which is what
//! giving way is, needs no look at any table, and one that waits can be noted by its number.

use std::cell::Cell;
use std::ptr;

use super::cell::TaskKey;
use crate::current;

thread_local! {
    /// What its waker points to, and a task of the loop that runs. Without a destructor, so that a look at
    /// them is a load.
    static RUNNING: Cell<(*const (), TaskKey)> = const { Cell::new(NOBODY) };
}

const NOBODY: (*const (), TaskKey) = (ptr::null(), TaskKey::NONE);

/// Makes a task the running one until it is dropped or [`leave`](Running::leave)s; then none is.
pub(crate) struct Running {
    target: *const (),
}

impl Running {
    /// `target` is what the task's waker points to. It is compared and never followed.
    #[inline]
    pub(super) fn enter(target: *const (), task: TaskKey) -> Self {
        RUNNING.set((target, task));
        Running { target }
    }

    /// A task that does not have a step, but whose body is being dropped, say.
    pub(super) fn without_waker(task: TaskKey) -> Self {
        Self::enter(ptr::null(), task)
    }

    /// Ends it; whether the task was [woken](wake) meanwhile.
    #[inline]
    pub(super) fn leave(self) -> bool {
        RUNNING.get().0 != self.target
    }
}

impl Drop for Running {
    #[inline]
    fn drop(&mut self) {
        RUNNING.set(NOBODY);
    }
}

/// Takes whoever runs away, until it is dropped: for a step inside another, an eager start, and for when another
/// loop begins to run.
pub(crate) struct Outer((*const (), TaskKey));

impl Outer {
    pub(crate) fn leave() -> Self {
        Outer(RUNNING.replace(NOBODY))
    }
}

impl Drop for Outer {
    fn drop(&mut self) {
        RUNNING.set(self.0);
    }
}

/// The task of this loop that is the running one.
#[inline]
pub(crate) fn running_task(loop_id: u64) -> Option<TaskKey> {
    let (_, task) = RUNNING.get();
    (task != TaskKey::NONE && current::runs(loop_id)).then_some(task)
}

/// The same, if its waker points there. Once the task has woken itself in this step it is not said any more.
#[inline]
pub(super) fn task_of_waker(loop_id: u64, target: *const ()) -> Option<TaskKey> {
    let (running, task) = RUNNING.get();
    (running == target && current::runs(loop_id)).then_some(task)
}

/// Takes note that a task is woken, if it is the running one and this is the first time in its step. What
/// [`Running::leave`] finds changed is the note.
#[inline]
pub(super) fn wake(target: *const ()) -> bool {
    let (running, task) = RUNNING.get();
    let first = running == target;
    if first {
        RUNNING.set((ptr::null(), task));
    }
    first
}
