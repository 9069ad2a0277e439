//! Who waits for something that has room for one: a task of the loop that runs by its number, anybody else by a
//! waker.

use std::cell::{Cell, RefCell};
use std::task::Waker;

use crate::current;
use crate::guard;
use crate::loop_ref::LoopRef;
use crate::task::Awaiter;

#[derive(Default)]
pub(crate) struct OneWaiter {
    awaiter: RefCell<Option<Awaiter>>,
    /// The number of the loop that ran when it came.
    home: Cell<u64>,
}

impl OneWaiter {
    /// The next [`wake`](Self::wake) is for `waker`, and for nobody else.
    pub(crate) fn wait(&self, waker: &Waker) {
        let home = current::running_id();
        let same = |kept: &Awaiter| self.home.get() == home && kept.is(home, waker);
        if self.awaiter.borrow().as_ref().is_some_and(same) {
            return;
        }
        // Cloning and dropping a waker is user code: no borrow is held around either.
        let new = Some(Awaiter::new(home, waker));
        let old = self.awaiter.replace(new);
        self.home.set(home);
        drop(old);
    }

    /// Wakes who waits. A panic of a waker is reported to `lp`, if that is there.
    pub(crate) fn wake(&self, lp: Option<&LoopRef>) {
        let awaiter = self.awaiter.take();
        let Some(awaiter) = awaiter else { return };
        let wake = || awaiter.wake_seldom(self.home.get());
        match lp {
            Some(lp) => guard::guarded(lp, guard::WAKER, wake),
            None => wake(),
        }
    }

    /// Shows the waker, for those who ask who waits.
    pub(crate) fn show(&self, visit: impl FnOnce(&Waker)) {
        if let Some(awaiter) = &*self.awaiter.borrow() {
            awaiter.show(self.home.get(), visit);
        }
    }
}
