//! Who awaits a task, and who awaits those.

use std::collections::HashSet;
use std::fmt;
use std::panic::Location;

use super::collect::collect;
use super::dump::Dump;
use crate::error::LoopError;
use crate::loop_ref::LoopRef;
use crate::task::{Task, TaskRef, current_task};

/// A task and those that await it, recursively; asyncio's `FutureCallGraph` (B-INT-01).
///
/// `Display` writes a line a task, awaiting ones further in. A task that has several ways up to it has
/// one entry with its own awaiters, at the first of them; at the others it stands alone.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CallGraph {
    /// [`TaskRef::id`].
    pub id: u64,
    /// The task's name.
    pub name: String,
    /// Where it was spawned.
    pub site: &'static Location<'static>,
    /// The tasks that await this one, at the moment of the call.
    pub awaited_by: Vec<CallGraph>,
}

/// Levels above a task: what lies beyond is left out.
const MAX_DEPTH: usize = 100;

impl Dump {
    /// The call graph of a task; `None` if it is not in the dump.
    pub fn call_graph(&self, id: u64) -> Option<CallGraph> {
        self.graph(id, &mut HashSet::new(), 0)
    }

    fn graph(&self, id: u64, seen: &mut HashSet<u64>, depth: usize) -> Option<CallGraph> {
        let task = self.task(id)?;
        let (name, site) = (task.name.clone(), task.site);
        let mut graph = CallGraph { id, name, site, awaited_by: Vec::new() };
        if seen.insert(id) && depth < MAX_DEPTH {
            let awaiters = self.awaiters(id);
            graph.awaited_by =
                awaiters.filter_map(|awaiter| self.graph(awaiter.id, seen, depth + 1)).collect();
        }
        Some(graph)
    }
}

impl TaskRef {
    /// Who awaits this task, recursively, at this moment; `None` once it has ended. O(n) in the tasks of
    /// its loop.
    pub fn call_graph(&self) -> Option<CallGraph> {
        collect(&*self.home()?).call_graph(self.id())
    }
}

impl<T> Task<T> {
    /// As [`TaskRef::call_graph`].
    pub fn call_graph(&self) -> Option<CallGraph> {
        self.task_ref().call_graph()
    }
}

/// The call graph of the task that runs on this thread; `None` in a plain callback. asyncio's
/// `capture_call_graph` without an argument; [`Task::call_graph`] is the one with.
///
/// # Errors
/// [`LoopError::NotRunning`] if no loop runs on this thread.
pub fn call_graph() -> Result<Option<CallGraph>, LoopError> {
    if LoopRef::try_current().is_none() {
        return Err(LoopError::NotRunning);
    }
    Ok(current_task().and_then(|task| task.call_graph()))
}

impl fmt::Display for CallGraph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} spawned at {}", self.name, self.site)?;
        let mut stack: Vec<_> = self.awaited_by.iter().rev().map(|graph| (graph, 1)).collect();
        while let Some((graph, depth)) = stack.pop() {
            let indent = 2 * depth;
            writeln!(f, "{:indent$}awaited by {} spawned at {}", "", graph.name, graph.site)?;
            stack.extend(graph.awaited_by.iter().rev().map(|above| (above, depth + 1)));
        }
        Ok(())
    }
}
