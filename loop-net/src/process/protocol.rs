//! The hooks of a child process.

use super::conn::ProcessTransport;
use crate::error::NetError;

/// A standard stream of a child, seen as a pipe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ChildPipe {
    /// What it reads.
    Stdin,
    /// What it writes.
    Stdout,
    /// What it writes as errors.
    Stderr,
}

/// The hooks of a child process; asyncio's `SubprocessProtocol`.
///
/// Per child `connection_made` comes once and first; then data, and each pipe's end once, and the
/// child's exit once, in the order in which they are noticed; last comes `connection_lost`, after the
/// exit and the ends of all pipes (B-PROC-03, B-PROC-04). A hook is never called while another one of
/// the same child runs. A panic is reported, and the child goes on.
pub trait ProcessProtocol {
    /// The child runs.
    fn connection_made(&mut self, transport: &ProcessTransport) {
        let _ = transport;
    }

    /// The child has written at least one byte.
    fn pipe_data_received(&mut self, pipe: ChildPipe, data: &[u8]) {
        let _ = (pipe, data);
    }

    /// A pipe is over: `None` at its end or after it was closed, else what failed.
    fn pipe_connection_lost(&mut self, pipe: ChildPipe, error: Option<&NetError>) {
        let _ = (pipe, error);
    }

    /// The child has ended; its output may not have been read to the end yet (B-PROC-05).
    fn process_exited(&mut self) {}

    /// More is buffered for the child's standard input than the high-water mark.
    fn pause_writing(&mut self) {}

    /// That buffer has drained to the low-water mark.
    fn resume_writing(&mut self) {}

    /// The child has ended, and all pipes.
    fn connection_lost(&mut self) {}
}
