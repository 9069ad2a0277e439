//! `Finished`: which of several tasks have ended, in the order in which they did.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::task::Waker;

use crate::loop_ref::LoopRef;
use crate::one_waiter::OneWaiter;

/// A list that tasks enter when they end, and the one who waits for it. A member costs its place in
/// the list: no callback, no waker, no allocation of its own.
#[derive(Default)]
pub(crate) struct Finished {
    members: RefCell<VecDeque<usize>>,
    waiter: OneWaiter,
}

impl Finished {
    /// Notes that a member has ended, and wakes who waits. `None`: the loop is gone.
    pub(crate) fn add(&self, member: usize, lp: Option<&LoopRef>) {
        self.members.borrow_mut().push_back(member);
        self.waiter.wake(lp);
    }

    /// The one that ended first of those not yet taken.
    pub(crate) fn next(&self) -> Option<usize> {
        self.members.borrow_mut().pop_front()
    }

    /// Shows the waker, for those who ask who waits.
    pub(crate) fn each_waker(&self, visit: &mut dyn FnMut(&Waker)) {
        self.waiter.show(visit);
    }

    /// Wakes `waker` with the next member to end, and nobody else.
    pub(crate) fn wait(&self, waker: &Waker) {
        self.waiter.wait(waker);
    }
}
