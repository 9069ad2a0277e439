//! `Deadlock`: who waits for what, when nothing can ever happen.

use std::error::Error;
use std::fmt;

use crate::introspect::Dump;

/// Nothing can ever happen: no timer, no descriptor and nothing in flight is left that could wake a task.
/// Only loops in [virtual time](crate::AutoJump) find that out; others wait for ever.
///
/// `Display` names every pending task, what it waits for, and where it was spawned; locks with who holds
/// them.
#[derive(Debug)]
pub struct Deadlock {
    dump: Box<Dump>,
}

impl Deadlock {
    pub(crate) fn new(dump: Dump) -> Self {
        Deadlock { dump: Box::new(dump) }
    }

    /// What the loop looked like.
    pub fn dump(&self) -> &Dump {
        &self.dump
    }
}

impl fmt::Display for Deadlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Dump { tasks, more_tasks, .. } = &*self.dump;
        match tasks.len() + more_tasks {
            0 => f.write_str("nothing can ever happen, and no task is pending")?,
            1 => f.write_str("deadlock: nothing can wake the one pending task")?,
            count => write!(f, "deadlock: nothing can wake the {count} pending tasks")?,
        }
        for task in tasks {
            write!(f, "\n  {}", self.dump.line(task))?;
        }
        match more_tasks {
            0 => Ok(()),
            more => write!(f, "\n  and {more} more"),
        }
    }
}

impl Error for Deadlock {}
