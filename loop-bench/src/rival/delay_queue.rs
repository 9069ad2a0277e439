//! tokio-util's `DelayQueue`, a hashed wheel of milliseconds, on tokio's paused clock.
//!
//! The clock is moved by `advance`, once a turn, as a real clock would be read once a turn; that
//! costs about a microsecond, and the workloads expire many timers a turn so that it is spread.

use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

use tokio::runtime::{Builder, EnterGuard, Runtime};
use tokio::task::unconstrained;
use tokio::time::{Instant, advance};
use tokio_util::time::DelayQueue;
use tokio_util::time::delay_queue::Key;

use super::timer_store::TimerStore;

thread_local! {
    /// One runtime a thread, never dropped, so that a store may stay inside it: entering it for
    /// every insertion would cost more than the insertion.
    static RUNTIME: &'static Runtime = Box::leak(Box::new(
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
        Self { queue: DelayQueue::new(), origin: Instant::now(), runtime, _inside: inside }
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

    fn turn(&mut self, now: u64, due: &mut Vec<u32>) {
        let target = self.deadline(now);
        let queue = &mut self.queue;
        // Unconstrained, or tokio's budget would end the turn after 128 expiries.
        self.runtime.block_on(unconstrained(async {
            advance(target - Instant::now()).await;
            poll_fn(|cx| {
                while let Poll::Ready(Some(expired)) = queue.poll_expired(cx) {
                    due.push(expired.into_inner());
                }
                Poll::Ready(())
            })
            .await;
        }));
    }
}
