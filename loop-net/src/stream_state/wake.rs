//! Whom a change of a stream wakes.

use std::cell::{Cell, RefCell};
use std::task::{Context, Waker};

use loop_core::{Awaiter, LoopRef};

/// The place of the one task that reads.
#[derive(Default)]
pub(crate) struct ReaderWaker(Cell<Awaiter>);

impl ReaderWaker {
    /// Instead of whoever waited before.
    #[inline]
    pub(crate) fn wait(&self, lp: &LoopRef, cx: &Context<'_>) {
        // A waker's clone and its end are user code.
        let reader = lp.awaiter(cx.waker());
        drop(self.0.replace(reader));
    }

    /// Shows the waker of the task that waits, for those who ask.
    pub(crate) fn show(&self, lp: &LoopRef, visit: impl FnOnce(&Waker)) {
        let reader = self.0.take();
        lp.show_awaiter(&reader, visit);
        self.0.set(reader);
    }

    #[inline(always)]
    pub(crate) fn wake(&self, lp: &LoopRef) {
        lp.wake(self.0.take());
    }
}

/// Tasks that wait for something else: any number of them, each woken by every change.
#[derive(Default)]
pub(crate) struct Wakers(RefCell<Vec<Waker>>);

impl Wakers {
    pub(crate) fn wait(&self, cx: &Context<'_>) {
        if self.0.borrow().iter().any(|waker| waker.will_wake(cx.waker())) {
            return;
        }
        let waker = cx.waker().clone();
        self.0.borrow_mut().push(waker);
    }

    /// Shows the wakers, for those who ask.
    pub(crate) fn show(&self, visit: impl FnMut(&Waker)) {
        self.0.borrow().iter().for_each(visit);
    }

    pub(crate) fn wake(&self) {
        for waker in self.0.take() {
            waker.wake();
        }
    }
}
