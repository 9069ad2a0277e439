//! A task seen without its output.

use std::fmt;
use std::panic::Location;
use std::rc::Rc;

use super::cell::TaskKey;
use super::join::{AnyJoin, Shared};
use super::state::{CANCELLED, DONE};
use crate::inner::Inner;
use crate::loop_ref::LoopRef;
use crate::report::ExceptionContext;

/// A reference to a task of any output: what [`current_task`](crate::current_task) and
/// [`LoopRef::tasks`] return. It keeps nothing running and owns no outcome.
#[derive(Clone)]
pub struct TaskRef {
    pub(super) join: Rc<AnyJoin>,
}

impl TaskRef {
    /// A number no other task of the process has.
    pub fn id(&self) -> u64 {
        self.join.id
    }

    /// The task's name: `Task-n` unless it was given another.
    pub fn name(&self) -> Rc<str> {
        self.join.name()
    }

    /// Gives the task a name, for reports.
    pub fn set_name(&self, name: &str) {
        self.join.set_name(name);
    }

    /// Where the task was spawned.
    pub fn site(&self) -> &'static Location<'static> {
        self.join.site
    }

    /// Whether the task has ended.
    pub fn is_done(&self) -> bool {
        self.join.has(DONE)
    }

    /// Whether the task ended because it was cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.join.has(CANCELLED)
    }

    /// Its loop, unless that is gone.
    pub(crate) fn home(&self) -> Option<Rc<Inner>> {
        self.join.home.upgrade()
    }

    /// Runs `f` with the values that the task's context has between its steps.
    pub(crate) fn in_context<R>(&self, f: impl FnOnce() -> R) -> R {
        let values = self.home().and_then(|inner| {
            let tasks = inner.tasks.borrow();
            let task = tasks.get(self.join.key()).filter(|task| task.body.is_some())?;
            Some(task.gear.values.clone())
        });
        match values {
            Some(values) => values.run(f),
            None => f(),
        }
    }
}

impl fmt::Debug for TaskRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt_task(f, "TaskRef", &self.join)
    }
}

pub(super) fn fmt_task<O: ?Sized>(
    f: &mut fmt::Formatter<'_>,
    kind: &str,
    join: &Shared<O>,
) -> fmt::Result {
    let state = match (join.has(CANCELLED), join.has(DONE)) {
        (true, _) => "cancelled",
        (false, true) => "done",
        (false, false) => "pending",
    };
    f.debug_struct(kind)
        .field("name", &join.name())
        .field("state", &state)
        .field("site", &format_args!("{}", join.site))
        .finish()
}

impl LoopRef {
    /// The tasks of this loop that have not ended (B-TASK-07). O(n).
    pub fn tasks(&self) -> Vec<TaskRef> {
        let tasks = self.inner.tasks.borrow();
        tasks.iter().map(|(_, join)| TaskRef { join: join.clone() }).collect()
    }
}

/// The task with this key, for reports.
pub(crate) fn find(inner: &Inner, key: TaskKey) -> Option<TaskRef> {
    Some(TaskRef { join: inner.tasks.borrow().get(key)?.join.clone()? })
}

pub(super) fn report_pending(lp: &LoopRef, join: &Rc<AnyJoin>) {
    let mut context = ExceptionContext::new("task was destroyed while it was pending");
    context.task = Some(TaskRef { join: join.clone() });
    lp.report(&context);
}
