//! async-task: a future that is ready at its first poll is a callback, and its `Task` can cancel it.

use std::collections::VecDeque;

use async_task::{Runnable, Task, spawn_local};

use super::callback_queue::{CallbackQueue, Cancellable};

pub(crate) struct Runnables(VecDeque<Runnable>);

impl CallbackQueue for Runnables {
    fn new() -> Self {
        Self(VecDeque::new())
    }

    fn push(&mut self, callback: impl FnOnce() + 'static) {
        if let Some(task) = self.push_kept(callback) {
            task.detach();
        }
    }

    fn run(&mut self) {
        while let Some(runnable) = self.0.pop_front() {
            runnable.run();
        }
    }
}

impl Cancellable for Runnables {
    type Handle = Option<Task<()>>;

    fn push_kept(&mut self, callback: impl FnOnce() + 'static) -> Self::Handle {
        // Nobody wakes it, so it is never scheduled again.
        let (runnable, task) = spawn_local(async move { callback() }, drop::<Runnable>);
        self.0.push_back(runnable);
        Some(task)
    }

    /// The closure stays in memory until its turn.
    fn cancel(handle: &mut Self::Handle) {
        drop(handle.take());
    }

    fn detach(handle: Self::Handle) {
        if let Some(task) = handle {
            task.detach();
        }
    }
}
