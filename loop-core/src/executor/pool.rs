//! `Executor` and `ThreadPool`: where jobs run.

use std::collections::VecDeque;
use std::error::Error;
use std::fmt;
use std::future::poll_fn;
use std::io;
use std::num::NonZeroUsize;
use std::panic::{self, AssertUnwindSafe};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};
use std::thread;

/// A piece of work for a thread.
pub type Job = Box<dyn FnOnce() + Send>;

/// Something that runs jobs on other threads; asyncio's `Executor`. Implement it to bring a pool of your
/// own to [`LoopRef::run_blocking_on`](crate::LoopRef::run_blocking_on).
pub trait Executor {
    /// Runs `job` once, soon, on another thread.
    ///
    /// # Errors
    /// [`Refused`], with the job, if the executor is shut down or no thread can be had.
    fn execute(&self, job: Job) -> Result<(), Refused>;
}

/// An executor did not take a job; it comes back.
pub struct Refused {
    /// The job.
    pub job: Job,
    /// Why not.
    pub error: io::Error,
}

impl fmt::Debug for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Refused").field("error", &self.error).finish_non_exhaustive()
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the executor refused the job: {}", self.error)
    }
}

impl Error for Refused {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.error)
    }
}

/// The job is dropped.
impl From<Refused> for io::Error {
    fn from(refused: Refused) -> io::Error {
        refused.error
    }
}

/// Threads that take jobs from one queue, first come, first served. A thread is started when a job finds
/// none idle, up to the number given; they end with [`shutdown`](Self::shutdown) or when the pool is
/// dropped, after the jobs that are queued.
pub struct ThreadPool {
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
    work: Condvar,
    most: usize,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    threads: usize,
    idle: usize,
    closed: bool,
    /// Who waits for the last thread to end.
    joiner: Option<Waker>,
}

impl Shared {
    /// No code of a user's runs under this lock, so nothing can poison it.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self) {
        let mut state = self.lock();
        loop {
            if let Some(job) = state.jobs.pop_front() {
                drop(state);
                // A job that panics ends itself, not this thread. The panic hook has told of it.
                let _ = panic::catch_unwind(AssertUnwindSafe(job));
                state = self.lock();
            } else if state.closed {
                break;
            } else {
                state.idle += 1;
                state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
                state.idle -= 1;
            }
        }
        state.threads -= 1;
        let joiner = if state.threads == 0 { state.joiner.take() } else { None };
        drop(state);
        if let Some(joiner) = joiner {
            joiner.wake();
        }
    }
}

impl ThreadPool {
    /// A pool of at most `most` threads; none is started yet.
    pub fn new(most: NonZeroUsize) -> Self {
        let shared = Shared { state: Mutex::default(), work: Condvar::new(), most: most.get() };
        ThreadPool { shared: Arc::new(shared) }
    }

    /// How many threads there are now.
    pub fn threads(&self) -> usize {
        self.shared.lock().threads
    }

    /// Refuses jobs from now on. What is queued still runs. Does not wait.
    pub fn shutdown(&self) {
        self.shared.lock().closed = true;
        self.shared.work.notify_all();
    }

    /// Waits, after [`shutdown`](Self::shutdown), until the last thread has ended.
    pub(super) async fn join(&self) {
        poll_fn(|cx| {
            let new = cx.waker().clone();
            let mut state = self.shared.lock();
            if state.threads == 0 {
                return Poll::Ready(());
            }
            let old = state.joiner.replace(new);
            drop(state);
            drop(old);
            Poll::Pending
        })
        .await
    }
}

impl Executor for ThreadPool {
    fn execute(&self, job: Job) -> Result<(), Refused> {
        let mut state = self.shared.lock();
        if state.closed {
            return Err(Refused { job, error: io::Error::other("the thread pool is shut down") });
        }
        // As many idle threads as queued jobs: none is left for this one.
        if state.idle <= state.jobs.len() && state.threads < self.shared.most {
            let shared = self.shared.clone();
            let spawned = thread::Builder::new()
                .name(format!("loop-worker-{}", state.threads + 1))
                .spawn(move || shared.work());
            match spawned {
                Ok(_) => state.threads += 1,
                Err(error) if state.threads == 0 => return Err(Refused { job, error }),
                Err(_) => {} // One that is busy will come to it.
            }
        }
        state.jobs.push_back(job);
        drop(state);
        self.shared.work.notify_one();
        Ok(())
    }
}

impl Drop for ThreadPool {
    fn drop(&mut self) {
        self.shutdown();
    }
}

impl fmt::Debug for ThreadPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.shared.lock();
        f.debug_struct("ThreadPool")
            .field("threads", &state.threads)
            .field("idle", &state.idle)
            .field("queued", &state.jobs.len())
            .field("most", &self.shared.most)
            .field("closed", &state.closed)
            .finish()
    }
}
