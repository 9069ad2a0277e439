//! io_uring, asked for readiness: polls go to the kernel, and their answers come back, through two
//! queues in shared memory, and one system call a wait moves both.
//!
//! `readiness.rs` is the selector's half: what is polled. `ring.rs` is the queues, and all that is
//! `unsafe`. Operations with buffers would be a second half beside `readiness.rs`, on the same ring.

mod readiness;
mod ring;
#[cfg(test)]
mod tests;

use std::cell::{Cell, RefCell};
use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use self::readiness::Polls;
use self::ring::Ring;
use super::kernel::{Backend, Kernel, Watched};
use crate::error::SelectorError;
use crate::event::Events;
use crate::interest::Interest;
use crate::registry::Entry;
use crate::waker::Waker;

const NAME: &str = "uring";

const SUBMISSIONS: u32 = 1024;
const COMPLETIONS: u32 = 4096;

/// Linux's io_uring (5.11 or newer), polling.
///
/// Registering, and changing an interest, costs no system call: the next wait takes it along, up
/// to [`with_entries`](IoUringSelector::with_entries) of them at once. So what the kernel refuses
/// shows late: a descriptor that was closed behind the selector's back is reported ready once, for
/// all it is watched for, and is silent from then on (B-SEL-06, B-SEL-12). A regular file is always
/// ready (B-SEL-05). Deregistering costs a call if the kernel is polling the descriptor, which else
/// would stay open until the next wait.
///
/// A poll that completes while its thread is in another system call may interrupt that call, as a
/// signal would, and so may the kernel's tidying up behind a dropped ring: a call that can be
/// restarted is, but `epoll_wait`, say, returns `EINTR`. (A ring that defers such work to its own
/// calls does not interrupt, but gives back twenty completions a call: a wait could not report all
/// that is ready in one.)
///
/// [`as_fd`](crate::Selector::as_fd) has a price: once it was called, each wait and each change makes a
/// system call more, to keep the promise that the descriptor is readable when something is ready.
///
/// A selector belongs to the thread that made it. A child of `fork` shares the ring and is kept from
/// it: see [`EpollSelector`](crate::EpollSelector).
pub struct IoUringSelector {
    watched: Watched<Uring>,
    /// The last wait was ended by the waker.
    woken: bool,
    /// Somebody waits on the ring's descriptor, so that it must tell the truth between waits.
    is_observed: Cell<bool>,
}

pub(crate) struct Uring {
    ring: Ring,
    /// In a cell because `as_fd` submits what is owed.
    polls: RefCell<Polls>,
}

impl IoUringSelector {
    /// A ring with 1,024 submission and 4,096 completion entries: about 130 KiB of memory.
    ///
    /// # Errors
    /// Those of [`with_entries`](IoUringSelector::with_entries).
    pub fn new() -> io::Result<IoUringSelector> {
        IoUringSelector::with_entries(SUBMISSIONS, COMPLETIONS)
    }

    /// A ring of at least that many entries. They bound what one system call can do, and not what
    /// can be registered.
    ///
    /// # Errors
    /// `EINVAL` if a number is zero or more than the kernel allows, or if there are fewer
    /// completions than submissions. What the kernel says to a ring, or to the first poll that is
    /// sent through it: above all `ENOSYS`, `EPERM` and `ENOMEM`, each with its usual cause. Those
    /// of [`Waker::new`].
    pub fn with_entries(submissions: u32, completions: u32) -> io::Result<IoUringSelector> {
        let waker = Waker::new().map_err(|e| SelectorError::create(NAME, e))?;
        let ring = Ring::new(submissions, completions, waker.as_fd());
        IoUringSelector::around(ring, waker)
    }

    /// The same as [`new`](IoUringSelector::new) around a waker that exists already, which no other
    /// selector may wait for.
    ///
    /// # Errors
    /// Those of [`new`](IoUringSelector::new).
    pub fn with_waker(waker: Waker) -> io::Result<IoUringSelector> {
        let ring = Ring::new(SUBMISSIONS, COMPLETIONS, waker.as_fd());
        IoUringSelector::around(ring, waker)
    }

    fn around(ring: io::Result<Ring>, waker: Waker) -> io::Result<IoUringSelector> {
        let ring = ring.map_err(|error| {
            let hint = cause(&error);
            SelectorError::wrap_with_hint(NAME, "create", -1, error, hint)
        })?;
        let kernel = Uring { ring, polls: RefCell::default() };
        let watched = Watched::new(kernel, waker)?;
        Ok(IoUringSelector { watched, woken: false, is_observed: Cell::new(false) })
    }
}

/// Why a ring is usually refused like that.
fn cause(error: &io::Error) -> &'static str {
    match error.raw_os_error() {
        Some(libc::ENOSYS) => "the kernel has no io_uring, or a seccomp filter hides it",
        Some(libc::EPERM | libc::EACCES) => {
            "forbidden by kernel.io_uring_disabled, or by a seccomp filter"
        }
        Some(libc::ENOMEM) => "RLIMIT_MEMLOCK is too low for the ring",
        _ => "",
    }
}

impl Kernel for Uring {
    const NAME: &'static str = NAME;

    fn arm(
        &mut self,
        entry: &Entry,
        before: Option<Interest>,
        _interest: Interest,
    ) -> io::Result<()> {
        let polls = self.polls.get_mut();
        if before.is_some() {
            polls.remove(&self.ring, entry.token())?;
        }
        polls.owe(entry.token());
        Ok(())
    }

    fn disarm(&mut self, entry: &Entry) {
        let polls = self.polls.get_mut();
        // At once, because a poll keeps the file open that its owner is about to close. If it
        // fails, the next wait submits it.
        if let Ok(true) = polls.remove(&self.ring, entry.token()) {
            let _ = polls.submit(&self.ring);
        }
    }
}

impl Backend for IoUringSelector {
    type Kernel = Uring;

    fn watched(&self) -> &Watched<Uring> {
        &self.watched
    }

    fn watched_mut(&mut self) -> &mut Watched<Uring> {
        &mut self.watched
    }

    fn wait(&mut self, events: &mut Events, timeout: Option<Duration>) -> io::Result<()> {
        let Watched { kernel: Uring { ring, polls }, registry, waker, .. } = &mut self.watched;
        self.woken = polls.get_mut().wait(ring, registry, waker, events, timeout)?;
        Ok(())
    }

    fn report(&mut self, _: &mut Events) -> io::Result<()> {
        if self.woken {
            self.watched.waker.drain();
        }
        Ok(())
    }

    /// Brings the ring's descriptor up to date for whoever waits on it.
    fn settle(&self) {
        if self.is_observed.get() && self.watched.check_process().is_ok() {
            let Watched { kernel: Uring { ring, polls }, registry, waker, .. } = &self.watched;
            // What fails here is still owed: the next wait tries again, and tells.
            let _ = polls.borrow_mut().settle(ring, registry, waker);
        }
    }

    fn pollable(&self) -> Option<BorrowedFd<'_>> {
        Some(AsFd::as_fd(self))
    }
}

impl AsFd for IoUringSelector {
    fn as_fd(&self) -> BorrowedFd<'_> {
        if !self.is_observed.replace(true) {
            self.settle();
        }
        self.watched.kernel.ring.as_fd()
    }
}

impl Drop for IoUringSelector {
    fn drop(&mut self) {
        // A closed ring lets go of what it polls only after a while; the files are to be closed
        // when their owners, who are dropped next, close them.
        if self.watched.check_process().is_ok() {
            let Uring { ring, polls } = &mut self.watched.kernel;
            let _ = polls.get_mut().remove_all(ring);
        }
    }
}

impl fmt::Debug for IoUringSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IoUringSelector")
            .field("ring", &self.watched.kernel.ring)
            .field("registry", &self.watched.registry)
            .finish_non_exhaustive()
    }
}
