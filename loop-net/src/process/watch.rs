//! A descriptor that becomes readable when a child ends.
//!
//! On Linux it is a pidfd. Where there is none, or a sandbox forbids it, it is one end of a socket pair
//! whose other end a thread drops when the child has ended. That thread only looks: it leaves the child
//! to be reaped by whoever watches. So there is one reaper, on the loop's thread, and as long as it has
//! not reaped, the child's number cannot be another process's, and signals reach the child only
//! (B-PROC-12).

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, WaitIdStatus, kill_process, waitid};

/// A child that has not been reaped.
#[derive(Debug)]
pub(super) struct Watch {
    pid: Pid,
    fd: OwnedFd,
    #[cfg(target_os = "linux")]
    is_pidfd: bool,
}

impl Watch {
    /// Watches a child of this process. Exits before this call are seen too.
    pub(super) fn new(pid: Pid) -> io::Result<Watch> {
        #[cfg(target_os = "linux")]
        if let Ok(fd) = rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()) {
            return Ok(Watch { pid, fd, is_pidfd: true });
        }
        Self::by_thread(pid)
    }

    pub(super) fn by_thread(pid: Pid) -> io::Result<Watch> {
        let (ours, theirs) = UnixStream::pair()?;
        std::thread::Builder::new().name(format!("wait-{pid}")).spawn(move || {
            let look = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
            while let Err(Errno::INTR) = waitid(WaitId::Pid(pid), look) {}
            drop(theirs);
        })?;
        Ok(Watch {
            pid,
            fd: ours.into(),
            #[cfg(target_os = "linux")]
            is_pidfd: false,
        })
    }

    fn id(&self) -> WaitId<'_> {
        #[cfg(target_os = "linux")]
        if self.is_pidfd {
            return WaitId::PidFd(self.fd.as_fd());
        }
        WaitId::Pid(self.pid)
    }

    /// Takes the exit status if the child has ended. `NotFound` if somebody else has it (B-PROC-19).
    pub(super) fn reap(&self, wait: bool) -> io::Result<Option<ExitStatus>> {
        let options = WaitIdOptions::EXITED
            | if wait { WaitIdOptions::empty() } else { WaitIdOptions::NOHANG };
        loop {
            return match waitid(self.id(), options) {
                Ok(status) => Ok(status.map(|status| to_std(&status))),
                Err(Errno::INTR) => continue,
                Err(Errno::CHILD) => {
                    let message =
                        format!("the exit status of process {} went to somebody else", self.pid);
                    Err(io::Error::new(io::ErrorKind::NotFound, message))
                }
                Err(error) => Err(error.into()),
            };
        }
    }

    /// Kills it and waits for its end.
    pub(super) fn destroy(&self) -> io::Result<Option<ExitStatus>> {
        // One's own child may be signalled, unless it has taken on other rights.
        let _ = self.signal(Signal::KILL);
        self.reap(true)
    }

    /// Nothing happens to one that has ended and waits to be reaped (B-PROC-11).
    pub(super) fn signal(&self, signal: Signal) -> io::Result<()> {
        #[cfg(target_os = "linux")]
        let sent = match self.is_pidfd {
            true => rustix::process::pidfd_send_signal(&self.fd, signal),
            false => kill_process(self.pid, signal),
        };
        #[cfg(not(target_os = "linux"))]
        let sent = kill_process(self.pid, signal);
        match sent {
            Ok(()) | Err(Errno::SRCH) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

impl AsFd for Watch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// As `wait` encodes it.
fn to_std(status: &WaitIdStatus) -> ExitStatus {
    const DUMPED: i32 = 0x80;
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => ExitStatus::from_raw((code & 0xff) << 8),
        (None, signal) => {
            let dumped = if status.dumped() { DUMPED } else { 0 };
            ExitStatus::from_raw(signal.unwrap_or(0) | dumped)
        }
    }
}
