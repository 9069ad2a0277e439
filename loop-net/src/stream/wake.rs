//! Whom a change of a stream wakes.

use std::cell::{Cell, RefCell};
use std::task::{Context, Waker};

/// The place of the one task that reads. Its waker stays after it was used, so that a task which reads
/// again and again clones it once.
#[derive(Default)]
pub(crate) struct ReaderWaker {
    waker: Cell<Option<Waker>>,
    waits: Cell<bool>,
}

impl ReaderWaker {
    pub(crate) fn wait(&self, cx: &Context<'_>) {
        let kept = self.waker.take().filter(|waker| waker.will_wake(cx.waker()));
        self.waker.set(Some(kept.unwrap_or_else(|| cx.waker().clone())));
        self.waits.set(true);
    }

    /// Waits again for the task that waited before; `false` if it is another.
    #[inline]
    pub(crate) fn wait_again(&self, cx: &Context<'_>) -> bool {
        let kept = self.waker.take();
        let same = kept.as_ref().is_some_and(|waker| waker.will_wake(cx.waker()));
        self.waker.set(kept);
        if same {
            self.waits.set(true);
        }
        same
    }

    /// Shows the waker if the task waits, for those who ask.
    pub(crate) fn show(&self, visit: impl FnOnce(&Waker)) {
        let waker = self.waker.take();
        if let Some(waker) = waker.as_ref().filter(|_| self.waits.get()) {
            visit(waker);
        }
        self.waker.set(waker);
    }

    #[inline]
    pub(crate) fn wake(&self) {
        if !self.waits.replace(false) {
            return;
        }
        if let Some(waker) = self.waker.take() {
            waker.wake_by_ref();
            // A waker may be user code, and that may have had the next read wait.
            let newer = self.waker.replace(Some(waker));
            if newer.is_some() {
                drop(self.waker.replace(newer));
            }
        }
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
