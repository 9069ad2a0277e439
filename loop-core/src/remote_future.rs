//! `Remote::spawn` and `RemoteFuture`: a task started from another thread, and its outcome there.

use std::error::Error;
use std::fmt;
use std::future::Future;
use std::io;
use std::panic::Location;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use crate::current;
use crate::error::{Closed, Elapsed, PanicError, TaskError};
use crate::loop_ref::LoopRef;
use crate::remote::Remote;
use crate::report::{ExceptionContext, Failure, write_line};
use crate::task::{self, Task, TaskBuilder, TaskKey};

/// What the two sides share. No code of a user's runs under the lock.
struct Shared<T> {
    state: Mutex<State<T>>,
    done: Condvar,
}

struct State<T> {
    outcome: Outcome<T>,
    /// Once the task is started.
    task: Option<TaskKey>,
    cancelled: bool,
}

enum Outcome<T> {
    Pending(Option<Waker>),
    Done(Result<T, TaskError>),
    /// It was taken, or nobody wants it any more.
    Over,
}

impl<T> State<T> {
    fn is_pending(&self) -> bool {
        matches!(self.outcome, Outcome::Pending(_))
    }
}

impl<T> Shared<T> {
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stores the outcome and tells who waits; what nobody wants comes back.
    fn complete(&self, outcome: Result<T, TaskError>) -> Option<Result<T, TaskError>> {
        let mut state = self.lock();
        let Outcome::Pending(waker) = &mut state.outcome else { return Some(outcome) };
        let waker = waker.take();
        state.outcome = Outcome::Done(outcome);
        drop(state);
        self.done.notify_all();
        if let Some(waker) = waker {
            waker.wake();
        }
        None
    }

    fn take(state: &mut State<T>) -> Result<T, TaskError> {
        match std::mem::replace(&mut state.outcome, Outcome::Over) {
            Outcome::Done(outcome) => outcome,
            _ => panic!("the outcome of a remote future was taken before"),
        }
    }

    fn is_cancelled(&self) -> bool {
        self.lock().cancelled
    }

    /// On the loop's thread: asks the task to end, if it was started. Whether anybody still wants its outcome
    /// does not matter.
    fn cancel(&self) {
        let Some(key) = self.lock().task else { return };
        if let Some(task) = task::find(&LoopRef::current().inner, key) {
            task.cancel();
        }
    }
}

/// The loop's side: dropped with the outcome unset, it says that the loop has closed (B-RCT-04).
struct Promise<T> {
    shared: Arc<Shared<T>>,
    remote: Remote,
}

impl<T: Send + 'static> Promise<T> {
    /// On the loop's thread: starts the task, unless it was cancelled before.
    fn start<F, Fut>(self, site: &'static Location<'static>, f: F)
    where
        F: FnOnce() -> Fut + 'static,
        Fut: Future<Output = T> + 'static,
    {
        if self.shared.is_cancelled() {
            self.fulfil(Err(TaskError::Cancelled { reason: None }));
            return;
        }
        let task = TaskBuilder::new().spawn_at(&LoopRef::current(), site, async { f().await });
        self.shared.lock().task = Some(task.key());
        // A request that came meanwhile has not found the key.
        if self.shared.is_cancelled() {
            task.cancel();
        }
        task.hand_over(site, move |task: Task<T>| {
            if let Some(outcome) = task.take_result() {
                self.fulfil(outcome);
            }
        });
    }
}

impl<T> Promise<T> {
    fn fulfil(&self, outcome: Result<T, TaskError>) {
        if let Some(Err(TaskError::Panicked(panic))) = self.shared.complete(outcome) {
            report_unread(&self.remote, panic);
        }
    }
}

impl<T> Drop for Promise<T> {
    fn drop(&mut self) {
        drop(self.shared.complete(Err(TaskError::Closed)));
    }
}

/// Reports a panic that nobody will read, to standard error if the loop is gone.
fn report_unread(remote: &Remote, panic: PanicError) {
    let context = move |panic| {
        ExceptionContext::new("task panicked and nobody awaited it")
            .with_failure(Failure::Panic(panic))
    };
    let again = panic.clone();
    if remote.call_soon(move || LoopRef::current().report(&context(panic))).is_err() {
        write_line(&context(again));
    }
}

impl Remote {
    /// Starts a task on the loop from any thread; asyncio's `run_coroutine_threadsafe`.
    ///
    /// `f` is called on the loop's thread, inside the task, in the context current here; the future it makes
    /// stays there and need not be `Send`. What comes back can block for the outcome or be awaited, on this loop
    /// or in any other runtime.
    ///
    /// ```
    /// # use loop_core::{EventLoop, sleep};
    /// # use std::{rc::Rc, time::Duration};
    /// let mut event_loop = EventLoop::new()?;
    /// let remote = event_loop.remote();
    /// let thread = std::thread::spawn(move || {
    ///     let mut answer = remote.spawn(|| async {
    ///         let not_send = Rc::new(42);
    ///         sleep(Duration::from_millis(1)).await;
    ///         *not_send
    ///     }).unwrap();
    ///     assert_eq!(answer.wait().unwrap(), 42);
    ///     remote.stop().unwrap();
    /// });
    /// event_loop.run_forever()?;
    /// thread.join().unwrap();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Closed`], with `f`, if the loop is closed. If it closes later, the outcome is [`TaskError::Closed`].
    #[track_caller]
    pub fn spawn<F, Fut>(&self, f: F) -> Result<RemoteFuture<Fut::Output>, Closed<F>>
    where
        F: FnOnce() -> Fut + Send + 'static,
        Fut: Future + 'static,
        Fut::Output: Send + 'static,
    {
        if self.is_closed() {
            return Err(Closed(f));
        }
        let site = Location::caller();
        let state = State { outcome: Outcome::Pending(None), task: None, cancelled: false };
        let shared = Arc::new(Shared { state: Mutex::new(state), done: Condvar::new() });
        let promise = Promise { shared: shared.clone(), remote: self.clone() };
        // A refused call gives its closure back, but not what is inside that.
        let slot = Arc::new(Mutex::new(Some(f)));
        let offered = slot.clone();
        let take =
            |slot: &Mutex<Option<F>>| slot.lock().unwrap_or_else(PoisonError::into_inner).take();
        let call = self.call_soon(move || {
            if let Some(f) = take(&offered) {
                promise.start(site, f);
            }
        });
        if call.is_err() {
            if let Some(f) = take(&slot) {
                return Err(Closed(f));
            }
        }
        Ok(RemoteFuture { shared, remote: self.clone() })
    }
}

/// The outcome of a task that runs on a loop, seen from any thread; from [`Remote::spawn`].
///
/// It is `Send` and `Sync`. Dropping it lets the task run on: only [`cancel`](Self::cancel) asks it to end.
#[must_use = "dropping it detaches the task; `cancel` ends it"]
pub struct RemoteFuture<T> {
    shared: Arc<Shared<T>>,
    remote: Remote,
}

/// Why waiting for a [`RemoteFuture`] gave no value.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum RemoteError {
    /// The task ended without one.
    Task(TaskError),
    /// The time was up first. The task runs on, and may be waited for again.
    Elapsed,
    /// The loop lives on the thread that would wait, so it could never get on (B-RCT-03). Await the future
    /// instead.
    Deadlock,
}

impl fmt::Display for RemoteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RemoteError::Task(error) => error.fmt(f),
            RemoteError::Elapsed => Elapsed.fmt(f),
            RemoteError::Deadlock => {
                f.write_str("waiting on the thread of the event loop would never end")
            }
        }
    }
}

impl Error for RemoteError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            RemoteError::Task(error) => error.source(),
            RemoteError::Elapsed | RemoteError::Deadlock => None,
        }
    }
}

impl From<RemoteError> for io::Error {
    fn from(error: RemoteError) -> io::Error {
        match error {
            RemoteError::Task(error) => error.into(),
            RemoteError::Elapsed => Elapsed.into(),
            RemoteError::Deadlock => io::Error::new(io::ErrorKind::Deadlock, error),
        }
    }
}

impl<T> RemoteFuture<T> {
    /// Blocks this thread until the task has ended.
    ///
    /// # Errors
    /// [`RemoteError::Task`], or [`RemoteError::Deadlock`] at once on the loop's own thread; the outcome can be
    /// had later then.
    ///
    /// # Panics
    /// If the outcome was taken before, by a wait or by awaiting.
    pub fn wait(&mut self) -> Result<T, RemoteError> {
        self.wait_until(|shared, state| {
            let pending = |state: &mut State<T>| state.is_pending();
            shared.done.wait_while(state, pending).unwrap_or_else(PoisonError::into_inner)
        })
    }

    /// Blocks this thread until the task has ended, or for `limit`.
    ///
    /// # Errors
    /// As [`wait`](Self::wait), and [`RemoteError::Elapsed`] (B-RCT-02).
    ///
    /// # Panics
    /// As [`wait`](Self::wait).
    pub fn wait_timeout(&mut self, limit: Duration) -> Result<T, RemoteError> {
        self.wait_until(|shared, state| {
            let pending = |state: &mut State<T>| state.is_pending();
            let waited = shared.done.wait_timeout_while(state, limit, pending);
            waited.unwrap_or_else(PoisonError::into_inner).0
        })
    }

    fn wait_until(
        &mut self,
        wait: impl for<'a> FnOnce(&'a Shared<T>, MutexGuard<'a, State<T>>) -> MutexGuard<'a, State<T>>,
    ) -> Result<T, RemoteError> {
        let mut state = self.shared.lock();
        if state.is_pending() {
            if current::find(self.remote.inbox.loop_id).is_some() {
                return Err(RemoteError::Deadlock);
            }
            state = wait(&self.shared, state);
        }
        if state.is_pending() {
            return Err(RemoteError::Elapsed);
        }
        Shared::take(&mut state).map_err(RemoteError::Task)
    }

    /// Whether the task has ended: waiting and awaiting return at once.
    pub fn is_done(&self) -> bool {
        !self.shared.lock().is_pending()
    }
}

impl<T: Send + 'static> RemoteFuture<T> {
    /// Asks the task to end, as [`Task::cancel`](crate::Task::cancel); one that was not started never is. `false`
    /// if it has ended already. The outcome still has to be waited for.
    pub fn cancel(&self) -> bool {
        {
            let mut state = self.shared.lock();
            if !state.is_pending() {
                return false;
            }
            state.cancelled = true;
        }
        let shared = self.shared.clone();
        // A loop that closes ends the task anyhow.
        let _ = self.remote.call_soon(move || shared.cancel());
        true
    }
}

impl<T> Future for RemoteFuture<T> {
    type Output = Result<T, TaskError>;

    /// # Panics
    /// If the outcome was taken before, by a wait or by awaiting.
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let new = cx.waker().clone();
        let mut state = self.shared.lock();
        let Outcome::Pending(waker) = &mut state.outcome else {
            return Poll::Ready(Shared::take(&mut state));
        };
        let old = waker.replace(new);
        drop(state);
        drop(old);
        Poll::Pending
    }
}

impl<T> Drop for RemoteFuture<T> {
    fn drop(&mut self) {
        let old = std::mem::replace(&mut self.shared.lock().outcome, Outcome::Over);
        if let Outcome::Done(Err(TaskError::Panicked(panic))) = old {
            report_unread(&self.remote, panic);
        }
    }
}

impl<T> fmt::Debug for RemoteFuture<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteFuture").field("done", &self.is_done()).finish()
    }
}
