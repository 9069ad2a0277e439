//! The ready queue: what runs next, in one order.

use std::cell::{Cell, RefCell};
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
/// This vector and that of the batch keep their memory, so a steady state allocates nothing.
#[derive(Default)]
pub(crate) struct ReadyQueue {
    /// What will be the next batch, in order.
    incoming: RefCell<Vec<Ready>>,
    /// How many are left of the present batch.
    left: Cell<usize>,
}

/// What is left of the present batch, in reverse: the next one is the last. It lies with the loop's owner, who
/// alone runs it, so that the next one is had without a borrow; whatever unwinds out of a run leaves the rest of
/// it in its place (B-LOOP-19).
#[derive(Default)]
pub(crate) struct Batch(Vec<Ready>);

impl ReadyQueue {
    #[inline]
    pub(crate) fn push(&self, entry: Ready) {
        self.push_with(|| entry);
    }

    #[inline]
    pub(crate) fn push_handle(&self, handle: Handle) {
        self.push_with(|| Ready::Handle(handle));
    }

    #[inline(always)]
    pub(crate) fn push_task(&self, key: TaskKey) {
        self.push_with(|| Ready::Task(key));
    }

    /// Where there is room nothing can unwind, so the entry is made in its place. Else it would be put together
    /// on the stack and copied from there in larger pieces than it was written in, which stalls most processors.
    #[inline(always)]
    fn push_with(&self, entry: impl FnOnce() -> Ready) {
        let mut incoming = self.incoming.borrow_mut();
        if incoming.len() < incoming.capacity() {
            incoming.push(entry());
        } else {
            grow(&mut incoming, entry);
        }
    }

    #[inline]
    pub(crate) fn has_incoming(&self) -> bool {
        !self.incoming.borrow().is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.incoming.borrow().len() + self.left.get()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.left.get() == 0 && self.incoming.borrow().is_empty()
    }

    /// Fixes the batch: all that is queued now, behind what an unwound run has left. How many that is.
    #[inline(always)]
    pub(crate) fn begin(&self, Batch(batch): &mut Batch) -> usize {
        let mut incoming = self.incoming.borrow_mut();
        if incoming.len() > 1 {
            incoming.reverse();
        }
        if !batch.is_empty() {
            incoming.append(batch);
        }
        mem::swap(&mut *incoming, batch);
        self.left.set(batch.len());
        batch.len()
    }

    /// The next of the batch.
    #[inline(always)]
    pub(crate) fn next_of(&self, Batch(batch): &mut Batch) -> Option<Ready> {
        let next = batch.pop()?;
        self.left.set(batch.len());
        Some(next)
    }

    /// Takes everything in order, for closing.
    pub(crate) fn take(&self, batch: &mut Batch) -> Vec<Ready> {
        self.begin(batch);
        self.left.set(0);
        let mut entries = mem::take(&mut batch.0);
        entries.reverse();
        entries
    }
}

#[cold]
#[inline(never)]
fn grow(incoming: &mut Vec<Ready>, entry: impl FnOnce() -> Ready) {
    incoming.push(entry());
}
