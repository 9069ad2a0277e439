//! `staggered_race`: one attempt after the other, until one succeeds.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use crate::sleep::{Sleep, sleep};

/// Starts attempts one after the other and takes the first that succeeds; asyncio's `staggered_race`, and
/// the heart of "happy eyeballs" (RFC 8305).
///
/// The next attempt starts when `delay` has passed since the last start, or at once when the last one
/// started fails; with no delay only the latter. The first success ends the race: attempts still under
/// way are dropped, those not started never are.
///
/// ```
/// # use loop_core::{run, sleep, staggered_race};
/// # use std::time::Duration;
/// # run(async {
/// let attempts = [3600, 1].map(|seconds| move || async move {
///     sleep(Duration::from_millis(seconds)).await;
///     Ok::<_, std::io::Error>(seconds)
/// });
/// let race = staggered_race(attempts, Some(Duration::from_millis(2))).await;
/// assert_eq!(race.winner, Some((1, 1)));
/// # }).unwrap();
/// ```
///
/// The attempts run in the task that awaits this, so they may borrow, and a panic in one is that task's.
/// Each wake polls all that are under way: O(n) in those.
///
#[doc = lost!(staggered_race)]
pub async fn staggered_race<I, F, Fut, T, E>(
    attempts: I,
    delay: Option<Duration>,
) -> RaceOutcome<T, E>
where
    I: IntoIterator<Item = F>,
    F: FnOnce() -> Fut,
    Fut: Future<Output = Result<T, E>>,
{
    let mut race = Race {
        waiting: attempts.into_iter(),
        next: 0,
        running: Vec::new(),
        delay,
        until_next: None,
        errors: Vec::new(),
    };
    let winner = poll_fn(|cx| race.poll(cx)).await;
    RaceOutcome { winner, errors: race.errors }
}

/// The outcome of a [`staggered_race`].
pub struct RaceOutcome<T, E> {
    /// Which attempt succeeded, by its place in the order given, and with what; `None` if all failed.
    pub winner: Option<(usize, T)>,
    /// Which attempts failed, in the order in which they did.
    pub errors: Vec<(usize, E)>,
}

impl<T: fmt::Debug, E: fmt::Debug> fmt::Debug for RaceOutcome<T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RaceOutcome { winner, errors } = self;
        f.debug_struct("RaceOutcome").field("winner", winner).field("errors", errors).finish()
    }
}

struct Race<I, Fut, E> {
    waiting: I,
    next: usize,
    running: Vec<(usize, Pin<Box<Fut>>)>,
    delay: Option<Duration>,
    until_next: Option<Sleep>,
    errors: Vec<(usize, E)>,
}

impl<I, F, Fut, T, E> Race<I, Fut, E>
where
    I: Iterator<Item = F>,
    F: FnOnce() -> Fut,
    Fut: Future<Output = Result<T, E>>,
{
    /// The winner, or `None` when nothing is left to win.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<(usize, T)>> {
        let mut index = 0;
        loop {
            // What fails below starts the next at once, if it was the last one started.
            let mut start = self.next == 0;
            while let Some((number, attempt)) = self.running.get_mut(index) {
                let number = *number;
                match attempt.as_mut().poll(cx) {
                    Poll::Pending => index += 1,
                    Poll::Ready(Ok(value)) => {
                        self.running.clear();
                        return Poll::Ready(Some((number, value)));
                    }
                    Poll::Ready(Err(error)) => {
                        drop(self.running.remove(index));
                        self.errors.push((number, error));
                        start |= number + 1 == self.next;
                    }
                }
            }
            if let Some(until_next) = &mut self.until_next {
                start |= Pin::new(until_next).poll_limit(cx).is_ready();
            }
            if !start || !self.start_next() {
                return if self.running.is_empty() { Poll::Ready(None) } else { Poll::Pending };
            }
            index = self.running.len() - 1; // The others were polled already.
        }
    }

    /// `false` if there is none left.
    fn start_next(&mut self) -> bool {
        self.until_next = None;
        let Some(attempt) = self.waiting.next() else { return false };
        self.running.push((self.next, Box::pin(attempt())));
        self.next += 1;
        self.until_next = self.delay.map(sleep);
        true
    }
}
