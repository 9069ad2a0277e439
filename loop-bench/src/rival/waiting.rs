//! [`Waiting`]: what the selector workloads ask of a selector.

use std::io;
use std::os::unix::net::UnixStream;
use std::rc::Rc;

/// Waits until some of its sources can be read. Sources are known by small numbers.
pub(crate) trait Waiting {
    fn add(&mut self, source: &Rc<UnixStream>, number: usize) -> io::Result<()>;
    fn remove(&mut self, source: &Rc<UnixStream>, number: usize) -> io::Result<()>;
    /// Waits once, without a limit, and appends the numbers of the sources that are ready.
    fn wait(&mut self, ready: &mut Vec<usize>) -> io::Result<()>;
}

/// Makes a selector of the kind.
pub(crate) type Make = Box<dyn Fn() -> io::Result<Box<dyn Waiting>>>;
