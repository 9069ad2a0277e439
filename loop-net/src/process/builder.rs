//! How children begin.

use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::process::Command;
use std::rc::Rc;

use loop_selector::with_clear_mask;
use rustix::process::{Pid, Signal};

use super::child::Child;
use super::conn::{ProcessConn, ProcessTransport};
use super::handle::Process;
use super::protocol::{ChildPipe, ProcessProtocol};
use super::stdio::{Stdio, Streams};
use super::watch::Watch;
use crate::conn::Shared;
use crate::error::named;
use crate::pipe::{ReadPipe, WritePipe};
use crate::socket::Socket;

/// A child about to be started; from [`Net::exec`](crate::Net::exec) and
/// [`Net::shell`](crate::Net::shell).
///
/// Its standard streams are ours unless set here, whatever the `Command` says of them. It starts with no
/// signal blocked and with SIGPIPE deadly, whatever this process does with them; descriptors of this
/// process are not passed on, except those that were made inheritable on purpose.
#[must_use = "nothing is started before `spawn` or `connect`"]
pub struct ProcessBuilder {
    shared: Rc<Shared>,
    command: Command,
    streams: Streams,
    kill_on_drop: bool,
}

/// A child that was started, and our ends of its pipes.
struct Started {
    pid: Pid,
    watch: Watch,
    pipes: Vec<(ChildPipe, OwnedFd)>,
}

impl ProcessBuilder {
    pub(crate) fn new(shared: Rc<Shared>, command: Command) -> Self {
        ProcessBuilder { shared, command, streams: Streams::inherited(), kill_on_drop: false }
    }

    /// Where the child reads from; what we read from unless set.
    pub fn stdin(mut self, stdin: impl Into<Stdio>) -> Self {
        self.streams.stdin = stdin.into();
        self
    }

    /// Where the child writes to; where we write to unless set.
    pub fn stdout(mut self, stdout: impl Into<Stdio>) -> Self {
        self.streams.stdout = stdout.into();
        self
    }

    /// Where the child's errors go; where ours go unless set.
    pub fn stderr(mut self, stderr: impl Into<Stdio>) -> Self {
        self.streams.stderr = stderr.into();
        self
    }

    /// All three as pipes.
    pub fn piped(self) -> Self {
        self.stdin(Stdio::Piped).stdout(Stdio::Piped).stderr(Stdio::Piped)
    }

    /// Whether the child is killed when the [`Process`] is dropped before the child has ended. If not,
    /// it runs on, and the loop reaps it at its end.
    pub fn kill_on_drop(mut self, on: bool) -> Self {
        self.kill_on_drop = on;
        self
    }

    /// Starts the child, with streams for its pipes; asyncio's `create_subprocess_exec` and
    /// `create_subprocess_shell`. Dropping the future before it is done kills the child (B-PROC-10).
    ///
    /// The loop stands still until the program is loaded.
    ///
    /// # Errors
    /// If the program cannot be started or watched, naming it; all pipes are closed then (B-PROC-02).
    /// `InvalidInput` if something else than standard error is to be merged into standard output.
    pub async fn spawn(self) -> io::Result<Process> {
        let (shared, kill_on_drop) = (self.shared.clone(), self.kill_on_drop);
        let Started { pid, watch, pipes } = self.start()?;
        let child = Child::start(&shared.lp, watch, pid, None)?;
        let mut process = Process::new(child, true);
        for (pipe, fd) in pipes {
            match pipe {
                ChildPipe::Stdin => {
                    process.stdin = Some(WritePipe::new(shared.clone(), fd)?.open_stream().await?);
                }
                ChildPipe::Stdout => {
                    process.stdout = Some(ReadPipe::new(shared.clone(), fd)?.open_stream().await?);
                }
                ChildPipe::Stderr => {
                    process.stderr = Some(ReadPipe::new(shared.clone(), fd)?.open_stream().await?);
                }
            }
        }
        process.kill_on_drop(kill_on_drop);
        Ok(process)
    }

    /// Starts the child with hooks; asyncio's `subprocess_exec` and `subprocess_shell`. Returns after
    /// `connection_made`. Dropping the future before it is done kills the child.
    ///
    /// [`kill_on_drop`](Self::kill_on_drop) does not count here: the loop owns the child until
    /// `connection_lost`.
    ///
    /// # Errors
    /// As [`spawn`](Self::spawn).
    pub async fn connect<P, F>(self, factory: F) -> io::Result<ProcessTransport>
    where
        P: ProcessProtocol + 'static,
        F: FnOnce() -> P,
    {
        let shared = self.shared.clone();
        let Started { pid, watch, pipes } = self.start()?;
        let adopt = |(pipe, fd)| {
            let socket = Socket::adopt_pipe(fd, pipe == ChildPipe::Stdin)?;
            Ok((pipe, socket))
        };
        let adopted: io::Result<Vec<_>> = pipes.into_iter().map(adopt).collect();
        if adopted.is_err() {
            let _ = watch.destroy();
        }
        let pipes = adopted?;
        ProcessConn::start(&shared, watch, pid, pipes, Box::new(factory())).await
    }

    fn start(mut self) -> io::Result<Started> {
        let program = self.command.get_program().to_string_lossy().into_owned();
        let name = |error| named(format!("start {program}"), error);
        let merged = self.streams.apply(&mut self.command).map_err(name)?;
        let mut child = with_clear_mask(|| self.command.spawn()).and_then(|spawned| spawned);
        // The command holds the child's ends of pipes that we made.
        drop(self.command);
        let child = child
            .as_mut()
            .map_err(|error| name(std::mem::replace(error, io::ErrorKind::Other.into())))?;
        let pid = Pid::from_child(child);
        let watch = match Watch::new(pid) {
            Ok(watch) => watch,
            Err(error) => {
                let _ = rustix::process::kill_process(pid, Signal::KILL);
                let _ = child.wait();
                return Err(named(format!("watch {program}, process {pid}"), error));
            }
        };
        let stdin = child.stdin.take().map(|pipe| (ChildPipe::Stdin, pipe.into()));
        let stdout = child.stdout.take().map(OwnedFd::from).or(merged);
        let stdout = stdout.map(|pipe| (ChildPipe::Stdout, pipe));
        let stderr = child.stderr.take().map(|pipe| (ChildPipe::Stderr, pipe.into()));
        let pipes = [stdin, stdout, stderr].into_iter().flatten().collect();
        Ok(Started { pid, watch, pipes })
    }
}

impl fmt::Debug for ProcessBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProcessBuilder")
            .field("command", &self.command)
            .field("streams", &self.streams)
            .finish_non_exhaustive()
    }
}
