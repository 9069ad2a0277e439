//! `Task`: the handle of a spawned future.

use std::fmt;
use std::future::Future;
use std::panic::Location;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use loop_handle::{Cancel, CancelOnDrop, Handle, Outcome as CallbackOutcome};

use super::join::{AnyJoin, Join};
use super::state::{CANCELLED, DONE, POLLED, TAKEN, UNHANDLED};
use super::task_ref::{TaskRef, fmt_task};
use super::unread::take_unwanted;
use crate::error::TaskError;
use crate::waiters::CallbackId;

/// A spawned future; awaiting it gives its output.
///
/// The loop owns the task until it ends. Dropping a `Task` that nobody has awaited lets it run on;
/// dropping one that was awaited and is not done passes the caller's own end on to it: the task is
/// cancelled. [`detach`](Self::detach) and [`cancel_on_drop`](Self::cancel_on_drop) say otherwise
/// (contract C10).
///
/// A panic of the body is the awaiter's to see; if nobody can see it any more, it is reported. So is an `Err` after
/// [`report_errors`](Self::report_errors).
///
/// ```
/// # use loop_core::{run, spawn, sleep, TaskError};
/// # use std::time::Duration;
/// # run(async {
/// let task = spawn(async { 6 * 7 });
/// assert_eq!(task.await.unwrap(), 42);
///
/// let task = spawn(sleep(Duration::from_secs(3600)));
/// task.cancel();
/// assert!(task.await.unwrap_err().is_cancelled());
/// # }).unwrap();
/// ```
pub struct Task<T: 'static> {
    pub(super) join: Rc<Join<T>>,
    /// This handle's place among the waiters, once it was polled.
    waiter: Option<u64>,
}

impl<T: 'static> Task<T> {
    pub(super) fn new(join: Rc<Join<T>>) -> Self {
        Task { join, waiter: None }
    }
}

impl<T: 'static> Task<T> {
    /// Whether the task has ended.
    pub fn is_done(&self) -> bool {
        self.join.has(DONE)
    }

    /// Whether the task ended because it was cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.join.has(CANCELLED)
    }

    /// The outcome without waiting, once: `None` while the task runs, or after it was taken.
    pub fn take_result(&self) -> Option<Result<T, TaskError>> {
        self.join.take()
    }

    /// A number no other task of the process has.
    pub fn id(&self) -> u64 {
        self.join.id
    }

    /// The task's name: `Task-n` unless it was given another (B-TASK-06).
    pub fn name(&self) -> Rc<str> {
        self.join.name()
    }

    /// Gives the task a name, for reports.
    pub fn set_name(&self, name: &str) {
        self.join.set_name(name);
    }

    /// A reference that knows nothing of the output.
    pub fn task_ref(&self) -> TaskRef {
        TaskRef { join: self.join.clone() }
    }

    /// Queues `callback` at the task's end, at once if it has ended. Callbacks and awaiters get their
    /// turn in the order in which they came, never inline (B-TASK-01).
    #[track_caller]
    pub fn add_done_callback<F, R>(&self, callback: F) -> CallbackId
    where
        F: FnOnce() -> R + 'static,
        R: CallbackOutcome,
    {
        self.join.add_callback(Handle::once_at(Location::caller(), None, callback))
    }

    /// Removes a done callback that is not queued yet; whether it did.
    pub fn remove_done_callback(&self, id: CallbackId) -> bool {
        self.join.waiters().remove_callback(id)
    }

    /// Lets the task run on by itself, also if it was awaited before.
    pub fn detach(self) {
        self.join.set(UNHANDLED);
        drop(self);
    }

    /// Ties the task to the value that comes back: dropping that cancels it. It can be awaited as the task can,
    /// and dereferences to it.
    pub fn cancel_on_drop(self) -> CancelOnDrop<Task<T>> {
        CancelOnDrop::new(self)
    }
}

impl<T: 'static> Future for Task<T> {
    type Output = Result<T, TaskError>;

    /// # Panics
    /// If polled again after it gave its outcome.
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Task { join, waiter } = self.get_mut();
        if join.has(DONE) {
            return match join.take() {
                Some(outcome) => Poll::Ready(outcome),
                None => panic!("a task was awaited after its outcome was taken"),
            };
        }
        if let Some(error) = join.refuse_awaiting() {
            return Poll::Ready(Err(error));
        }
        join.set(POLLED);
        join.register(waiter, cx.waker());
        Poll::Pending
    }
}

impl<T: 'static> Drop for Task<T> {
    fn drop(&mut self) {
        let join = &self.join;
        if !join.has(DONE) {
            if let Some(waiter) = self.waiter {
                join.waiters().deregister(waiter);
            }
            if join.has(POLLED) && !join.has(UNHANDLED) {
                join.request(None);
            }
            join.set(UNHANDLED);
            return;
        }
        if !join.has(TAKEN) {
            let unwanted = take_unwanted(&(join.clone() as Rc<AnyJoin>), join.take_unread());
            drop(unwanted);
        }
    }
}

impl<T: 'static> fmt::Debug for Task<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt_task(f, "Task", &*self.join)
    }
}

impl<T: 'static> Cancel for Task<T> {
    fn cancel(&self) {
        Task::cancel(self);
    }
}
