//! Blocking work, on threads of its own.

mod blocking;
mod default_pool;
mod jobs;
mod pool;

pub(crate) use default_pool::DefaultPool;
pub(crate) use jobs::Jobs;

pub use blocking::{BlockingTask, to_thread};
pub use default_pool::ExecutorTimeout;
pub use pool::{Executor, Job, Refused, ThreadPool};
