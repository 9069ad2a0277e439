//! `wait`: until one, or some, or all tasks have ended.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use super::children::Children;
use crate::sleep::{Sleep, sleep};
use crate::task::Task;

/// Waits for tasks without taking anything from them; asyncio's `wait`.
///
/// ```
/// # use loop_core::{run, sleep, spawn, wait, WaitUntil};
/// # use std::time::Duration;
/// # run(async {
/// let tasks = [1, 3600].map(|seconds| spawn(sleep(Duration::from_millis(seconds))));
/// let waited = wait(tasks)
///     .until(WaitUntil::FirstCompleted)
///     .timeout(Duration::from_secs(60))
///     .await;
/// assert_eq!((waited.done.len(), waited.pending.len()), (1, 1));
/// # }).unwrap();
/// ```
///
/// It waits for all of them unless [`until`](Wait::until) says otherwise. No task at all is nothing to
/// wait for: it gives two empty lists at once (B-WAIT-01).
///
#[doc = lost!(wait)]
pub fn wait<T: 'static>(tasks: impl IntoIterator<Item = Task<T>>) -> Wait<T> {
    Wait {
        children: Children::new(tasks),
        done: Vec::new(),
        until: WaitUntil::AllCompleted,
        timeout: None,
        is_err: |_| false,
    }
}

/// What ends a [`wait`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WaitUntil {
    /// A task has ended, however it did (B-WAIT-03).
    FirstCompleted,
    /// A task has panicked, or all have ended. A cancelled task does not count (B-WAIT-04); an `Err` does
    /// after [`Wait::count_errors`].
    FirstException,
    /// All tasks have ended.
    #[default]
    AllCompleted,
}

/// The outcome of a [`wait`]. Both lists are in the order in which the tasks were given.
pub struct Waited<T: 'static> {
    /// The tasks that have ended: all that had when the wait did.
    pub done: Vec<Task<T>>,
    /// The others, which run on.
    pub pending: Vec<Task<T>>,
}

impl<T: 'static> fmt::Debug for Waited<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Waited { done, pending } = self;
        f.debug_struct("Waited").field("done", done).field("pending", pending).finish()
    }
}

/// The future of [`wait`].
#[must_use = "futures do nothing unless they are awaited"]
pub struct Wait<T: 'static> {
    children: Children<T>,
    done: Vec<(usize, Task<T>)>,
    until: WaitUntil,
    timeout: Option<Sleep>,
    is_err: fn(&T) -> bool,
}

impl<T: 'static> Wait<T> {
    /// Says what ends the wait.
    pub fn until(mut self, until: WaitUntil) -> Self {
        self.until = until;
        self
    }

    /// Ends the wait after `limit` at the latest, counted from the first poll.
    pub fn timeout(mut self, limit: Duration) -> Self {
        self.timeout = Some(sleep(limit));
        self
    }

    /// Whether the wait is over, given those that have ended just now.
    fn is_over(&self, new: &[(usize, Task<T>)]) -> bool {
        self.children.left() == 0
            || match self.until {
                WaitUntil::FirstCompleted => !new.is_empty(),
                WaitUntil::FirstException => {
                    new.iter().any(|(_, task)| task.has_failed(self.is_err))
                }
                WaitUntil::AllCompleted => false,
            }
    }
}

impl<T: 'static, E: 'static> Wait<Result<T, E>> {
    /// Makes an `Err` that a task gives count for [`WaitUntil::FirstException`] too.
    pub fn count_errors(mut self) -> Self {
        self.is_err = Result::is_err;
        self
    }
}

impl<T: 'static> Future for Wait<T> {
    type Output = Waited<T>;

    /// Polled again after its end it gives two empty lists.
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Waited<T>> {
        let this = self.get_mut();
        let known = this.done.len();
        while let Poll::Ready(Some(ended)) = this.children.poll_next(cx) {
            this.done.push(ended);
        }
        if !this.is_over(&this.done[known..]) {
            let Some(timeout) = &mut this.timeout else { return Poll::Pending };
            ready!(Pin::new(timeout).poll_limit(cx));
        }
        this.timeout = None;
        this.done.sort_unstable_by_key(|(number, _)| *number);
        let without_number = |tasks: Vec<(usize, Task<T>)>| {
            tasks.into_iter().map(|(_, task)| task).collect::<Vec<_>>()
        };
        let done = without_number(std::mem::take(&mut this.done));
        Poll::Ready(Waited { done, pending: without_number(this.children.take_rest()) })
    }
}

impl<T: 'static> Drop for Wait<T> {
    fn drop(&mut self) {
        self.children.detach_rest();
    }
}

impl<T: 'static> fmt::Debug for Wait<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wait")
            .field("until", &self.until)
            .field("done", &self.done.len())
            .field("left", &self.children.left())
            .finish()
    }
}
