//! `SpawnHook`: a say in how every task of a loop starts.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;

use super::task_ref::TaskRef;
use crate::loop_ref::LoopRef;

/// What a task runs: a future that leaves its output where the task's handle finds it.
pub type TaskBody = Pin<Box<dyn Future<Output = ()>>>;

/// Called for every task that a loop spawns; what asyncio's `set_task_factory` is for. It may wrap the body, to
/// measure or to trace it, and decide on an eager start. It cannot replace the type of the task.
///
/// ```
/// use loop_core::{EventLoop, SpawnHook, TaskRef};
/// use std::{cell::Cell, rc::Rc};
///
/// struct Count(Cell<u32>);
///
/// impl SpawnHook for Count {
///     fn eager(&self, _: &TaskRef) -> bool {
///         self.0.set(self.0.get() + 1);
///         false
///     }
/// }
///
/// let count = Rc::new(Count(Cell::new(0)));
/// let mut event_loop = EventLoop::new()?;
/// event_loop.set_spawn_hook(Some(count.clone()));
/// event_loop.spawn(async {}).detach();
/// assert_eq!(count.0.get(), 1);
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// The methods are called inside `spawn`: a panic in one unwinds out of it, and no task is made. One that spawns
/// is called for that task too.
pub trait SpawnHook {
    /// The body to run: `body`, or a future that polls it. If that future ends before `body` has, the task is
    /// cancelled.
    fn wrap(&self, task: &TaskRef, body: TaskBody) -> TaskBody {
        let _ = task;
        body
    }

    /// Whether the task starts eagerly, if [`TaskBuilder::eager`](crate::TaskBuilder::eager) does not say it.
    fn eager(&self, task: &TaskRef) -> bool {
        let _ = task;
        false
    }
}

/// Starts every task eagerly; asyncio's `eager_task_factory`.
#[derive(Debug, Clone, Copy, Default)]
pub struct EagerSpawn;

impl SpawnHook for EagerSpawn {
    fn eager(&self, _: &TaskRef) -> bool {
        true
    }
}

impl LoopRef {
    /// Has `hook` called for every task that this loop spawns from now on, or none.
    pub fn set_spawn_hook(&self, hook: Option<Rc<dyn SpawnHook>>) {
        let old = self.inner.spawn_hook.replace(hook);
        drop(old);
    }

    /// The hook that [`set_spawn_hook`](Self::set_spawn_hook) was given.
    pub fn spawn_hook(&self) -> Option<Rc<dyn SpawnHook>> {
        self.inner.spawn_hook.borrow().clone()
    }
}

impl fmt::Debug for dyn SpawnHook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SpawnHook")
    }
}
