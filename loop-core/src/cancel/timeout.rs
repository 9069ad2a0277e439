//! Limits on how long a future may take: scopes that ask for their own end.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use pin_project_lite::pin_project;

use super::binding::Binding;
use super::node::Kind;
use crate::clock::saturating_add;
use crate::error::Elapsed;

/// Runs `future` for at most `limit`, counted from the first poll; asyncio's `timeout`.
///
/// When the time is up the future is asked to end. Nothing inside that
/// [catches](crate::catch_cancelled) this, it is dropped; else it may clean up first, and if it swallows
/// the request its value is returned. [`Elapsed`] comes after all of that (B-TMO-01, B-TMO-05). A request
/// from outside is never turned into `Elapsed`, whichever came first (B-TMO-07).
///
/// The future is started even if the limit is zero, and succeeds if it is ready without suspending; a
/// deadline that has passed interrupts it where it first suspends (B-TMO-03).
///
/// ```
/// # use loop_core::{run, sleep, timeout};
/// # use std::time::Duration;
/// # run(async {
/// let slow = sleep(Duration::from_secs(3600));
/// assert!(timeout(Duration::from_millis(1), slow).await.is_err());
/// assert_eq!(timeout(Duration::ZERO, async { 1 }).await, Ok(1));
/// # }).unwrap();
/// ```
///
/// # Errors
/// [`Elapsed`] if the time is up first.
pub fn timeout<F: Future>(limit: Duration, future: F) -> Timeout<F> {
    Timeout::new(Until::Passed(limit), future)
}

/// Runs `future` until the loop's clock reads `deadline` at the latest; asyncio's `timeout_at`. As
/// [`timeout`] in everything else.
///
/// # Errors
/// [`Elapsed`] if the time is up first.
pub fn timeout_at<F: Future>(deadline: Instant, future: F) -> Timeout<F> {
    Timeout::new(Until::Reads(Some(deadline)), future)
}

/// [`timeout`] with a limit that may be absent; asyncio's `wait_for`. The future runs in this task
/// (B-WF-06).
///
/// Unlike with `timeout`, a limit of zero does not start the future, whatever it is: it is dropped
/// unpolled (B-WF-04). To look at a task that may be done, there is
/// [`Task::take_result`](crate::Task::take_result).
///
/// # Errors
/// [`Elapsed`] if the time is up first.
pub fn wait_for<F: Future>(future: F, limit: Option<Duration>) -> Timeout<F> {
    let until = match limit {
        Some(Duration::ZERO) => Until::Over,
        Some(limit) => Until::Passed(limit),
        None => Until::Reads(None),
    };
    Timeout::new(until, future)
}

enum Until {
    Passed(Duration),
    Reads(Option<Instant>),
    Over,
}

enum State {
    Idle(Until),
    Running(Option<Instant>),
    /// An outer request came in between; the scope waits to be dropped.
    Outranked,
    Done,
}

pin_project! {
    /// The future of [`timeout`], [`timeout_at`] and [`wait_for`].
    ///
    #[doc = lost!(timeout)]
    #[must_use = "futures do nothing unless they are awaited"]
    pub struct Timeout<F> {
        #[pin]
        future: Option<F>,
        pub(super) binding: Binding,
        state: State,
    }
}

impl<F> Timeout<F> {
    fn new(until: Until, future: F) -> Self {
        Timeout { future: Some(future), binding: Binding::default(), state: State::Idle(until) }
    }
}

impl<F: Future> Timeout<F> {
    /// A limit that can be moved: the deadline in force is told with each poll.
    pub(super) fn until(deadline: Option<Instant>, future: F) -> Self {
        Timeout::new(Until::Reads(deadline), future)
    }

    pub(super) fn set_deadline(self: Pin<&mut Self>, deadline: Option<Instant>) {
        let state = self.project().state;
        if let State::Running(known) = state {
            *known = deadline;
        }
    }
}

impl<F: Future> Future for Timeout<F> {
    type Output = Result<F::Output, Elapsed>;

    /// # Panics
    /// If polled outside a task, or again after it was ready.
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        if let State::Idle(Until::Over) = this.state {
            *this.state = State::Done;
            this.future.set(None);
            return Poll::Ready(Err(Elapsed));
        }
        let here = this.binding.enter(Kind::Scope).expect("a timeout was polled outside a task");
        let deadline = match this.state {
            State::Idle(Until::Passed(limit)) => Some(saturating_add(here.now(), *limit)),
            State::Idle(Until::Reads(deadline)) | State::Running(deadline) => *deadline,
            State::Outranked => return Poll::Pending,
            State::Idle(Until::Over) | State::Done => panic!("a timeout was polled after its end"),
        };
        if let Some(request) = here.take_request() {
            here.drop_body(this.future);
            let request = here.with_back(request);
            if !here.is_own(&request) {
                *this.state = State::Outranked;
                here.pass(request);
                return Poll::Pending;
            }
            *this.state = State::Done;
            this.binding.leave();
            return Poll::Ready(Err(Elapsed));
        }
        *this.state = State::Running(deadline);
        match here.poll(this.future, cx) {
            Poll::Ready(value) => {
                *this.state = State::Done;
                this.binding.leave();
                Poll::Ready(Ok(value))
            }
            Poll::Pending => {
                here.suspend(cx);
                if deadline.is_some() && here.is_unwatched() {
                    this.binding.set_deadline(deadline);
                }
                Poll::Pending
            }
        }
    }
}

impl<F> fmt::Debug for Timeout<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match &self.state {
            State::Idle(_) => "idle",
            State::Running(_) | State::Outranked => "running",
            State::Done => "done",
        };
        f.debug_struct("Timeout").field("state", &state).finish_non_exhaustive()
    }
}
