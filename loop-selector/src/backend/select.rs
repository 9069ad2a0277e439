//! select: the oldest, and the only one with a limit. The sets live here; the kernel gets a copy on
//! each wait and looks at every bit below the highest.

#![allow(unsafe_code)]

use std::fmt;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, RawFd};
use std::time::Duration;

use rustix::io::{Errno, fcntl_getfd};

use super::kernel::{Backend, Kernel, Watched};
use crate::error::SelectorError;
use crate::event::Events;
use crate::interest::{Interest, Readiness};
use crate::registry::Entry;
use crate::timeout::seconds_and_micros;
use crate::token::Token;
use crate::waker::Waker;

const NAME: &str = "select";

/// 1024 on nearly every system.
const LIMIT: RawFd = libc::FD_SETSIZE as RawFd;

/// The selector of 4.2BSD. A descriptor that is not below `FD_SETSIZE` is refused with
/// `InvalidInput` (B-SEL-28), a closed one with `EBADF`; everything else is accepted, and a regular
/// file is always ready (B-SEL-05). Timeouts are rounded up to a microsecond.
///
/// A descriptor that is closed while it is watched is reported ready for all it is watched for, so
/// that the next read or write says what is wrong, and is silent then until it is watched for
/// something again.
///
/// `select` cannot tell a hang-up from data: a pipe's reading end whose writers are gone is readable
/// but never writable, where the other backends report both.
pub struct SelectSelector {
    watched: Watched<Sets>,
    /// What the last wait found ready, and how many bits that is; `None` if something is watched that is
    /// closed.
    told: Option<(Sets, usize)>,
}

impl SelectSelector {
    /// A selector that watches nothing but a waker of its own.
    ///
    /// # Errors
    /// Those of [`Waker::new`] and of [`with_waker`](SelectSelector::with_waker).
    pub fn new() -> io::Result<SelectSelector> {
        SelectSelector::with_waker(Waker::new().map_err(|e| SelectorError::create(NAME, e))?)
    }

    /// The same around a waker that exists already, which no other selector may wait for.
    ///
    /// # Errors
    /// `InvalidInput` if so many files are open that the waker's descriptor is not below the limit.
    pub fn with_waker(waker: Waker) -> io::Result<SelectSelector> {
        let fd =
            Fd::new(waker.raw_fd()).map_err(|errno| SelectorError::create(NAME, errno.into()))?;
        let mut sets = Sets { read: FdSet::empty(), write: FdSet::empty(), bound: 0 };
        sets.insert(fd, Interest::READ);
        Ok(SelectSelector { watched: Watched::new(sets, waker)?, told: None })
    }

    /// Reports, and silences, what was closed behind our back: one such descriptor makes the whole
    /// call fail, and does not say which it is. O(n).
    fn report_closed(&mut self, events: &mut Events) {
        let Watched { kernel, registry, .. } = &mut self.watched;
        let open = |entry: &Entry| fcntl_getfd(entry).is_ok();
        let watched = registry.iter().filter(|entry| entry.interest().is_some());
        let closed: Vec<Token> = watched.filter(|e| !open(e)).map(Entry::token).collect();
        for token in closed {
            events.extend(registry.event(token, Readiness::READABLE | Readiness::WRITABLE));
            if let Some(entry) = registry.get(token) {
                kernel.disarm(entry);
            }
            // It is registered: we have just found it there.
            let _ = registry.set_interest(token, None);
        }
    }
}

/// A number that an `fd_set` has a bit for.
#[derive(Clone, Copy)]
struct Fd(RawFd);

impl Fd {
    fn new(fd: RawFd) -> Result<Fd, Errno> {
        if (0..LIMIT).contains(&fd) { Ok(Fd(fd)) } else { Err(Errno::INVAL) }
    }
}

#[derive(Clone, Copy)]
struct FdSet(libc::fd_set);

impl FdSet {
    fn empty() -> FdSet {
        let mut set = MaybeUninit::<libc::fd_set>::zeroed();
        // SAFETY: an `fd_set` is an array of integers, so zeroes are a value of it, and FD_ZERO
        // only writes to it.
        unsafe {
            libc::FD_ZERO(set.as_mut_ptr());
            FdSet(set.assume_init())
        }
    }

    fn set(&mut self, fd: Fd, present: bool) {
        // SAFETY: both touch one bit of the set, which is there: an `Fd` is below FD_SETSIZE.
        unsafe {
            if present {
                libc::FD_SET(fd.0, &mut self.0);
            } else {
                libc::FD_CLR(fd.0, &mut self.0);
            }
        }
    }

    fn contains(&self, fd: Fd) -> bool {
        // SAFETY: it reads one bit of the set, which is there: an `Fd` is below FD_SETSIZE.
        unsafe { libc::FD_ISSET(fd.0, &self.0) }
    }
}

/// What the next wait asks for.
#[derive(Clone, Copy)]
pub(crate) struct Sets {
    read: FdSet,
    write: FdSet,
    /// All bits set are below it; never above the limit.
    bound: RawFd,
}

impl Sets {
    fn insert(&mut self, fd: Fd, interest: Interest) {
        self.read.set(fd, interest.is_readable());
        self.write.set(fd, interest.is_writable());
        self.bound = self.bound.max(fd.0 + 1);
    }

    fn remove(&mut self, fd: Fd) {
        self.read.set(fd, false);
        self.write.set(fd, false);
        while let Ok(last) = Fd::new(self.bound - 1) {
            if self.read.contains(last) || self.write.contains(last) {
                break;
            }
            self.bound -= 1;
        }
    }

    /// Leaves in the sets what is ready, and returns how many bits that is. If it fails, what is in
    /// them is meaningless.
    fn wait(&mut self, timeout: Option<Duration>) -> Result<usize, Errno> {
        let mut timeout = seconds_and_micros(timeout)
            .map(|(sec, micros)| libc::timeval { tv_sec: sec as _, tv_usec: micros as _ });
        let timeout = timeout.as_mut().map_or(std::ptr::null_mut(), |t| t as *mut libc::timeval);
        let (read, write) = (&raw mut self.read.0, &raw mut self.write.0);
        // SAFETY: the kernel reads and writes the first `bound` bits of two sets that have
        // FD_SETSIZE, which is not less, and a `timeval` that outlives the call.
        let found = unsafe { libc::select(self.bound, read, write, std::ptr::null_mut(), timeout) };
        usize::try_from(found).map_err(|_| {
            // The call has left its reason in errno, which is where `last_os_error` looks.
            Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO)
        })
    }

    fn readiness(&self, fd: Fd) -> Readiness {
        let mut readiness = Readiness::NONE;
        if self.read.contains(fd) {
            readiness |= Readiness::READABLE;
        }
        if self.write.contains(fd) {
            readiness |= Readiness::WRITABLE;
        }
        readiness
    }
}

impl Kernel for Sets {
    const NAME: &'static str = NAME;

    fn arm(&mut self, entry: &Entry, _: Option<Interest>, interest: Interest) -> io::Result<()> {
        let fd = Fd::new(entry.fd())?;
        fcntl_getfd(entry)?;
        self.insert(fd, interest);
        Ok(())
    }

    fn disarm(&mut self, entry: &Entry) {
        if let Ok(fd) = Fd::new(entry.fd()) {
            self.remove(fd);
        }
    }

    fn hint(error: &io::Error) -> &'static str {
        match error.kind() {
            io::ErrorKind::InvalidInput => "it is not below FD_SETSIZE",
            _ => "",
        }
    }
}

impl Backend for SelectSelector {
    type Kernel = Sets;

    fn watched(&self) -> &Watched<Sets> {
        &self.watched
    }

    fn watched_mut(&mut self) -> &mut Watched<Sets> {
        &mut self.watched
    }

    fn wait(&mut self, _: &mut Events, timeout: Option<Duration>) -> io::Result<()> {
        let mut sets = self.watched.kernel;
        self.told = match sets.wait(timeout) {
            Ok(found) => Some((sets, found)),
            Err(Errno::BADF) => None,
            Err(errno) => return Err(errno.into()),
        };
        Ok(())
    }

    fn report(&mut self, events: &mut Events) -> io::Result<()> {
        let Some((ready, mut left)) = self.told else {
            self.report_closed(events);
            return Ok(());
        };
        let Watched { registry, waker, .. } = &self.watched;
        for fd in (0..ready.bound).map(Fd) {
            if left == 0 {
                break;
            }
            let readiness = ready.readiness(fd);
            left -= usize::from(readiness.is_readable()) + usize::from(readiness.is_writable());
            if readiness.is_empty() {
                continue;
            } else if fd.0 == waker.raw_fd() {
                waker.drain();
            } else if let Some(token) = registry.by_fd(fd.0) {
                events.extend(registry.event(token, readiness));
            }
        }
        Ok(())
    }

    fn pollable(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

impl fmt::Debug for SelectSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SelectSelector")
            .field("registry", &self.watched.registry)
            .finish_non_exhaustive()
    }
}
