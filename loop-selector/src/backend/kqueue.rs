//! kqueue: the BSDs' and Apple's. The kernel remembers one filter for each direction.
//!
//! Type-checked for its systems, its translation tested everywhere; not yet seen on a real kernel.

#![allow(unsafe_code)]

use std::fmt;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd, RawFd};
use std::ptr;
use std::time::Duration;

use rustix::buffer::spare_capacity;
use rustix::event::Timespec;
use rustix::event::kqueue::{self, Event, EventFilter, EventFlags};
use rustix::io::{Errno, FdFlags, fcntl_setfd};

use super::kernel::{Backend, Kernel, Watched};
use super::kqueue_event::{Direction, EV_EOF, EV_ERROR, merge, readiness};
use crate::error::SelectorError;
use crate::event::Events;
use crate::interest::{Interest, Readiness};
use crate::registry::Entry;
use crate::timeout::fine_timespec;
use crate::token::Token;
use crate::waker::Waker;

const NAME: &str = "kqueue";

// NetBSD has wider constants.
#[allow(clippy::unnecessary_cast)]
const _: () = assert!(EV_EOF == libc::EV_EOF as u16 && EV_ERROR == libc::EV_ERROR as u16);

/// The BSDs' and Apple's selector. Refuses a closed descriptor with `EBADF` (B-SEL-06). Waits are as
/// long as was asked for, to the nanosecond.
///
/// A child of `fork` has no kqueue: there everything but `deregister` and dropping fails
/// (B-SEL-31).
///
/// Not yet seen on a real kernel.
pub struct KqueueSelector {
    watched: Watched<Kqueue>,
    buffer: Vec<Event>,
    ready: Vec<(Token, Readiness)>,
}

pub(crate) struct Kqueue(OwnedFd);

impl KqueueSelector {
    /// A kqueue, close-on-exec, that watches nothing but a waker of its own.
    ///
    /// # Errors
    /// Those of `kqueue` and [`Waker::new`].
    pub fn new() -> io::Result<KqueueSelector> {
        KqueueSelector::with_waker(Waker::new().map_err(|e| SelectorError::create(NAME, e))?)
    }

    /// The same around a waker that exists already, which no other selector may wait for.
    ///
    /// # Errors
    /// Those of `kqueue`.
    pub fn with_waker(waker: Waker) -> io::Result<KqueueSelector> {
        let kqueue = Kqueue::new(&waker).map_err(|e| SelectorError::create(NAME, e.into()))?;
        let watched = Watched::new(kqueue, waker)?;
        Ok(KqueueSelector { watched, buffer: Vec::new(), ready: Vec::new() })
    }
}

impl Kqueue {
    fn new(waker: &Waker) -> rustix::io::Result<Kqueue> {
        let fd = kqueue::kqueue()?;
        fcntl_setfd(&fd, FdFlags::CLOEXEC)?;
        let kqueue = Kqueue(fd);
        kqueue.change(waker.raw_fd(), Direction::Read, EventFlags::ADD)?;
        Ok(kqueue)
    }

    /// One change, whose failure is the call's.
    fn change(&self, fd: RawFd, direction: Direction, flags: EventFlags) -> Result<(), Errno> {
        let filter = match direction {
            Direction::Read => EventFilter::Read(fd),
            Direction::Write => EventFilter::Write(fd),
        };
        let no_room: &mut [MaybeUninit<Event>] = &mut [];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        let changes = [Event::new(filter, flags, ptr::null_mut())];
        // SAFETY: the descriptor is open while the kernel watches it: its owner is in the registry,
        // and lets go only after `disarm`; the waker lives as long as the kqueue.
        unsafe { kqueue::kevent_timespec(&self.0, &changes, no_room, Some(&now)) }.map(drop)
    }
}

impl Kernel for Kqueue {
    const NAME: &'static str = NAME;

    fn arm(
        &mut self,
        entry: &Entry,
        before: Option<Interest>,
        interest: Interest,
    ) -> io::Result<()> {
        for direction in Direction::BOTH {
            if direction.is_in(Some(interest)) {
                self.change(entry.fd(), direction, EventFlags::ADD)?;
            } else if direction.is_in(before) {
                // Gone already if the descriptor was closed behind our back.
                let _ = self.change(entry.fd(), direction, EventFlags::DELETE);
            }
        }
        Ok(())
    }

    fn disarm(&mut self, entry: &Entry) {
        for direction in Direction::BOTH {
            let _ = self.change(entry.fd(), direction, EventFlags::DELETE);
        }
    }
}

impl Backend for KqueueSelector {
    type Kernel = Kqueue;

    fn watched(&self) -> &Watched<Kqueue> {
        &self.watched
    }

    fn watched_mut(&mut self) -> &mut Watched<Kqueue> {
        &mut self.watched
    }

    fn wait(&mut self, _: &mut Events, timeout: Option<Duration>) -> io::Result<()> {
        self.buffer.clear();
        // Two filters each, and the waker's.
        self.buffer.reserve(2 * self.watched.registry.len() + 1);
        let timeout = fine_timespec(timeout);
        let room = spare_capacity(&mut self.buffer);
        // SAFETY: no change is made here.
        unsafe { kqueue::kevent_timespec(&self.watched.kernel.0, &[], room, timeout.as_ref()) }?;
        Ok(())
    }

    fn report(&mut self, events: &mut Events) -> io::Result<()> {
        self.ready.clear();
        for event in &self.buffer {
            let (fd, direction) = match event.filter() {
                EventFilter::Read(fd) => (fd, Direction::Read),
                EventFilter::Write(fd) => (fd, Direction::Write),
                _ => continue,
            };
            if fd == self.watched.waker.raw_fd() {
                self.watched.waker.drain();
            } else if let Some(token) = self.watched.registry.by_fd(fd) {
                // The kernel drops the filters of what is closed: the number's is the present one.
                self.ready.push((token, readiness(direction, event.flags().bits())));
            }
        }
        merge(&mut self.ready);
        let registry = &self.watched.registry;
        events.extend(self.ready.iter().filter_map(|&(token, what)| registry.event(token, what)));
        Ok(())
    }

    fn pollable(&self) -> Option<BorrowedFd<'_>> {
        Some(AsFd::as_fd(self))
    }
}

impl AsFd for KqueueSelector {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.watched.kernel.0.as_fd()
    }
}

impl fmt::Debug for KqueueSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KqueueSelector")
            .field("kqueue", &self.watched.kernel.0)
            .field("registry", &self.watched.registry)
            .finish_non_exhaustive()
    }
}
