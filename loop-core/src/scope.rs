//! Limits on how long a future may take.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use pin_project_lite::pin_project;

use crate::error::Elapsed;
use crate::sleep::{Sleep, sleep, sleep_until};

/// Runs `future` for at most `limit`, counted from the first poll; asyncio's `timeout`.
///
/// The future is started even if the limit is zero, and succeeds if it is ready without suspending; a
/// deadline that has passed ends it where it first suspends (B-TMO-03). On expiry it is dropped, then [`Elapsed`] is returned (B-TMO-01).
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
    Timeout { future: Some(future), sleep: sleep(limit) }
}

/// Runs `future` until the loop's clock reads `deadline` at the latest; asyncio's `timeout_at`.
///
/// # Errors
/// [`Elapsed`] if the time is up first.
pub fn timeout_at<F: Future>(deadline: Instant, future: F) -> Timeout<F> {
    Timeout { future: Some(future), sleep: sleep_until(deadline) }
}

pin_project! {
    /// The future of [`timeout`] and [`timeout_at`].
    #[must_use = "futures do nothing unless they are awaited"]
    pub struct Timeout<F> {
        #[pin]
        future: Option<F>,
        #[pin]
        sleep: Sleep,
    }
}

impl<F: Future> Future for Timeout<F> {
    type Output = Result<F::Output, Elapsed>;

    /// # Panics
    /// If polled again after it was ready.
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        let future = this.future.as_mut().as_pin_mut().expect("a timeout was polled after its end");
        if let Poll::Ready(value) = future.poll(cx) {
            this.future.set(None);
            return Poll::Ready(Ok(value));
        }
        if this.sleep.poll_limit(cx).is_ready() {
            this.future.set(None);
            return Poll::Ready(Err(Elapsed));
        }
        Poll::Pending
    }
}

impl<F> fmt::Debug for Timeout<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Timeout").field("sleep", &self.sleep).finish_non_exhaustive()
    }
}
