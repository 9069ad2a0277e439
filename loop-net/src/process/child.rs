//! A running child: watched, signalled and reaped by its loop.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io;
use std::process::ExitStatus;
use std::rc::Rc;
use std::task::Poll;

use loop_core::{
    ExceptionContext, Failure, Interest, IoHandler, LoopError, LoopRef, Readiness, Signal,
    TimeHold, Token,
};
use rustix::process::Pid;

use super::watch::Watch;
use crate::error::named;
use crate::stream_state::Wakers;

/// What is known of a child.
pub(super) struct Child {
    lp: LoopRef,
    pid: Pid,
    end: RefCell<End>,
    waiters: Wakers,
}

enum End {
    Running(Rc<Watch>),
    Exited(ExitStatus),
    /// Reaped by somebody else: the message.
    Unknown(String),
    /// The loop closed first.
    Abandoned,
}

/// The loop's share: alive until the child has ended. It runs `on_exit` then.
struct Watching {
    child: Rc<Child>,
    watch: Rc<Watch>,
    token: Cell<Option<Token>>,
    on_exit: Cell<Option<Box<dyn FnOnce()>>>,
    _hold: TimeHold,
}

impl Child {
    /// Has the loop watch a child; `on_exit` is called when its end is known. If it cannot be watched
    /// it is killed and reaped.
    pub(super) fn start(
        lp: &LoopRef,
        watch: Watch,
        pid: Pid,
        on_exit: Option<Box<dyn FnOnce()>>,
    ) -> io::Result<Rc<Child>> {
        let watch = Rc::new(watch);
        let end = RefCell::new(End::Running(watch.clone()));
        let child = Rc::new(Child { lp: lp.clone(), pid, end, waiters: Wakers::default() });
        let watching = Rc::new(Watching {
            child: child.clone(),
            watch: watch.clone(),
            token: Cell::new(None),
            on_exit: Cell::new(on_exit),
            _hold: lp.hold_time(),
        });
        match lp.register_io(watch, Interest::READ, watching.clone()) {
            Ok(token) => {
                watching.token.set(Some(token));
                Ok(child)
            }
            Err(error) => {
                let reaped = watching.watch.destroy();
                watching.on_exit.set(None);
                child.finish(reaped.map(|status| status.unwrap_or_default()));
                Err(named(format!("watch process {pid}"), error.into()))
            }
        }
    }

    pub(super) fn pid(&self) -> u32 {
        self.pid.as_raw_nonzero().get().unsigned_abs()
    }

    pub(super) fn is_running(&self) -> bool {
        matches!(*self.end.borrow(), End::Running(_))
    }

    pub(super) fn exit_status(&self) -> Option<ExitStatus> {
        match *self.end.borrow() {
            End::Exited(status) => Some(status),
            _ => None,
        }
    }

    /// Any number of tasks may wait, and stop waiting, before the end and after it (B-PROC-07).
    pub(super) async fn wait(&self) -> io::Result<ExitStatus> {
        poll_fn(|cx| {
            if self.is_running() {
                self.waiters.wait(cx);
                return Poll::Pending;
            }
            Poll::Ready(match &*self.end.borrow() {
                End::Exited(status) => Ok(*status),
                End::Unknown(message) => Err(io::Error::other(message.clone())),
                End::Running(_) | End::Abandoned => Err(LoopError::Closed.into()),
            })
        })
        .await
    }

    pub(super) fn send_signal(&self, signal: Signal) -> io::Result<()> {
        match rustix::process::Signal::from_named_raw(signal.as_raw()) {
            Some(named) => self.signal(named),
            None => {
                let message = format!("{signal:?} cannot be sent: it is a real-time signal");
                Err(io::Error::new(io::ErrorKind::Unsupported, message))
            }
        }
    }

    pub(super) fn signal(&self, signal: rustix::process::Signal) -> io::Result<()> {
        let watch = match &*self.end.borrow() {
            End::Running(watch) => watch.clone(),
            _ => {
                let message = format!("no such process: {} has ended", self.pid);
                return Err(io::Error::new(io::ErrorKind::NotFound, message));
            }
        };
        watch.signal(signal).map_err(|error| named(format!("signal process {}", self.pid), error))
    }

    /// Kills it if it runs.
    pub(super) fn kill_if_running(&self) {
        if self.is_running() {
            // One's own child may be signalled, unless it has taken on other rights.
            let _ = self.signal(rustix::process::Signal::KILL);
        }
    }

    fn finish(&self, status: io::Result<ExitStatus>) {
        let end = match status {
            Ok(status) => End::Exited(status),
            Err(error) => {
                let message = error.to_string();
                let context = ExceptionContext::warning("the exit status of a child is unknown")
                    .with_failure(Failure::Error(error.into()))
                    .with_subject(format!("process {}", self.pid));
                self.lp.report(&context);
                End::Unknown(message)
            }
        };
        drop(self.end.replace(end));
        self.waiters.wake();
    }
}

impl IoHandler for Watching {
    fn ready(self: Rc<Self>, _: Readiness, _: &mut Vec<u8>) {
        let status = match self.watch.reap(false) {
            Ok(None) => return,
            Ok(Some(status)) => Ok(status),
            Err(error) => Err(error),
        };
        if let Some(token) = self.token.take() {
            drop(self.child.lp.deregister_io(token));
        }
        self.child.finish(status);
        if let Some(on_exit) = self.on_exit.take() {
            on_exit();
        }
    }
}

impl Drop for Watching {
    /// The loop closes while the child runs: a thread reaps it, so that it leaves no zombie (B-PROC-21).
    fn drop(&mut self) {
        if !self.child.is_running() {
            return;
        }
        drop(self.child.end.replace(End::Abandoned));
        self.child.waiters.wake();
        let context = ExceptionContext::warning("a child process ran when its loop closed")
            .with_subject(format!("process {}", self.child.pid));
        self.child.lp.report(&context);
        if !matches!(self.watch.reap(false), Ok(None)) {
            return;
        }
        let pid = self.child.pid;
        let reaper = std::thread::Builder::new().name(format!("reap-{pid}"));
        // Without a thread the child becomes a zombie until this process ends.
        let _ = reaper.spawn(move || {
            let _ = rustix::process::waitpid(Some(pid), rustix::process::WaitOptions::empty());
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use loop_core::run;
    use std::os::unix::process::ExitStatusExt;
    use std::process::Command;

    #[allow(clippy::zombie_processes)] // The child that is tested waits.
    fn start(script: &str) -> Rc<Child> {
        let spawned = Command::new("/bin/sh").arg("-c").arg(script).spawn().unwrap();
        let pid = Pid::from_child(&spawned);
        let watch = Watch::by_thread(pid).unwrap();
        Child::start(&LoopRef::current(), watch, pid, None).unwrap()
    }

    #[test]
    fn b_proc_18_a_thread_waits_where_there_is_no_pidfd() {
        run(async {
            let (at_once, killed) = (start("exit 3"), start("exec sleep 600"));
            assert_eq!(at_once.wait().await.unwrap().code(), Some(3));
            assert_eq!(
                at_once.signal(rustix::process::Signal::KILL).unwrap_err().kind(),
                io::ErrorKind::NotFound
            );
            killed.kill_if_running();
            assert_eq!(killed.wait().await.unwrap().signal(), Some(9));
            assert_eq!(killed.wait().await.unwrap().signal(), Some(9));
        })
        .unwrap();
    }
}
