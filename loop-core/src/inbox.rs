//! What other threads send to the loop.

use concurrent_queue::{ConcurrentQueue, PushError};
use loop_handle::ThreadsafeHandle;
use loop_selector::Waker;
use loop_timer::TimerKey;

use crate::cancel::NodeId;
use crate::sim::Holds;
use crate::task::{RemoteWake, TaskKey};

/// A message from another thread.
pub(crate) enum Message {
    Call(ThreadsafeHandle),
    Wake(RemoteWake),
    CancelTimer(TimerKey),
    Unbind(TaskKey, NodeId),
    Stop,
}

impl Message {
    /// Drops the closure now, also while a user holds its handle: for closing.
    pub(crate) fn cancel(self) {
        if let Message::Call(handle) = self {
            handle.cancel();
        }
    }
}

/// The loop's side that every thread may touch: the queue and the waker.
///
/// The order that loses no wake-up (B-THR-03): a producer pushes, then wakes; the loop un-parks, then
/// drains. A push after the drain finds the waker awake or parked and either makes the next park fail
/// or ends it.
pub(crate) struct Inbox {
    pub(crate) loop_id: u64,
    queue: ConcurrentQueue<Message>,
    waker: Waker,
    pub(crate) holds: Holds,
}

impl Inbox {
    pub(crate) fn new(loop_id: u64, waker: Waker, holds: Holds) -> Self {
        Inbox { loop_id, queue: ConcurrentQueue::unbounded(), waker, holds }
    }

    /// Queues a message and wakes the loop; a closed loop gives the message back.
    pub(crate) fn send(&self, message: Message) -> Result<(), Message> {
        match self.queue.push(message) {
            Ok(()) => {
                self.waker.wake();
                Ok(())
            }
            Err(PushError::Closed(message) | PushError::Full(message)) => Err(message),
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.queue.is_closed()
    }

    /// Whether anybody has woken the loop since it last waited, or [noted](Self::note_wake) it. Who sends, and
    /// a signal, does so after it has left what it brings.
    #[inline]
    pub(crate) fn is_woken(&self) -> bool {
        self.waker.is_notified()
    }

    /// For an iteration that does not wait: comes before it looks at what was brought.
    #[inline]
    pub(crate) fn note_wake(&self) {
        if self.waker.is_notified() {
            self.waker.unpark();
        }
    }

    /// Cheaper than to ask for the length.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.queue.len()
    }

    pub(crate) fn pop(&self) -> Option<Message> {
        self.queue.pop().ok()
    }

    /// Refuses messages from now on. What is queued can still be popped.
    pub(crate) fn close(&self) {
        self.queue.close();
    }
}

// ci/loom
#[cfg(all(test, loom))]
mod tests {
    use std::mem;
    use std::sync::Arc;

    use loom::model::Builder;
    use loom::thread;
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    use super::*;

    /// The real inbox: a queue and a waker whose atomics are loom's.
    #[derive(Clone)]
    struct Shared(Arc<Inbox>);

    impl Shared {
        fn new() -> Shared {
            Shared(Arc::new(Inbox::new(1, Waker::new().unwrap(), Holds::default())))
        }
    }

    impl Drop for Shared {
        /// A model that failed is over: its atomics cannot be used any more, not even by destructors.
        fn drop(&mut self) {
            if std::thread::panicking() {
                mem::forget(self.0.clone());
            }
        }
    }

    fn is_readable(waker: &Waker) -> bool {
        let no_time = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut [PollFd::new(waker, PollFlags::IN)], Some(&no_time)).unwrap() == 1
    }

    /// One iteration of the loop: what it does before, in and after a wait without end.
    fn iteration(inbox: &Inbox) -> usize {
        wait(&inbox.waker);
        look(inbox)
    }

    fn wait(waker: &Waker) {
        if waker.park() {
            while !is_readable(waker) {
                thread::yield_now();
            }
        }
        waker.unpark();
        if is_readable(waker) {
            waker.drain();
        }
    }

    fn look(inbox: &Inbox) -> usize {
        let count = if inbox.is_empty() { 0 } else { inbox.len() };
        (0..count).map_while(|_| inbox.pop()).count()
    }

    /// In every interleaving all messages arrive. Were a wake lost, the loop would wait for ever, which
    /// loom reports.
    fn all_arrive(
        producers: usize,
        send: fn(&Inbox) -> Result<(), Message>,
        iteration: fn(&Inbox) -> usize,
    ) {
        let mut model = Builder::new();
        model.preemption_bound = Some(3);
        model.check(move || {
            let shared = Shared::new();
            let inbox = &*shared.0;
            let threads: Vec<_> = (0..producers)
                .map(|_| {
                    let shared = shared.clone();
                    thread::spawn(move || assert!(send(&shared.0).is_ok()))
                })
                .collect();
            let mut seen = 0;
            while seen < producers {
                seen += iteration(inbox);
            }
            threads.into_iter().for_each(|thread| thread.join().unwrap());
            assert!(inbox.is_empty() && seen == producers);
        });
    }

    fn send(inbox: &Inbox) -> Result<(), Message> {
        inbox.send(Message::Stop)
    }

    #[test]
    fn b_thr_03_no_message_waits_for_ever_with_one_sender() {
        all_arrive(1, send, iteration);
    }

    #[test]
    fn b_thr_03_no_message_waits_for_ever_with_two_senders() {
        all_arrive(2, send, iteration);
    }

    #[test]
    #[should_panic]
    fn a_sender_that_wakes_first_is_found_out() {
        let wakes_first = |inbox: &Inbox| {
            inbox.waker.wake();
            inbox.queue.push(Message::Stop).map_err(PushError::into_inner)
        };
        all_arrive(1, wakes_first, iteration);
    }

    #[test]
    #[should_panic]
    fn a_loop_that_looks_before_it_unparks_is_found_out() {
        let looks_first = |inbox: &Inbox| {
            if inbox.waker.park() {
                while !is_readable(&inbox.waker) {
                    thread::yield_now();
                }
            }
            let seen = look(inbox);
            inbox.waker.unpark();
            if is_readable(&inbox.waker) {
                inbox.waker.drain();
            }
            seen
        };
        all_arrive(2, send, looks_first);
    }

    /// A message is refused, or the closing loop finds it: never both, never neither.
    #[test]
    fn b_thr_07_a_message_that_races_with_close_is_refused_or_found() {
        let mut model = Builder::new();
        model.preemption_bound = Some(3);
        model.check(|| {
            let shared = Shared::new();
            let inbox = &*shared.0;
            let sender = {
                let shared = shared.clone();
                thread::spawn(move || (0..2).filter(|_| send(&shared.0).is_ok()).count())
            };
            inbox.close();
            let mut found = 0;
            while inbox.pop().is_some() {
                found += 1;
            }
            assert_eq!(found, sender.join().unwrap());
        });
    }
}
