//! Catch points: futures that survive a request (C2, C3).

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;

use super::binding::{Binding, poll_present};
use super::cancelled::Cancelled;
use super::node::Kind;

/// Runs `future`; a request to end it ends here instead of dropping the caller: asyncio's
/// `except CancelledError` around `future`.
///
/// What follows may clean up with further awaits, and then decides the request. Whoever has nothing to
/// decide uses [`on_cancel`].
///
/// ```
/// # use loop_core::{catch_cancelled, run, sleep, spawn, yield_now};
/// # use std::time::Duration;
/// # run(async {
/// let task = spawn(async {
///     match catch_cancelled(sleep(Duration::from_secs(3600))).await {
///         Ok(()) => println!("slept"),
///         Err(cancelled) => {
///             sleep(Duration::from_millis(1)).await; // flush, say good-bye, roll back
///             cancelled.propagate().await
///         }
///     }
/// });
/// yield_now().await;
/// task.cancel();
/// assert!(task.await.unwrap_err().is_cancelled());
/// # }).unwrap();
/// ```
///
/// The request reaches the innermost catch point that is being awaited; an outer one gets it when an
/// inner one propagates. A future that is ready without suspending never sees a request (B-TASK-14).
/// Outside a task this is `future` itself.
///
/// Dropping it drops `future`: a branch that lost a `select!` is not asked. Put the catch point around
/// the `select!` if a clean-up must finish.
///
/// # Errors
/// [`Cancelled`], once `future` has been dropped because of a request.
pub fn catch_cancelled<F: Future>(future: F) -> CatchCancelled<F> {
    CatchCancelled { future: Some(future), binding: Binding::default() }
}

pin_project! {
    /// The future of [`catch_cancelled`].
    #[must_use = "futures do nothing unless they are awaited"]
    pub struct CatchCancelled<F> {
        #[pin]
        future: Option<F>,
        binding: Binding,
    }
}

impl<F: Future> Future for CatchCancelled<F> {
    type Output = Result<F::Output, Cancelled>;

    /// # Panics
    /// If polled again after it was ready.
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let Some(here) = this.binding.enter(Kind::Catch) else {
            return poll_present(this.future, cx).map(Ok);
        };
        if let Some(request) = here.take_request() {
            here.drop_body(this.future);
            let cancelled = Cancelled::issue(&here, here.with_back(request));
            this.binding.leave();
            return Poll::Ready(Err(cancelled));
        }
        match here.poll(this.future, cx) {
            Poll::Ready(value) => {
                this.binding.leave();
                Poll::Ready(Ok(value))
            }
            Poll::Pending => {
                here.suspend(cx);
                Poll::Pending
            }
        }
    }
}

impl<F> fmt::Debug for CatchCancelled<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let done = self.future.is_none();
        f.debug_struct("CatchCancelled").field("done", &done).finish_non_exhaustive()
    }
}

/// Runs `future`; if it is asked to end, runs `cleanup` instead, to its end, and then passes the
/// request on. The everyday form of [`catch_cancelled`].
///
/// ```
/// # use loop_core::{on_cancel, run, sleep, spawn, yield_now};
/// # use std::time::Duration;
/// # run(async {
/// let task = spawn(on_cancel(sleep(Duration::from_secs(3600)), async {
///     sleep(Duration::from_millis(1)).await;
///     println!("cleaned up");
/// }));
/// yield_now().await;
/// task.cancel();
/// assert!(task.await.unwrap_err().is_cancelled());
/// # }).unwrap();
/// ```
///
/// A second request interrupts `cleanup` unless that [`protect`]s itself (contract C6).
///
#[doc = lost!(on_cancel)]
pub async fn on_cancel<F, C>(future: F, cleanup: C) -> F::Output
where
    F: Future,
    C: Future<Output = ()>,
{
    match catch_cancelled(future).await {
        Ok(value) => value,
        Err(cancelled) => {
            cleanup.await;
            cancelled.propagate().await
        }
    }
}

/// Runs `future` to its end whatever is asked meanwhile; the requests arrive at the next suspension
/// after it (contract C6).
///
/// Requests do not reach catch points inside, those of scopes inside excepted. Only an abort and
/// dropping this end `future` early, and `future` itself by [`raise_cancelled`](crate::raise_cancelled).
/// Outside a task this is `future` itself.
pub fn protect<F: Future>(future: F) -> Protect<F> {
    Protect { future: Some(future), binding: Binding::default() }
}

pin_project! {
    /// The future of [`protect`].
    #[must_use = "futures do nothing unless they are awaited"]
    pub struct Protect<F> {
        #[pin]
        future: Option<F>,
        binding: Binding,
    }
}

impl<F: Future> Future for Protect<F> {
    type Output = F::Output;

    /// # Panics
    /// If polled again after it was ready.
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        let Some(here) = this.binding.enter(Kind::Protect) else {
            return poll_present(this.future, cx);
        };
        if let Some(request) = here.take_request() {
            here.hold(request);
        }
        let polled = here.poll(this.future, cx);
        match polled {
            Poll::Ready(_) => this.binding.leave(),
            Poll::Pending => here.suspend(cx),
        }
        polled
    }
}

impl<F> fmt::Debug for Protect<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let done = self.future.is_none();
        f.debug_struct("Protect").field("done", &done).finish_non_exhaustive()
    }
}
