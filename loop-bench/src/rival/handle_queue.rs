//! loop-handle in the plainest queue there is, with a pool and without.

use std::collections::VecDeque;

use loop_handle::{Handle, HandlePool, Run};

use super::callback_queue::{CallbackQueue, Cancellable};

/// As a loop does it: what has run is handed back to a pool.
pub(crate) struct Pooled {
    pool: HandlePool,
    queue: VecDeque<Handle>,
}

impl CallbackQueue for Pooled {
    fn new() -> Self {
        Self { pool: HandlePool::new(), queue: VecDeque::new() }
    }

    fn push(&mut self, callback: impl FnOnce() + 'static) {
        self.queue.push_back(self.pool.once(callback));
    }

    fn run(&mut self) {
        while let Some(handle) = self.queue.pop_front() {
            run(&handle);
            self.pool.recycle(handle);
        }
    }
}

impl Cancellable for Pooled {
    type Handle = Handle;

    fn push_kept(&mut self, callback: impl FnOnce() + 'static) -> Handle {
        let handle = self.pool.once(callback);
        self.queue.push_back(handle.clone());
        handle
    }

    fn cancel(handle: &mut Handle) {
        handle.cancel();
    }

    fn detach(_: Handle) {}
}

/// An allocation each.
pub(crate) struct Fresh(VecDeque<Handle>);

impl CallbackQueue for Fresh {
    fn new() -> Self {
        Self(VecDeque::new())
    }

    fn push(&mut self, callback: impl FnOnce() + 'static) {
        self.0.push_back(Handle::once(callback));
    }

    fn run(&mut self) {
        while let Some(handle) = self.0.pop_front() {
            run(&handle);
        }
    }
}

impl Cancellable for Fresh {
    type Handle = Handle;

    fn push_kept(&mut self, callback: impl FnOnce() + 'static) -> Handle {
        let handle = Handle::once(callback);
        self.0.push_back(handle.clone());
        handle
    }

    fn cancel(handle: &mut Handle) {
        handle.cancel();
    }

    fn detach(_: Handle) {}
}

/// No callback of the workload fails: one that did would be missed in the sum.
#[inline]
pub(crate) fn run(handle: &Handle) {
    if let Run::Failed(error) = handle.run() {
        eprintln!("{handle:?}: {error}");
    }
}
