//! The ready queue: what runs next, in one order.

use std::cell::RefCell;
use std::collections::VecDeque;

use loop_handle::{Handle, ThreadsafeHandle};
use loop_selector::{Readiness, Token};

use crate::task::TaskKey;

/// One entry of the ready queue.
pub(crate) enum Ready {
    /// What a user scheduled: a callback, a due timer, a reader, a writer or a signal handler.
    Handle(Handle),
    /// A call from another thread.
    Remote(ThreadsafeHandle),
    /// An [`IoHandler`](crate::IoHandler) whose descriptor is ready.
    Io(Token, Readiness),
    /// A task's next step.
    Task(TaskKey),
}

/// First in, first out (B-LOOP-01).
///
/// Entries are popped one by one, never swapped out as a batch: whatever unwinds out of a run leaves
/// the rest where it was (B-LOOP-19).
#[derive(Default)]
pub(crate) struct ReadyQueue {
    entries: RefCell<VecDeque<Ready>>,
}

impl ReadyQueue {
    #[inline]
    pub(crate) fn push(&self, entry: Ready) {
        self.entries.borrow_mut().push_back(entry);
    }

    #[inline]
    pub(crate) fn pop(&self) -> Option<Ready> {
        self.entries.borrow_mut().pop_front()
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.entries.borrow().len()
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.borrow().is_empty()
    }

    /// Takes everything, for closing.
    pub(crate) fn take(&self) -> VecDeque<Ready> {
        std::mem::take(&mut *self.entries.borrow_mut())
    }
}
