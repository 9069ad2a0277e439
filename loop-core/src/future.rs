//! `LoopFuture`: a result that somebody else will set.

use std::cell::{Cell, RefCell};
use std::error::Error;
use std::fmt;
use std::future::{Future, poll_fn};
use std::io;
use std::panic::Location;
use std::pin::Pin;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};

use loop_handle::{Handle, Outcome as CallbackOutcome};

use crate::awaited::{Awaited, Listing};
use crate::current;
use crate::error::{FutureError, InvalidState, LoopError};
use crate::guard;
use crate::inner::Inner;
use crate::introspect::WaitsFor;
use crate::loop_ref::LoopRef;
use crate::report::{ExceptionContext, write_line};
use crate::waiters::{CallbackId, Waiters};

/// The error type of a [`LoopFuture`] unless it is given another: any error, cheap to clone.
pub type SharedError = Arc<dyn Error + Send + Sync>;

/// A result that is not there yet: asyncio's `Future`.
///
/// A clone is the same future. Whoever has one may set its result, cancel it, add callbacks or await
/// it; several tasks may await it and are woken in the order in which they came (B-FUT-11). Each gets a clone of
/// the outcome; one that cannot be cloned goes to whoever awaits [`into_result`](Self::into_result). Callbacks
/// are never called inline: they join the ready queue at the moment of completion (B-FUT-05).
///
/// ```
/// # use loop_core::{EventLoop, LoopFuture};
/// # use std::time::Duration;
/// let mut event_loop = EventLoop::new()?;
/// let answer: LoopFuture<u32> = event_loop.create_future();
/// let setter = answer.clone();
/// event_loop.call_later(Duration::from_millis(1), move || setter.set_result(42));
/// assert_eq!(event_loop.run_until_complete(answer)?.unwrap(), 42);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
#[doc = lost!(future)]
///
/// A future whose error nobody has looked at is reported when its last handle is dropped (B-FUT-13).
pub struct LoopFuture<T, E = SharedError> {
    state: Rc<State<T, E>>,
    /// This handle's place among the waiters, once it was polled.
    waiter: Option<u64>,
}

type Show<E> = fn(&E) -> String;

enum Outcome<T, E> {
    Pending,
    Value(T),
    Failed(E),
    Cancelled(Option<Arc<str>>),
    Taken,
}

struct State<T, E> {
    home: Weak<Inner>,
    loop_id: u64,
    site: &'static Location<'static>,
    outcome: RefCell<Outcome<T, E>>,
    /// How to show the error in a report; set together with it. Cleared once the error was looked at.
    unread: Cell<Option<Show<E>>>,
    waiters: Waiters,
    listing: Listing,
}

impl<T, E> Awaited for State<T, E> {
    fn each_wait(&self, visit: &mut dyn FnMut(&Waker, WaitsFor)) {
        let visit = &mut |waker: &Waker| visit(waker, WaitsFor::object("future", self.site));
        self.waiters.each_waker(self.loop_id, visit);
    }
}

/// Why a result was not taken: [`LoopFuture::set_result`], [`LoopFuture::set_error`].
#[derive(PartialEq, Eq)]
#[non_exhaustive]
pub enum CompleteError<V> {
    /// The future is done already; its outcome stays, and the value comes back (B-FUT-02).
    InvalidState(V),
    /// The future took the value, but its loop is closed: callbacks were dropped (B-LOOP-23).
    Closed,
}

impl<V> fmt::Debug for CompleteError<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            CompleteError::InvalidState(_) => "InvalidState(..)",
            CompleteError::Closed => "Closed",
        })
    }
}

impl<V> fmt::Display for CompleteError<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CompleteError::InvalidState(_) => InvalidState.fmt(f),
            CompleteError::Closed => LoopError::Closed.fmt(f),
        }
    }
}

impl<V> Error for CompleteError<V> {}

impl<V> From<CompleteError<V>> for io::Error {
    fn from(error: CompleteError<V>) -> io::Error {
        match error {
            CompleteError::InvalidState(_) => InvalidState.into(),
            CompleteError::Closed => LoopError::Closed.into(),
        }
    }
}

impl LoopRef {
    /// A pending future of this loop; asyncio's `create_future`.
    #[track_caller]
    pub fn create_future<T, E>(&self) -> LoopFuture<T, E> {
        let state = State {
            home: Rc::downgrade(&self.inner),
            loop_id: self.inner.id,
            site: Location::caller(),
            outcome: RefCell::new(Outcome::Pending),
            unread: Cell::new(None),
            waiters: Waiters::default(),
            listing: Listing::new(),
        };
        LoopFuture { state: Rc::new(state), waiter: None }
    }
}

impl<T, E> LoopFuture<T, E> {
    /// Completes the future with a value.
    ///
    /// # Errors
    /// [`CompleteError::InvalidState`] with the value if it is done; [`CompleteError::Closed`] if the
    /// loop is closed and callbacks were waiting.
    pub fn set_result(&self, value: T) -> Result<(), CompleteError<T>> {
        if self.is_done() {
            return Err(CompleteError::InvalidState(value));
        }
        self.complete(Outcome::Value(value))
    }

    /// Completes the future with an error.
    ///
    /// # Errors
    /// As [`set_result`](Self::set_result).
    pub fn set_error(&self, error: E) -> Result<(), CompleteError<E>>
    where
        E: fmt::Debug,
    {
        if self.is_done() {
            return Err(CompleteError::InvalidState(error));
        }
        self.state.unread.set(Some(|error| format!("{error:?}")));
        self.complete(Outcome::Failed(error))
    }

    /// Cancels a pending future, at once. `false` if it is done; that of a failed future silences the
    /// report of its error (B-FUT-03, B-FUT-15).
    pub fn cancel(&self) -> bool {
        self.cancel_reason(None)
    }

    /// [`cancel`](Self::cancel) with a reason for whoever awaits the future.
    pub fn cancel_with(&self, reason: &str) -> bool {
        self.cancel_reason(Some(reason))
    }

    fn cancel_reason(&self, reason: Option<&str>) -> bool {
        if self.is_done() {
            self.state.unread.set(None);
            return false;
        }
        // A closed loop has dropped the callbacks; the cancellation stands all the same.
        self.complete::<()>(Outcome::Cancelled(reason.map(Arc::from))).is_ok() || self.is_done()
    }

    fn complete<V>(&self, outcome: Outcome<T, E>) -> Result<(), CompleteError<V>> {
        *self.state.outcome.borrow_mut() = outcome;
        self.notify()
    }

    fn notify<V>(&self) -> Result<(), CompleteError<V>> {
        let lp = self.state.home.upgrade();
        match self.state.waiters.complete(lp.map(|inner| LoopRef { inner }).as_ref()) {
            true => Err(CompleteError::Closed),
            false => Ok(()),
        }
    }

    /// Whether the future has an outcome.
    pub fn is_done(&self) -> bool {
        !matches!(*self.state.outcome.borrow(), Outcome::Pending)
    }

    /// Whether the future was cancelled.
    pub fn is_cancelled(&self) -> bool {
        matches!(*self.state.outcome.borrow(), Outcome::Cancelled(_))
    }

    /// The outcome, any number of times.
    ///
    /// # Errors
    /// [`FutureError::InvalidState`] while the future is pending or after
    /// [`take_result`](Self::take_result); else what it ended with.
    pub fn result(&self) -> Result<T, FutureError<E>>
    where
        T: Clone,
        E: Clone,
    {
        // Cloning is user code, so the outcome is moved out meanwhile. Code that looks at this very
        // future from inside `clone` finds it taken.
        let outcome = self.state.outcome.replace(Outcome::Taken);
        let result = guard::hold_panic(|| match &outcome {
            Outcome::Value(value) => Ok(value.clone()),
            Outcome::Failed(error) => {
                self.state.unread.set(None);
                Err(FutureError::Failed(error.clone()))
            }
            Outcome::Cancelled(reason) => Err(FutureError::Cancelled { reason: reason.clone() }),
            Outcome::Pending | Outcome::Taken => Err(FutureError::InvalidState),
        });
        self.state.outcome.replace(outcome);
        result.unwrap_or_else(|panic| panic.resume())
    }

    /// Waits for the outcome and takes it out: for one that cannot be cloned, and has one to await it.
    ///
    /// ```
    /// # use loop_core::{LoopFuture, LoopRef, run, spawn};
    /// # use std::os::unix::net::UnixStream;
    /// # run(async {
    /// let connected: LoopFuture<UnixStream> = LoopRef::current().create_future();
    /// let sets = connected.clone();
    /// spawn(async move { sets.set_result(UnixStream::pair().unwrap().0).unwrap() });
    /// let stream: UnixStream = connected.into_result().await.unwrap();
    /// # drop(stream);
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    /// What the future ended with; [`FutureError::InvalidState`] if the outcome was taken by somebody else, and
    /// [`FutureError::WrongLoop`] on another loop.
    ///
    #[doc = lost!(future_into_result)]
    pub async fn into_result(mut self) -> Result<T, FutureError<E>>
    where
        T: 'static,
        E: 'static,
    {
        poll_fn(|cx| self.poll_done(cx)).await?;
        self.take_result()
    }

    fn poll_done(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), FutureError<E>>>
    where
        T: 'static,
        E: 'static,
    {
        let LoopFuture { state, waiter } = self;
        if current::running().is_some_and(|running| running.id != state.loop_id) {
            return Poll::Ready(Err(FutureError::WrongLoop));
        }
        if !matches!(*state.outcome.borrow(), Outcome::Pending) {
            *waiter = None;
            return Poll::Ready(Ok(()));
        }
        state.listing.enter(|| Rc::downgrade(state) as Weak<dyn Awaited>);
        state.waiters.register(state.loop_id, waiter, cx.waker());
        Poll::Pending
    }

    /// Takes the outcome out, for values that cannot be cloned.
    ///
    /// # Errors
    /// As [`result`](Self::result).
    pub fn take_result(&self) -> Result<T, FutureError<E>> {
        if !self.is_done() {
            return Err(FutureError::InvalidState);
        }
        self.state.unread.set(None);
        match self.state.outcome.replace(Outcome::Taken) {
            Outcome::Value(value) => Ok(value),
            Outcome::Failed(error) => Err(FutureError::Failed(error)),
            Outcome::Cancelled(reason) => {
                self.state.outcome.replace(Outcome::Cancelled(reason.clone()));
                Err(FutureError::Cancelled { reason })
            }
            Outcome::Pending | Outcome::Taken => Err(FutureError::InvalidState),
        }
    }

    /// Queues `callback` on completion, at once if the future is done, in the context current now
    /// (B-FUT-06, B-FUT-10).
    #[track_caller]
    pub fn add_done_callback<F, R>(&self, callback: F) -> CallbackId
    where
        F: FnOnce() -> R + 'static,
        R: CallbackOutcome,
    {
        let handle = Handle::once_at(Location::caller(), None, callback);
        let id = self.state.waiters.add_callback(handle);
        if self.is_done() {
            let _ = self.notify::<()>(); // A closed loop drops the callback: nothing to tell.
        }
        id
    }

    /// Removes a callback that is not queued yet; whether it did (B-FUT-07, B-FUT-08).
    pub fn remove_done_callback(&self, id: CallbackId) -> bool {
        self.state.waiters.remove_callback(id)
    }

    /// Where the future was created.
    pub fn site(&self) -> &'static Location<'static> {
        self.state.site
    }
}

impl<T: Clone + 'static, E: Clone + 'static> Future for LoopFuture<T, E> {
    type Output = Result<T, FutureError<E>>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        ready!(this.poll_done(cx))?;
        Poll::Ready(this.clone().result())
    }
}

impl<T, E> Clone for LoopFuture<T, E> {
    fn clone(&self) -> Self {
        LoopFuture { state: self.state.clone(), waiter: None }
    }
}

impl<T, E> Unpin for LoopFuture<T, E> {}

impl<T, E> Drop for LoopFuture<T, E> {
    fn drop(&mut self) {
        if let Some(waiter) = self.waiter.take() {
            self.state.waiters.deregister(waiter);
        }
    }
}

impl<T, E> Drop for State<T, E> {
    fn drop(&mut self) {
        let (Outcome::Failed(error), Some(show)) = (self.outcome.get_mut(), self.unread.take())
        else {
            return;
        };
        let mut context = ExceptionContext::new("the error of a future was never retrieved");
        context.subject = Some(match guard::catch_panic(|| show(error)) {
            Ok(text) => format!("{text}, future created at {}", self.site),
            Err(_) => format!("future created at {}", self.site),
        });
        match self.home.upgrade() {
            Some(inner) => LoopRef { inner }.report(&context),
            None => write_line(&context),
        }
    }
}

impl<T, E> fmt::Debug for LoopFuture<T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match &*self.state.outcome.borrow() {
            Outcome::Pending => "pending",
            Outcome::Value(_) | Outcome::Taken => "done",
            Outcome::Failed(_) => "failed",
            Outcome::Cancelled(_) => "cancelled",
        };
        f.debug_struct("LoopFuture")
            .field("state", &state)
            .field("site", &format_args!("{}", self.state.site))
            .finish()
    }
}
