//! The ready queue: what runs next, in one order.

use std::cell::RefCell;
use std::mem;

use loop_handle::{Handle, ThreadsafeHandle};
use loop_selector::{Readiness, Token};

use crate::task::TaskKey;

/// One entry of the ready queue.
pub(crate) enum Ready {
    /// What a user scheduled: a callback, a due timer or a signal handler.
    Handle(Handle),
    /// A call from another thread.
    Remote(ThreadsafeHandle),
    /// The events of this iteration's wait, which stay where the selector wrote them.
    Events,
    /// A descriptor that is to be looked at though the selector said nothing of it.
    Io(Token, Readiness),
    /// A task's next step.
    Task(TaskKey),
}

impl Ready {
    /// Drops the closure, also while a user holds its handle: closing does this.
    pub(crate) fn cancel(self) {
        match self {
            Ready::Handle(handle) => handle.cancel(),
            Ready::Remote(handle) => {
                handle.cancel();
            }
            Ready::Events | Ready::Io(..) | Ready::Task(_) => {}
        }
    }
}

/// First in, first out (B-LOOP-01), in batches (B-LOOP-02).
///
/// Both vectors keep their memory, so a steady state allocates nothing. The batch stays here while it
/// runs: whatever unwinds out of a run leaves the rest of it in its place (B-LOOP-19).
#[derive(Default)]
pub(crate) struct ReadyQueue {
    /// What will be the next batch, in order.
    incoming: RefCell<Vec<Ready>>,
    /// What is left of the present batch, in reverse: the next one is the last.
    batch: RefCell<Vec<Ready>>,
}

impl ReadyQueue {
    #[inline]
    pub(crate) fn push(&self, entry: Ready) {
        self.incoming.borrow_mut().push(entry);
    }

    /// Pushes a handle. [`Vec::push`] would put the entry together on the stack and copy it from there
    /// in larger pieces than it was written in, which stalls most processors; an iterator is only
    /// asked for the entry once there is room for it.
    #[inline]
    pub(crate) fn push_handle(&self, handle: Handle) {
        self.incoming.borrow_mut().extend(Some(handle).into_iter().map(Ready::Handle));
    }

    /// As [`push_handle`](Self::push_handle).
    #[inline(always)]
    pub(crate) fn push_task(&self, key: TaskKey) {
        self.incoming.borrow_mut().extend(Some(key).into_iter().map(Ready::Task));
    }

    #[inline]
    pub(crate) fn has_incoming(&self) -> bool {
        !self.incoming.borrow().is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.incoming.borrow().len() + self.batch.borrow().len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.incoming.borrow().is_empty() && self.batch.borrow().is_empty()
    }

    /// Fixes the batch: all that is queued now, behind what an unwound run has left. How many that is.
    #[inline(always)]
    pub(crate) fn begin_batch(&self) -> usize {
        let mut incoming = self.incoming.borrow_mut();
        let mut batch = self.batch.borrow_mut();
        if incoming.len() > 1 {
            incoming.reverse();
        }
        if !batch.is_empty() {
            incoming.append(&mut batch);
        }
        mem::swap(&mut *incoming, &mut *batch);
        batch.len()
    }

    /// The next of the batch.
    #[inline]
    pub(crate) fn next_of_batch(&self) -> Option<Ready> {
        self.batch.borrow_mut().pop()
    }

    /// Takes everything in order, for closing.
    pub(crate) fn take(&self) -> Vec<Ready> {
        self.begin_batch();
        let mut entries = self.batch.take();
        entries.reverse();
        entries
    }
}
