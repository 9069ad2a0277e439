//! tokio-util's `DelayQueue`, a hashed wheel of milliseconds, on tokio's paused clock.
//!
//! The clock is moved by `advance`, once a turn, as a real clock would be read once a turn; that
//! costs about a microsecond, and the workloads do many steps a turn so that it is spread. A clock
//! that is far ahead does no harm: the queue expires one deadline after the other all the same.

use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::runtime::{Builder, EnterGuard, Runtime};
use tokio::time::{Instant, advance};
use tokio_util::time::DelayQueue;
use tokio_util::time::delay_queue::Key;

use super::timer_store::TimerStore;

/// Later than any deadline of the workloads, within the wheel's two years.
const FAR: u64 = 1 << 34;

thread_local! {
    /// One runtime a thread, never dropped, so that a store may stay inside it: entering it for
    /// every insertion would cost more than the insertion.
    pub(super) static RUNTIME: &'static Runtime = Box::leak(Box::new(
        Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .expect("a runtime without input and output needs nothing of the system"),
    ));
}

pub(crate) struct Wheel {
    queue: DelayQueue<u32>,
    origin: Instant,
    now: u64,
    runtime: &'static Runtime,
    _inside: EnterGuard<'static>,
}

impl Wheel {
    fn deadline(&self, when: u64) -> Instant {
        self.origin + Duration::from_millis(when)
    }
}

impl TimerStore for Wheel {
    const NAME: &'static str = "tokio-util";
    const FIFO: bool = false;
    type Key = Key;

    fn new() -> Self {
        let runtime = RUNTIME.with(|&runtime| runtime);
        let inside = runtime.enter();
        let queue = DelayQueue::new();
        Self { queue, origin: Instant::now(), now: 0, runtime, _inside: inside }
    }

    fn insert(&mut self, when: u64, id: u32) -> Key {
        self.queue.insert_at(id, self.deadline(when))
    }

    fn cancel(&mut self, key: Key) -> Option<u32> {
        self.queue.try_remove(&key).map(|expired| expired.into_inner())
    }

    fn reschedule(&mut self, key: Key, when: u64) -> Key {
        self.queue.reset_at(&key, self.deadline(when));
        key
    }

    fn pop(&mut self, now: u64) -> Option<u32> {
        let now = now.min(FAR);
        if now > self.now {
            self.now = now;
            let ahead = self.deadline(now) - Instant::now();
            self.runtime.block_on(advance(ahead));
        }
        // Outside of a task nothing counts against tokio's budget.
        match self.queue.poll_expired(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(Some(expired)) => Some(expired.into_inner()),
            _ => None,
        }
    }
}
