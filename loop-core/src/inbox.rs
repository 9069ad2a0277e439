//! What other threads send to the loop.

use concurrent_queue::{ConcurrentQueue, PushError};
use loop_handle::ThreadsafeHandle;
use loop_selector::Waker;
use loop_timer::TimerKey;

use crate::cancel::NodeId;
use crate::sim::Holds;
use crate::task::TaskKey;

/// A message from another thread.
pub(crate) enum Message {
    Call(ThreadsafeHandle),
    Wake(TaskKey),
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
