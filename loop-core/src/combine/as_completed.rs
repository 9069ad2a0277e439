//! `as_completed`: tasks in the order in which they end.

use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_core::Stream;

use super::children::Children;
use crate::error::Elapsed;
use crate::sleep::{Sleep, sleep};
use crate::task::Task;

/// Hands tasks back as they end, those that ended first first; asyncio's `as_completed`.
///
/// ```
/// # use loop_core::{as_completed, run, sleep, spawn};
/// # use std::time::Duration;
/// # run(async {
/// let tasks = [3, 1, 2].map(|n| {
///     spawn(async move {
///         sleep(Duration::from_millis(10 * n)).await;
///         n
///     })
/// });
/// let mut order = Vec::new();
/// let mut ended = as_completed(tasks);
/// while let Some(task) = ended.next().await {
///     order.push(task.await.unwrap()); // does not wait: it has ended
/// }
/// assert_eq!(order, [1, 2, 3]);
/// # }).unwrap();
/// ```
///
/// What comes back is the very task that went in (B-ASC-02). Dropping the stream asks no task to end: it
/// detaches those not handed back; [`into_rest`](AsCompleted::into_rest) gives them back instead.
pub fn as_completed<T: 'static>(tasks: impl IntoIterator<Item = Task<T>>) -> AsCompleted<T> {
    AsCompleted { children: Children::new(tasks) }
}

/// The stream of [`as_completed`].
#[must_use = "streams do nothing unless they are polled"]
pub struct AsCompleted<T: 'static> {
    children: Children<T>,
}

impl<T: 'static> AsCompleted<T> {
    /// The next task to end; `None` once all were handed back.
    ///
    #[doc = lost!(as_completed_next)]
    pub async fn next(&mut self) -> Option<Task<T>> {
        poll_fn(|cx| Pin::new(&mut *self).poll_next(cx)).await
    }

    /// Gives up after `limit`, counted from the first poll.
    pub fn timeout(self, limit: Duration) -> AsCompletedWithin<T> {
        AsCompletedWithin { tasks: self, limit: Some(sleep(limit)), late: Vec::new(), told: 0 }
    }

    /// The tasks that were not handed back, in the order in which they were given.
    pub fn into_rest(mut self) -> Vec<Task<T>> {
        self.children.take_rest().into_iter().map(|(_, task)| task).collect()
    }
}

impl<T: 'static> Stream for AsCompleted<T> {
    type Item = Task<T>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Task<T>>> {
        self.children.poll_next(cx).map(|ended| ended.map(|(_, task)| task))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.children.left(), Some(self.children.left()))
    }
}

impl<T: 'static> Drop for AsCompleted<T> {
    fn drop(&mut self) {
        self.children.detach_rest();
    }
}

impl<T: 'static> fmt::Debug for AsCompleted<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AsCompleted").field("left", &self.children.left()).finish()
    }
}

/// The stream of [`as_completed`] with a time limit; from [`AsCompleted::timeout`].
///
/// Once the time is up it gives what has ended until then, and [`Elapsed`] once for each task that has not
/// (B-ASC-03). Those run on; [`into_rest`](Self::into_rest) gives them back.
#[must_use = "streams do nothing unless they are polled"]
pub struct AsCompletedWithin<T: 'static> {
    tasks: AsCompleted<T>,
    /// `None` once it is not needed any more.
    limit: Option<Sleep>,
    /// Those that had not ended when the time was up.
    late: Vec<Task<T>>,
    /// For how many of them `Elapsed` was given.
    told: usize,
}

impl<T: 'static> AsCompletedWithin<T> {
    /// The next task to end, or [`Elapsed`] in place of one that did not in time; `None` once there was one
    /// or the other for every task.
    ///
    #[doc = lost!(as_completed_within_next)]
    pub async fn next(&mut self) -> Option<Result<Task<T>, Elapsed>> {
        poll_fn(|cx| Pin::new(&mut *self).poll_next(cx)).await
    }

    /// The tasks that were not handed back, in the order in which they were given.
    pub fn into_rest(mut self) -> Vec<Task<T>> {
        let mut rest = std::mem::take(&mut self.late);
        rest.extend(self.tasks.children.take_rest().into_iter().map(|(_, task)| task));
        rest
    }
}

impl<T: 'static> Stream for AsCompletedWithin<T> {
    type Item = Result<Task<T>, Elapsed>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        if let Poll::Ready(ended) = Pin::new(&mut this.tasks).poll_next(cx) {
            if this.tasks.children.left() == 0 {
                this.limit = None;
            }
            if let Some(task) = ended {
                return Poll::Ready(Some(Ok(task)));
            }
        }
        if let Some(limit) = &mut this.limit {
            if Pin::new(limit).poll_limit(cx).is_pending() {
                return Poll::Pending;
            }
            this.limit = None;
            let rest = this.tasks.children.take_rest();
            this.late = rest.into_iter().map(|(_, task)| task).collect();
        }
        let more = this.told < this.late.len();
        this.told += usize::from(more);
        Poll::Ready(more.then_some(Err(Elapsed)))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.tasks.children.left() + self.late.len() - self.told;
        (left, Some(left))
    }
}

impl<T: 'static> Drop for AsCompletedWithin<T> {
    fn drop(&mut self) {
        self.late.drain(..).for_each(Task::detach);
    }
}

impl<T: 'static> fmt::Debug for AsCompletedWithin<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AsCompletedWithin")
            .field("left", &self.tasks.children.left())
            .field("late", &self.late.len())
            .finish()
    }
}
