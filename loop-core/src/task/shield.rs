//! `shield`: awaiting a task without passing one's own end on to it.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use super::handle::Task;
use crate::error::TaskError;

/// Awaits `task`; if the awaiting code is cancelled or dropped, the task runs on; asyncio's `shield`.
///
#[doc = lost!(shield)]
///
/// A cancelled, failed or finished task gives its own outcome. A panic that nobody is left to see is
/// reported (B-SHLD-01 to B-SHLD-05). To come back to the task's value later, keep the task and await its
/// [`watch`](Task::watch) instead.
///
/// ```
/// # use loop_core::{run, shield, sleep, spawn, timeout};
/// # use std::time::Duration;
/// # run(async {
/// let saving = spawn(async {
///     sleep(Duration::from_millis(5)).await;
///     println!("saved");
/// });
/// let saved = saving.task_ref();
/// assert!(timeout(Duration::from_millis(1), shield(saving)).await.is_err());
/// saved.watch().await;
/// assert!(!saved.is_cancelled());
/// # }).unwrap();
/// ```
pub fn shield<T: 'static>(task: Task<T>) -> Shield<T> {
    Shield { task: Some(task) }
}

/// The future of [`shield`].
#[must_use = "futures do nothing unless they are awaited"]
pub struct Shield<T: 'static> {
    task: Option<Task<T>>,
}

impl<T: 'static> Future for Shield<T> {
    type Output = Result<T, TaskError>;

    /// # Panics
    /// If polled again after it gave the outcome.
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let task = self.get_mut().task.as_mut().expect("a shield has its task until it is dropped");
        Pin::new(task).poll(cx)
    }
}

impl<T: 'static> Drop for Shield<T> {
    fn drop(&mut self) {
        if let Some(task) = self.task.take() {
            task.detach();
        }
    }
}

impl<T: 'static> fmt::Debug for Shield<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Shield").field(&self.task).finish()
    }
}
