//! The pool that a loop makes for itself when it first needs one.

use std::error::Error;
use std::fmt;
use std::io;
use std::num::NonZeroUsize;
use std::rc::Rc;
use std::thread;
use std::time::Duration;

use super::pool::ThreadPool;
use crate::cancel::timeout;
use crate::loop_ref::LoopRef;
use crate::report::ExceptionContext;

/// The loop's own executor.
#[derive(Default)]
pub(crate) enum DefaultPool {
    #[default]
    NotYet,
    Made(Rc<ThreadPool>),
    ShutDown,
}

/// Threads were still at work when the time was up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExecutorTimeout;

impl fmt::Display for ExecutorTimeout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the executor's threads did not end in time")
    }
}

impl Error for ExecutorTimeout {}

impl From<ExecutorTimeout> for io::Error {
    fn from(error: ExecutorTimeout) -> io::Error {
        io::Error::new(io::ErrorKind::TimedOut, error)
    }
}

/// asyncio's number: most of these threads wait for something.
fn threads() -> NonZeroUsize {
    let processors = thread::available_parallelism().map_or(1, NonZeroUsize::get);
    NonZeroUsize::new((processors + 4).min(32)).unwrap_or(NonZeroUsize::MIN)
}

impl LoopRef {
    /// Makes `pool` the one that [`run_blocking`](Self::run_blocking) uses from now on. The one before it
    /// ends once its jobs are done.
    pub fn set_default_executor(&self, pool: ThreadPool) {
        if !self.is_closed() {
            let made = DefaultPool::Made(Rc::new(pool));
            let old = self.inner.executor.replace(made);
            drop(old);
        }
    }

    /// The pool, made if need be; `None` once it is shut down.
    pub(super) fn default_executor(&self) -> Option<Rc<ThreadPool>> {
        if self.is_closed() {
            return None;
        }
        let mut slot = self.inner.executor.borrow_mut();
        if let DefaultPool::NotYet = *slot {
            *slot = DefaultPool::Made(Rc::new(ThreadPool::new(threads())));
        }
        match &*slot {
            DefaultPool::Made(pool) => Some(pool.clone()),
            DefaultPool::NotYet | DefaultPool::ShutDown => None,
        }
    }

    /// Refuses blocking work on the loop's own pool from now on, and waits for what is queued and running
    /// there, without blocking the loop (B-EXE-05, B-EXE-07).
    ///
    #[doc = lost!(shutdown_default_executor)]
    ///
    /// # Errors
    /// [`ExecutorTimeout`] if that takes longer than `limit`; it is also reported as a warning, and the
    /// threads are left to themselves (B-EXE-06).
    pub async fn shutdown_default_executor(
        &self,
        limit: Option<Duration>,
    ) -> Result<(), ExecutorTimeout> {
        let DefaultPool::Made(pool) = self.inner.executor.replace(DefaultPool::ShutDown) else {
            return Ok(());
        };
        pool.shutdown();
        // The threads end after their last job, which holds time no longer then.
        let _hold = self.hold_time();
        let Some(limit) = limit else {
            pool.join().await;
            return Ok(());
        };
        if timeout(limit, pool.join()).await.is_ok() {
            return Ok(());
        }
        let message = "the executor's threads did not end in time and are left to themselves";
        self.report(&ExceptionContext::warning(message));
        Err(ExecutorTimeout)
    }

    pub(crate) fn has_default_executor(&self) -> bool {
        matches!(*self.inner.executor.borrow(), DefaultPool::Made(_))
    }
}
