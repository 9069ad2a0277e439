//! `Process`: a child with streams.

use std::fmt;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::pin;
use std::process::{ExitStatus, Output};
use std::rc::Rc;
use std::task::Poll;

use loop_core::Signal;

use super::child::Child;
use crate::stream::{StreamReader, StreamWriter};

/// A child process and the streams of its pipes; asyncio's `Process`.
///
/// Dropping it closes the pipes. The child runs on and is reaped by the loop at its end, or is killed
/// if [`kill_on_drop`](crate::ProcessBuilder::kill_on_drop) says so.
pub struct Process {
    /// What the child reads, if it is a pipe. Dropping it is the child's end of file.
    pub stdin: Option<StreamWriter>,
    /// What the child writes, if it is a pipe.
    pub stdout: Option<StreamReader>,
    /// What the child writes as errors, if it is a pipe of its own.
    pub stderr: Option<StreamReader>,
    child: Rc<Child>,
    kill_on_drop: bool,
}

impl Process {
    pub(super) fn new(child: Rc<Child>, kill_on_drop: bool) -> Process {
        Process { stdin: None, stdout: None, stderr: None, child, kill_on_drop }
    }

    pub(super) fn kill_on_drop(&mut self, on: bool) {
        self.kill_on_drop = on;
    }

    /// Its number. Once the child has ended, the number may be another process's.
    pub fn pid(&self) -> u32 {
        self.child.pid()
    }

    /// How the child ended, once the loop knows; asyncio's `returncode`. `None` also if it was reaped
    /// by somebody else, as [`wait`](Self::wait) says.
    pub fn exit_status(&self) -> Option<ExitStatus> {
        self.child.exit_status()
    }

    /// Waits until the child has ended, whoever still holds its pipes (B-PROC-08). May be called any
    /// number of times, also at once; a wait that is dropped changes nothing (B-PROC-07, B-PROC-09).
    ///
    /// A child that writes more than its pipe takes does not end before somebody reads that:
    /// [`communicate`](Self::communicate) does.
    ///
    /// # Errors
    /// If somebody else in this process has reaped it, or all children are set to vanish unreaped by
    /// ignoring SIGCHLD; `Closed` if the loop was closed.
    pub async fn wait(&self) -> io::Result<ExitStatus> {
        self.child.wait().await
    }

    /// Writes `input` to the child, closes its standard input, reads its outputs to their ends, all at
    /// once, and waits. Outputs that are no pipes are empty. A child that does not read its input is no
    /// error (B-PROC-14).
    ///
    /// Dropped before it is done, the output so far is lost, and the child's pipes are closed.
    ///
    /// # Errors
    /// `InvalidInput` if there is input and standard input is no pipe. What reading fails with, and
    /// those of [`wait`](Self::wait).
    pub async fn communicate(&mut self, input: Option<&[u8]>) -> io::Result<Output> {
        if input.is_some_and(|input| !input.is_empty()) && self.stdin.is_none() {
            let message = "input for a child whose standard input is no pipe, or was taken before";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        let stdin = self.stdin.take();
        let feed = feed(stdin, input.unwrap_or_default());
        let outputs = both(collect(self.stdout.take()), collect(self.stderr.take()));
        let ((), (stdout, stderr)) = both(feed, outputs).await;
        Ok(Output { status: self.wait().await?, stdout: stdout?, stderr: stderr? })
    }

    /// Sends a signal. Nothing happens if the child has ended and the loop does not know yet
    /// (B-PROC-11); it never reaches another process that got the number (B-PROC-12).
    ///
    /// # Errors
    /// `NotFound` once the child has ended, `PermissionDenied` if it has other rights by now,
    /// `Unsupported` for real-time signals.
    pub fn send_signal(&self, signal: Signal) -> io::Result<()> {
        self.child.send_signal(signal)
    }

    /// Asks the child to end: SIGTERM.
    ///
    /// # Errors
    /// As [`send_signal`](Self::send_signal).
    pub fn terminate(&self) -> io::Result<()> {
        self.child.signal(rustix::process::Signal::TERM)
    }

    /// Ends the child at once: SIGKILL. It remains to [`wait`](Self::wait) for its end.
    ///
    /// # Errors
    /// As [`send_signal`](Self::send_signal).
    pub fn kill(&self) -> io::Result<()> {
        self.child.signal(rustix::process::Signal::KILL)
    }
}

/// Broken pipes are the child's choice.
async fn feed(stdin: Option<StreamWriter>, input: &[u8]) {
    let Some(stdin) = stdin else { return };
    for piece in input.chunks(64 * 1024) {
        stdin.write(piece);
        if stdin.drain().await.is_err() {
            return;
        }
    }
}

async fn collect(output: Option<StreamReader>) -> io::Result<Vec<u8>> {
    match output {
        Some(mut output) => Ok(output.read_to_end().await?),
        None => Ok(Vec::new()),
    }
}

/// Runs two futures side by side to their ends.
async fn both<A: Future, B: Future>(a: A, b: B) -> (A::Output, B::Output) {
    let (mut a, mut b) = (pin!(a), pin!(b));
    let (mut first, mut second) = (None, None);
    poll_fn(move |cx| {
        if first.is_none() {
            if let Poll::Ready(output) = a.as_mut().poll(cx) {
                first = Some(output);
            }
        }
        if second.is_none() {
            if let Poll::Ready(output) = b.as_mut().poll(cx) {
                second = Some(output);
            }
        }
        match (first.take(), second.take()) {
            (Some(first), Some(second)) => Poll::Ready((first, second)),
            (done_first, done_second) => {
                (first, second) = (done_first, done_second);
                Poll::Pending
            }
        }
    })
    .await
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.kill_on_drop {
            self.child.kill_if_running();
        }
    }
}

impl fmt::Debug for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Process")
            .field("pid", &self.pid())
            .field("exit_status", &self.exit_status())
            .finish_non_exhaustive()
    }
}
