//! `Watch`: waiting for a task's end without owning it.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use super::handle::Task;
use super::join::AnyJoin;
use super::state::DONE;
use super::task_ref::{TaskRef, fmt_task};
use crate::error::TaskError;

impl<T: 'static> Task<T> {
    /// Waits for the task's end and leaves its outcome where it is; any number may watch.
    ///
    #[doc = lost!(watch)]
    ///
    /// ```
    /// # use loop_core::{run, sleep, spawn, timeout};
    /// # use std::time::Duration;
    /// # run(async {
    /// let task = spawn(async { sleep(Duration::from_millis(5)).await; 42 });
    /// let brief = timeout(Duration::from_millis(1), task.watch()).await;
    /// assert!(brief.is_err());
    /// task.watch().await;
    /// assert_eq!(task.take_result().unwrap().unwrap(), 42);
    /// # }).unwrap();
    /// ```
    pub fn watch(&self) -> Watch {
        Watch { join: self.join.clone(), waiter: None }
    }
}

impl TaskRef {
    /// As [`Task::watch`](crate::Task::watch).
    pub fn watch(&self) -> Watch {
        Watch { join: self.join.clone(), waiter: None }
    }
}

/// The future of [`Task::watch`](crate::Task::watch).
#[must_use = "futures do nothing unless they are awaited"]
pub struct Watch {
    join: Rc<AnyJoin>,
    waiter: Option<u64>,
}

impl Future for Watch {
    type Output = ();

    /// # Panics
    /// If a task watches itself: it would wait for ever.
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let Watch { join, waiter } = self.get_mut();
        if join.has(DONE) {
            return Poll::Ready(());
        }
        if let Some(error @ TaskError::AwaitsItself) = join.refuse_awaiting() {
            panic!("{error}");
        }
        join.register(waiter, cx.waker());
        Poll::Pending
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if let Some(waiter) = self.waiter.take() {
            self.join.waiters().deregister(waiter);
        }
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt_task(f, "Watch", &self.join)
    }
}
