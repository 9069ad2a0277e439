//! A task among others, all awaited by one: what combinators need of it.

use std::panic::Location;
use std::ptr;
use std::rc::Rc;
use std::task::Waker;

use loop_handle::Handle;

use super::cell::TaskKey;
use super::handle::Task;
use super::join::Shared;
use super::running::running_task;
use super::state::{DONE, IGNORED, POLLED};
use crate::current;
use crate::error::TaskError;
use crate::finished::Finished;

impl<O: ?Sized> Shared<O> {
    /// Why the running task cannot await this one, if it cannot.
    pub(super) fn refuse_awaiting(&self) -> Option<TaskError> {
        let running = current::running()?;
        if !ptr::eq(&*running, self.home.as_ptr()) {
            return Some(TaskError::WrongLoop);
        }
        let itself = running_task(running.id) == Some(self.key());
        itself.then_some(TaskError::AwaitsItself)
    }

    /// Has `waker` woken at the end; see [`Waiters::register`](crate::waiters::Waiters::register).
    pub(super) fn register(&self, waiter: &mut Option<u64>, waker: &Waker) {
        let home = current::running_is(self.home.as_ptr()).unwrap_or(0);
        self.to_be_told().register(home, waiter, waker);
    }
}

impl<T: 'static> Task<T> {
    /// Has the task note its end under `number`: at once if it has ended. What comes back is for
    /// [`leave`](Self::leave).
    pub(crate) fn enter(&self, finished: &Rc<Finished>, number: usize) -> Option<u64> {
        if self.is_done() {
            finished.add(number, None);
            return None;
        }
        Some(self.join.to_be_told().add_member(finished.clone(), number))
    }

    pub(crate) fn leave(&self, place: u64) {
        self.join.waiters().deregister(place);
    }

    /// As [`Shared::refuse_awaiting`]; a task that has ended can be awaited anywhere.
    pub(crate) fn refuse_awaiting(&self) -> Option<TaskError> {
        if self.is_done() { None } else { self.join.refuse_awaiting() }
    }

    /// From now on its handle counts as awaited.
    pub(crate) fn mark_awaited(&self) {
        self.join.set(POLLED);
    }

    /// Lets the task run on, and what becomes of it counts as read.
    pub(crate) fn ignore(self) {
        self.join.set(IGNORED);
        if self.is_done() {
            drop(self.take_result());
        }
        self.detach();
    }

    /// Queues `take` with the task at its end. If the loop closes first, both are dropped.
    pub(crate) fn hand_over(
        self,
        site: &'static Location<'static>,
        take: impl FnOnce(Self) + 'static,
    ) {
        let join = self.join.clone();
        join.add_callback(Handle::once_at(site, None, move || take(self)));
    }

    pub(crate) fn key(&self) -> TaskKey {
        self.join.key()
    }

    /// Whether the task has ended with a panic, with its loop, or with a value that `is_err` says is an
    /// error. A cancelled task has not failed.
    pub(crate) fn has_failed(&self, is_err: fn(&T) -> bool) -> bool {
        self.join.has(DONE)
            && self.join.look(|outcome| match outcome {
                Some(Ok(value)) => is_err(value),
                Some(Err(error)) => !error.is_cancelled(),
                None => false,
            })
    }
}
