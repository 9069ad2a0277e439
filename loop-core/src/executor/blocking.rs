//! `BlockingTask`: the loop's side of a job.

use std::fmt;
use std::future::Future;
use std::panic::{self, AssertUnwindSafe, Location};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use loop_handle::Snapshot;

use super::pool::{Executor, Job};
use crate::awaited::Awaited;
use crate::error::{PanicError, TaskError};
use crate::introspect::WaitsFor;
use crate::loop_ref::LoopRef;

/// What loop and thread share. The closure is taken out by whoever comes first: the thread that runs it or
/// the task that gives it up.
struct Shared<F, T> {
    /// Where it was asked for.
    site: &'static Location<'static>,
    state: Mutex<State<F, T>>,
}

impl<F, T> Awaited for Shared<F, T> {
    fn each_wait(&self, visit: &mut dyn FnMut(&Waker, WaitsFor)) {
        if let State::Queued { waker: Some(waker), .. } | State::Running { waker: Some(waker) } =
            &*self.lock()
        {
            visit(waker, WaitsFor::object("blocking work", self.site));
        }
    }
}

enum State<F, T> {
    Queued {
        closure: F,
        waker: Option<Waker>,
    },
    Running {
        waker: Option<Waker>,
    },
    Done(Result<T, TaskError>),
    /// The outcome was taken, or nobody wants it any more.
    Over,
}

impl<F, T> Shared<F, T> {
    fn lock(&self) -> MutexGuard<'_, State<F, T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<F: FnOnce() -> T, T> Shared<F, T> {
    /// On the thread. No lock is held while the closure runs or anything of a user's is dropped.
    fn run(&self, context: &Snapshot) {
        let mut state = self.lock();
        let closure = match std::mem::replace(&mut *state, State::Over) {
            State::Queued { closure, waker } => {
                *state = State::Running { waker };
                closure
            }
            other => {
                *state = other;
                return;
            }
        };
        drop(state);
        let outcome = panic::catch_unwind(AssertUnwindSafe(|| context.run(closure)))
            .map_err(|payload| TaskError::Panicked(PanicError::new(payload)));
        let mut state = self.lock();
        let unwanted = match &mut *state {
            State::Running { waker } => {
                let waker = waker.take();
                *state = State::Done(outcome);
                drop(state);
                if let Some(waker) = waker {
                    waker.wake();
                }
                return;
            }
            _ => outcome,
        };
        drop(state);
        // Nobody is left to see it: it goes quietly, its destructor's panic included (B-EXE-02).
        drop(panic::catch_unwind(AssertUnwindSafe(|| drop(unwanted))));
    }
}

/// A job on its way to a thread.
struct Unrun<F, T>(Arc<Shared<F, T>>);

impl<F, T> Drop for Unrun<F, T> {
    /// If its executor drops it, who waits for it is told. No lock is held while the waker is woken or the closure
    /// is dropped.
    fn drop(&mut self) {
        let mut state = self.0.lock();
        if !matches!(*state, State::Queued { .. }) {
            return;
        }
        let reason = Some(Arc::from("the executor dropped the job without running it"));
        let lost = State::Done(Err(TaskError::Cancelled { reason }));
        let queued = std::mem::replace(&mut *state, lost);
        drop(state);
        let State::Queued { closure, waker } = queued else { unreachable!("just matched") };
        if let Some(waker) = waker {
            waker.wake();
        }
        drop(closure);
    }
}

/// The part that does not know the closure's type.
trait Outcome<T>: Send + Sync {
    fn poll(&self, cx: &mut Context<'_>) -> Poll<Result<T, TaskError>>;
    /// Prevents a job that has not started, and forgets the outcome of one that has.
    fn give_up(&self);
}

impl<F: Send, T: Send> Outcome<T> for Shared<F, T> {
    fn poll(&self, cx: &mut Context<'_>) -> Poll<Result<T, TaskError>> {
        let new = cx.waker().clone();
        let mut state = self.lock();
        let old = match &mut *state {
            State::Queued { waker, .. } | State::Running { waker } => waker.replace(new),
            State::Done(_) => {
                let done = std::mem::replace(&mut *state, State::Over);
                drop(state);
                let State::Done(outcome) = done else { unreachable!("just matched") };
                return Poll::Ready(outcome);
            }
            State::Over => panic!("a blocking task was awaited after its outcome was taken"),
        };
        drop(state);
        drop(old);
        Poll::Pending
    }

    fn give_up(&self) {
        let old = std::mem::replace(&mut *self.lock(), State::Over);
        drop(old);
    }
}

/// A closure that runs on another thread; awaiting it gives what it returned.
///
/// A panic of the closure is [`TaskError::Panicked`] (B-EXE-03). If an executor of your own drops the job without
/// running it, that is [`TaskError::Cancelled`], and the reason says so.
///
#[doc = lost!(blocking)]
#[must_use = "dropping it may prevent the closure from running"]
pub struct BlockingTask<T> {
    /// The `Err` of a job that no executor took, until it is read.
    outcome: Result<Arc<dyn Outcome<T>>, Option<TaskError>>,
}

impl<T> Future for BlockingTask<T> {
    type Output = Result<T, TaskError>;

    /// # Panics
    /// If polled again after it gave its outcome.
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut self.outcome {
            Ok(outcome) => outcome.poll(cx),
            Err(error) => {
                let error = error.take();
                Poll::Ready(Err(error.expect("a blocking task was awaited after its end")))
            }
        }
    }
}

impl<T> Drop for BlockingTask<T> {
    fn drop(&mut self) {
        if let Ok(outcome) = &self.outcome {
            outcome.give_up();
        }
    }
}

impl<T> fmt::Debug for BlockingTask<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BlockingTask").field("refused", &self.outcome.is_err()).finish()
    }
}

impl LoopRef {
    /// Runs `f` on a thread of the loop's own pool, in a copy of the context current now; asyncio's
    /// `run_in_executor`. The pool is made with the first call: as many threads as there are processors
    /// and four more, 32 at the most (B-EXE-01, B-EXE-08).
    ///
    /// ```
    /// # use loop_core::{run, LoopRef};
    /// # run(async {
    /// let sum = LoopRef::current().run_blocking(|| (1..=100).sum::<u32>()).await;
    /// assert_eq!(sum.unwrap(), 5050);
    /// # }).unwrap();
    /// ```
    ///
    /// After [`shutdown_default_executor`](Self::shutdown_default_executor), or on a closed loop, `f` is
    /// dropped and awaiting gives [`TaskError::Closed`] (B-EXE-05).
    #[track_caller]
    pub fn run_blocking<F, T>(&self, f: F) -> BlockingTask<T>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        match self.default_executor() {
            Some(pool) => self.run_blocking_on(&*pool, f),
            None => BlockingTask { outcome: Err(Some(TaskError::Closed)) },
        }
    }

    /// [`run_blocking`](Self::run_blocking) on an executor of your own.
    #[track_caller]
    pub fn run_blocking_on<F, T>(
        &self,
        executor: &(impl Executor + ?Sized),
        f: F,
    ) -> BlockingTask<T>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        let state = State::Queued { closure: f, waker: None };
        let shared = Arc::new(Shared { site: Location::caller(), state: Mutex::new(state) });
        let (job, context) = (Unrun(shared.clone()), Snapshot::current());
        let listed = Arc::downgrade(&shared);
        self.inner.jobs.borrow_mut().add(listed);
        let hold = self.hold_time();
        let job: Job = Box::new(move || {
            job.0.run(&context);
            drop(hold);
        });
        match executor.execute(job) {
            Ok(()) => BlockingTask { outcome: Ok(shared) },
            Err(refused) => {
                drop(refused);
                BlockingTask { outcome: Err(Some(TaskError::Closed)) }
            }
        }
    }
}

/// [`LoopRef::run_blocking`] on the loop that runs on this thread; asyncio's `to_thread`.
///
/// # Panics
/// If no loop runs on this thread.
#[track_caller]
pub fn to_thread<F, T>(f: F) -> BlockingTask<T>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    LoopRef::current().run_blocking(f)
}
