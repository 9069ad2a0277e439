//! What `loop-handle` could have been: flags and context in one allocation, the closure in a second.

use std::cell::Cell;
use std::collections::VecDeque;
use std::panic::Location;
use std::rc::Rc;

use loop_handle::Snapshot;

use super::callback_queue::{CallbackQueue, Cancellable};

/// The promises of a `Handle`: it can be cancelled, which drops the closure at once, and runs in its context.
pub(crate) struct Scheduled {
    is_cancelled: Cell<bool>,
    /// Where it was scheduled, for who asks.
    _site: &'static Location<'static>,
    context: Snapshot,
    callback: Cell<Option<Box<dyn FnOnce()>>>,
}

impl Scheduled {
    #[track_caller]
    fn new(callback: impl FnOnce() + 'static) -> Rc<Self> {
        Rc::new(Self {
            is_cancelled: Cell::new(false),
            _site: Location::caller(),
            context: Snapshot::current(),
            callback: Cell::new(Some(Box::new(callback))),
        })
    }

    fn run(&self) {
        if self.is_cancelled.get() {
            return;
        }
        if let Some(callback) = self.callback.take() {
            self.context.run(callback);
        }
    }
}

pub(crate) struct TwoBoxes(VecDeque<Rc<Scheduled>>);

impl CallbackQueue for TwoBoxes {
    fn new() -> Self {
        Self(VecDeque::new())
    }

    fn push(&mut self, callback: impl FnOnce() + 'static) {
        self.0.push_back(Scheduled::new(callback));
    }

    fn run(&mut self) {
        while let Some(scheduled) = self.0.pop_front() {
            scheduled.run();
        }
    }
}

impl Cancellable for TwoBoxes {
    type Handle = Rc<Scheduled>;

    fn push_kept(&mut self, callback: impl FnOnce() + 'static) -> Self::Handle {
        let scheduled = Scheduled::new(callback);
        self.0.push_back(Rc::clone(&scheduled));
        scheduled
    }

    fn cancel(handle: &mut Self::Handle) {
        handle.is_cancelled.set(true);
        handle.callback.take();
    }

    fn detach(_: Self::Handle) {}
}
