//! What drives the hooks of a child process: three kinds of latches, and one protocol a pipe.

use std::cell::Cell;
use std::fmt;
use std::io;
use std::process::ExitStatus;
use std::rc::{Rc, Weak};

use loop_core::{SharedError, Signal, catch_panic};
use rustix::process::Pid;

use super::child::Child;
use super::protocol::{ChildPipe, ProcessProtocol};
use super::watch::Watch;
use crate::conn::{Conn, Shared};
use crate::error::NetError;
use crate::protocol::Protocol;
use crate::socket::Socket;
use crate::transport::Transport;

/// A child with hooks. It is owned by what may still call one: its pipes, and the watch of its exit.
pub(super) struct ProcessConn {
    shared: Rc<Shared>,
    /// Empty while a hook runs, and at the end.
    protocol: Cell<Option<Box<dyn ProcessProtocol>>>,
    pid: Pid,
    /// The exit, and each pipe's end, that are still to come.
    awaited: Cell<u8>,
    /// Whether standard input is over its mark, and whether the protocol knows.
    full: Cell<bool>,
    told_full: Cell<bool>,
}

impl ProcessConn {
    /// Everything is queued in one iteration, `connection_made` before anything can happen to the
    /// pipes, which are read from the next iteration on (B-PROC-03).
    pub(super) async fn start(
        shared: &Rc<Shared>,
        watch: Watch,
        pid: Pid,
        pipes: Vec<(ChildPipe, Socket)>,
        protocol: Box<dyn ProcessProtocol>,
    ) -> io::Result<ProcessTransport> {
        let conn = Rc::new(ProcessConn {
            shared: shared.clone(),
            protocol: Cell::new(Some(protocol)),
            pid,
            awaited: Cell::new(1),
            full: Cell::new(false),
            told_full: Cell::new(false),
        });
        let exited = conn.clone();
        let on_exit = Box::new(move || exited.exited());
        let child = Child::start(&shared.lp, watch, pid, Some(on_exit))?;
        let mut ends = Pipes::default();
        for (pipe, socket) in pipes {
            let protocol = PipeProtocol { conn: conn.clone(), pipe };
            let end = Conn::start(shared, socket, Box::new(protocol), None, None);
            conn.awaited.set(conn.awaited.get() + 1);
            ends.0[pipe as usize] = Some(end.transport());
        }
        let transport = ProcessTransport { child, ends: Rc::new(ends), conn: Rc::downgrade(&conn) };
        let mut guard = CloseGuard(Some(transport.clone()));
        let (made, given) = (shared.lp.create_future::<(), SharedError>(), transport.clone());
        let done = made.clone();
        shared.lp.call_soon(move || {
            conn.call("connection_made failed", |protocol| protocol.connection_made(&given));
            // Whoever waited may have gone.
            let _ = done.set_result(());
        });
        made.await.map_err(io::Error::other)?;
        guard.0 = None;
        Ok(transport)
    }

    /// Calls a hook, and then those that fell due meanwhile: none but pause and resume can, for all
    /// others are called by the loop.
    fn call(&self, message: &'static str, hook: impl FnOnce(&mut dyn ProcessProtocol)) {
        let Some(mut protocol) = self.protocol.take() else { return };
        let mut result = catch_panic(|| hook(&mut *protocol)).map_err(|panic| (message, panic));
        loop {
            if let Err((message, panic)) = result {
                self.shared.report(message, panic, format!("process {}", self.pid));
            }
            let full = self.full.get();
            if self.told_full.replace(full) == full {
                break;
            }
            let told = catch_panic(|| match full {
                true => protocol.pause_writing(),
                false => protocol.resume_writing(),
            });
            result = told.map_err(|panic| ("pause_writing or resume_writing failed", panic));
        }
        self.protocol.set(Some(protocol));
    }

    fn set_full(&self, full: bool) {
        self.full.set(full);
        // A no-op hook, for what follows it.
        self.call("", |_| {});
    }

    fn exited(&self) {
        self.call("process_exited failed", |protocol| protocol.process_exited());
        self.ended();
    }

    /// One of the latches; after the last one comes `connection_lost`.
    fn ended(&self) {
        self.awaited.set(self.awaited.get() - 1);
        if self.awaited.get() == 0 {
            self.call("connection_lost failed", |protocol| protocol.connection_lost());
            drop(self.protocol.take());
        }
    }
}

/// Feeds one pipe into the hooks.
struct PipeProtocol {
    conn: Rc<ProcessConn>,
    pipe: ChildPipe,
}

impl Protocol for PipeProtocol {
    fn data_received(&mut self, data: &[u8]) {
        let pipe = self.pipe;
        let message = "pipe_data_received failed";
        self.conn.call(message, |protocol| protocol.pipe_data_received(pipe, data));
    }

    fn pause_writing(&mut self) {
        self.conn.set_full(true);
    }

    fn resume_writing(&mut self) {
        self.conn.set_full(false);
    }

    fn connection_lost(&mut self, error: Option<&NetError>) {
        let pipe = self.pipe;
        let message = "pipe_connection_lost failed";
        self.conn.call(message, |protocol| protocol.pipe_connection_lost(pipe, error));
        self.conn.ended();
    }
}

/// Transports by [`ChildPipe`].
#[derive(Default)]
struct Pipes([Option<Transport>; 3]);

/// Until the child has got to whoever started it.
struct CloseGuard(Option<ProcessTransport>);

impl Drop for CloseGuard {
    fn drop(&mut self) {
        if let Some(transport) = &self.0 {
            transport.close();
        }
    }
}

/// A child of a [`ProcessProtocol`]; asyncio's `SubprocessTransport`. A handle, cheap to clone; the loop
/// owns the child until `connection_lost`.
#[derive(Clone)]
pub struct ProcessTransport {
    child: Rc<Child>,
    ends: Rc<Pipes>,
    conn: Weak<ProcessConn>,
}

impl ProcessTransport {
    /// Its number. Once the child has ended, the number may be another process's.
    pub fn pid(&self) -> u32 {
        self.child.pid()
    }

    /// How the child ended; known from `process_exited` on, unless it was reaped by somebody else.
    pub fn exit_status(&self) -> Option<ExitStatus> {
        self.child.exit_status()
    }

    /// The transport of a pipe: to write to the child, or to pause what it writes, which then fills its
    /// pipe and waits (B-PROC-17). `None` if the stream is no pipe.
    pub fn pipe(&self, pipe: ChildPipe) -> Option<&Transport> {
        self.ends.0[pipe as usize].as_ref()
    }

    /// Waits for the child's end, as [`Process::wait`](crate::Process::wait). A wait that is dropped changes
    /// nothing.
    ///
    /// # Errors
    /// As there.
    pub async fn wait(&self) -> io::Result<ExitStatus> {
        self.child.wait().await
    }

    /// Sends a signal, as [`Process::send_signal`](crate::Process::send_signal).
    ///
    /// # Errors
    /// As there.
    pub fn send_signal(&self, signal: Signal) -> io::Result<()> {
        self.child.send_signal(signal)
    }

    /// Asks the child to end: SIGTERM.
    ///
    /// # Errors
    /// As [`Process::send_signal`](crate::Process::send_signal).
    pub fn terminate(&self) -> io::Result<()> {
        self.child.signal(rustix::process::Signal::TERM)
    }

    /// Ends the child at once: SIGKILL.
    ///
    /// # Errors
    /// As [`Process::send_signal`](crate::Process::send_signal).
    pub fn kill(&self) -> io::Result<()> {
        self.child.signal(rustix::process::Signal::KILL)
    }

    /// Closes the pipes and kills the child if it still runs. `connection_lost` follows its end
    /// (B-PROC-13).
    pub fn close(&self) {
        for end in self.ends.0.iter().flatten() {
            end.close();
        }
        self.child.kill_if_running();
    }

    /// Whether `connection_lost` was called.
    pub fn is_over(&self) -> bool {
        self.conn.strong_count() == 0
    }
}

impl fmt::Debug for ProcessTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProcessTransport")
            .field("pid", &self.pid())
            .field("exit_status", &self.exit_status())
            .finish_non_exhaustive()
    }
}
