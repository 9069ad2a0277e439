//! [`Waiting`]: what the selector workloads ask of a selector.

use std::io;
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::time::Duration;

/// Waits until some of its sources are ready. Sources are known by small numbers.
pub(crate) trait Waiting {
    /// Watches a source for reading.
    fn add(&mut self, source: &Rc<UnixStream>, number: usize) -> io::Result<()>;
    /// Watches it for reading, and for writing too or not.
    fn modify(&mut self, source: &Rc<UnixStream>, number: usize, writes: bool) -> io::Result<()>;
    /// Forgets it.
    fn remove(&mut self, source: &Rc<UnixStream>, number: usize) -> io::Result<()>;
    /// Waits once, and appends the sources that are ready.
    fn wait(&mut self, timeout: Option<Duration>, ready: &mut Vec<Ready>) -> io::Result<()>;
    /// True if a source is told of once for each change: who does not read until that would block
    /// may never hear of the rest.
    fn is_edge_triggered(&self) -> bool {
        false
    }
    /// What ends a wait from another thread.
    fn waker(&self) -> Wake;
}

/// A source that is ready, and in which directions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Ready {
    pub(crate) number: usize,
    pub(crate) reads: bool,
    pub(crate) writes: bool,
}

/// Ends the present wait, or the next one.
pub(crate) type Wake = Box<dyn Fn() + Send>;

/// Makes a selector of the kind.
pub(crate) type Make = Box<dyn Fn() -> io::Result<Box<dyn Waiting>>>;

/// Puts `value` into a table that grows to hold it.
pub(super) fn put<T: Clone + Default>(table: &mut Vec<T>, index: usize, value: T) {
    if table.len() <= index {
        table.resize(index + 1, T::default());
    }
    table[index] = value;
}
