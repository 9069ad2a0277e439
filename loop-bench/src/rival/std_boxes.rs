//! The plainest there is: boxed closures, which nobody can cancel.

use std::collections::VecDeque;

use super::callback_queue::CallbackQueue;

pub(crate) struct Boxes(VecDeque<Box<dyn FnOnce()>>);

impl CallbackQueue for Boxes {
    fn new() -> Self {
        Self(VecDeque::new())
    }

    fn push(&mut self, callback: impl FnOnce() + 'static) {
        self.0.push_back(Box::new(callback));
    }

    fn run(&mut self) {
        while let Some(callback) = self.0.pop_front() {
            callback();
        }
    }
}
