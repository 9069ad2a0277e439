//! [`Hub`]: a loop that other threads send messages to, and [`Tally`]: what it made of them.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::{self, Thread};
use std::time::Instant;

use crate::sample::Wrong;

/// Sends a number to the loop from another thread.
pub(crate) type Post = Box<dyn Fn(u64) + Send>;

/// A loop on the calling thread which is reached from another one.
pub(crate) trait Hub {
    /// Hands `start` the means to send, then runs until `tally` is complete. If `busy`, the loop
    /// always has something else to do; if not, it sleeps between messages.
    fn run(&self, busy: bool, tally: Arc<Tally>, start: impl FnOnce(Post)) -> Result<(), Wrong>;
}

/// Counts messages on the loop's thread, and lets the sender wait for that.
pub(crate) struct Tally {
    expected: u64,
    received: AtomicU64,
    in_order: AtomicBool,
    finished: OnceLock<Instant>,
    /// Who is told of each message.
    waiting: OnceLock<Thread>,
}

impl Tally {
    pub(crate) fn new(expected: u64) -> Arc<Self> {
        Arc::new(Self {
            expected,
            received: AtomicU64::new(0),
            in_order: AtomicBool::new(true),
            finished: OnceLock::new(),
            waiting: OnceLock::new(),
        })
    }

    /// Takes the next message; `true` if it was the last. Only the loop's thread calls this, so
    /// the counter needs no read-modify-write.
    pub(crate) fn take(&self, value: u64) -> bool {
        let received = self.received.load(Ordering::Relaxed);
        if value != received {
            self.in_order.store(false, Ordering::Relaxed);
        }
        let last = received + 1 == self.expected;
        if last {
            _ = self.finished.set(Instant::now());
        }
        self.received.store(received + 1, Ordering::Release);
        if let Some(thread) = self.waiting.get() {
            thread.unpark();
        }
        last
    }

    pub(crate) fn is_complete(&self) -> bool {
        self.received.load(Ordering::Acquire) == self.expected
    }

    /// From now on this thread is woken by each message.
    pub(crate) fn watch(&self) {
        _ = self.waiting.set(thread::current());
    }

    /// Sleeps until `count` messages were taken. Only the watching thread may call this.
    pub(crate) fn wait_for(&self, count: u64) {
        while self.received.load(Ordering::Acquire) < count {
            thread::park();
        }
    }

    /// When the last message was taken, if all came, each once and in order.
    pub(crate) fn finished(&self) -> Result<Instant, Wrong> {
        let received = self.received.load(Ordering::Acquire);
        Wrong::unless_equal("messages", received, self.expected)?;
        Wrong::unless_equal("messages in order", self.in_order.load(Ordering::Relaxed), true)?;
        self.finished.get().copied().ok_or(Wrong("no last message".into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tally_wants_every_message_in_order() {
        let tally = Tally::new(3);
        assert!(!tally.take(0));
        assert!(!tally.take(1));
        assert!(!tally.is_complete());
        assert!(tally.finished().is_err());
        assert!(tally.take(2));
        assert!(tally.is_complete());
        assert!(tally.finished().is_ok());

        let swapped = Tally::new(2);
        swapped.take(1);
        swapped.take(0);
        assert!(swapped.finished().is_err());
    }
}
