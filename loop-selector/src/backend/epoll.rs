//! epoll: the kernel remembers the interest, and a wait costs what is ready, not what is watched.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::buffer::spare_capacity;
use rustix::event::Timespec;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::{DupFlags, Errno};

use super::kernel::{Backend, Kernel, Watched};
use crate::error::SelectorError;
use crate::event::Events;
use crate::interest::{Interest, Readiness};
use crate::registry::Entry;
use crate::room::make_room;
use crate::timeout::timespec;
use crate::token::Token;
use crate::waker::Waker;

const NAME: &str = "epoll";

/// That of a wait which only looks.
const NO_TIME: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };

/// The user data of the waker's descriptor. No token has this value.
const WAKER: u64 = u64::MAX;

/// Linux's, Android's and illumos's selector. Refuses regular files and directories with `EPERM`
/// (B-SEL-05), and a closed descriptor with `EBADF` (B-SEL-06).
///
/// A wait is as long as was asked for, to the nanosecond, where the kernel has `epoll_pwait2` (Linux
/// 5.11); else it is rounded up to a millisecond (B-SEL-15).
///
/// After a `fork` the child has the same epoll instance, not a copy, so it must not touch it: there
/// `register`, `modify`, `rearm` and `select` fail, while `deregister` and dropping release what is
/// the child's own and leave the parent's registrations alone (B-SEL-31).
pub struct EpollSelector {
    watched: Watched<Epoll>,
    buffer: Vec<epoll::Event>,
    /// False once the kernel, or a seccomp filter, has refused `epoll_pwait2`.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    has_pwait2: bool,
}

pub(crate) struct Epoll(OwnedFd);

impl EpollSelector {
    /// An epoll instance, close-on-exec, that watches nothing but a waker of its own.
    ///
    /// # Errors
    /// Those of `epoll_create1` and [`Waker::new`].
    pub fn new() -> io::Result<EpollSelector> {
        EpollSelector::with_waker(Waker::new().map_err(|e| SelectorError::create(NAME, e))?)
    }

    /// The same around a waker that exists already, which no other selector may wait for.
    ///
    /// # Errors
    /// Those of `epoll_create1`.
    pub fn with_waker(waker: Waker) -> io::Result<EpollSelector> {
        let epoll = Epoll::new(&waker).map_err(|e| SelectorError::create(NAME, e.into()))?;
        Ok(EpollSelector {
            watched: Watched::new(epoll, waker)?,
            buffer: Vec::new(),
            #[cfg(any(target_os = "linux", target_os = "android"))]
            has_pwait2: true,
        })
    }

    #[inline]
    fn fill_buffer(&mut self, timeout: Option<Duration>) -> rustix::io::Result<()> {
        // Most waits of a busy loop are of no time, and there is nothing to convert then.
        if timeout == Some(Duration::ZERO) {
            let epoll = &self.watched.kernel.0;
            return epoll::wait(epoll, spare_capacity(&mut self.buffer), Some(&NO_TIME)).map(drop);
        }
        self.sleep(timeout)
    }

    #[inline(never)]
    fn sleep(&mut self, timeout: Option<Duration>) -> rustix::io::Result<()> {
        let epoll = &self.watched.kernel.0;
        #[cfg(any(target_os = "linux", target_os = "android"))]
        if let Some(fine) = crate::timeout::odd_timespec(timeout).filter(|_| self.has_pwait2) {
            match super::epoll_wait::epoll_pwait2(epoll, &mut self.buffer, &fine) {
                // Too old a kernel; or a filter that has not heard of the call.
                Err(Errno::NOSYS | Errno::PERM) => self.has_pwait2 = false,
                result => return result,
            }
        }
        epoll::wait(epoll, spare_capacity(&mut self.buffer), timespec(timeout).as_ref()).map(drop)
    }

    /// Turns what was reported into events.
    fn make_events(&mut self, events: &mut Events) {
        let view = self.watched.registry.view();
        let told = self.buffer.iter();
        events.refill(
            self.buffer.len(),
            told.filter_map(|raw| view.event(token(raw), readiness(raw.flags))),
        );
        if events.len() < self.buffer.len() {
            self.look_at_the_rest();
        }
    }

    /// Among what was reported is what makes no event: the waker, or an orphan.
    #[cold]
    fn look_at_the_rest(&mut self) {
        let registry = &self.watched.registry;
        let silent =
            |raw: &&epoll::Event| registry.event(token(raw), readiness(raw.flags)).is_none();
        let mut orphan = false;
        for raw in self.buffer.iter().filter(silent) {
            if raw.data.u64() == WAKER { self.watched.waker.drain() } else { orphan = true }
        }
        if orphan {
            // If it fails, for want of a descriptor say, the next wait tries again.
            let _ = self.rebuild();
        }
    }

    /// Starts again with a fresh kernel object under the old number, because an orphan is in the
    /// present one: a descriptor closed too early, whose file a duplicate keeps open, is reported
    /// for ever and cannot be removed (B-SEL-25). O(n) in what is registered, and very rare.
    fn rebuild(&mut self) -> io::Result<()> {
        let Watched { kernel, registry, waker, .. } = &mut self.watched;
        let mut fresh = Epoll::new(waker)?;
        let mut lost = Vec::new();
        for (entry, interest) in registry.iter().filter_map(|e| Some((e, e.interest()?))) {
            if fresh.arm(entry, None, interest).is_err() {
                lost.push(entry.token());
            }
        }
        rustix::io::dup3(&fresh.0, &mut kernel.0, DupFlags::CLOEXEC)?;
        lost.into_iter().try_for_each(|token| registry.set_interest(token, None))
    }
}

impl Epoll {
    /// A kernel object that watches nothing but the waker.
    fn new(waker: &Waker) -> rustix::io::Result<Epoll> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        epoll::add(&epoll, waker, EventData::new_u64(WAKER), EventFlags::IN)?;
        Ok(Epoll(epoll))
    }
}

impl Kernel for Epoll {
    const NAME: &'static str = NAME;

    fn arm(
        &mut self,
        entry: &Entry,
        before: Option<Interest>,
        interest: Interest,
    ) -> io::Result<()> {
        let data = EventData::new_u64(entry.token().to_bits());
        let mut flags = EventFlags::empty();
        flags.set(EventFlags::IN, interest.is_readable());
        flags.set(EventFlags::OUT, interest.is_writable());
        let add = || epoll::add(&self.0, entry, data, flags);
        let modify = || epoll::modify(&self.0, entry, data, flags);
        let known = before.is_some();
        let result = match if known { modify() } else { add() } {
            Err(Errno::NOENT) if known => add(),
            Err(Errno::EXIST) if !known => modify(),
            result => result,
        };
        Ok(result?)
    }

    fn disarm(&mut self, entry: &Entry) {
        let _ = epoll::delete(&self.0, entry);
    }

    fn hint(error: &io::Error) -> &'static str {
        match Errno::from_io_error(error) {
            Some(Errno::PERM) => "regular files and directories cannot be polled",
            _ => "",
        }
    }
}

/// Which registration an event is for.
fn token(raw: &epoll::Event) -> Token {
    Token::from_bits(raw.data.u64())
}

/// Whatever is not plain "readable" makes writable, and the other way round (B-SEL-19): HUP and
/// ERR wake whoever waits. A table, because this is a good part of what an event costs.
fn readiness(flags: EventFlags) -> Readiness {
    READINESS[flags.bits() as usize % READINESS.len()]
}

/// By the bits of IN, PRI, OUT, ERR and HUP; no other is asked for, or comes unasked.
const READINESS: [Readiness; 32] = {
    assert!(EventFlags::HUP.bits() == 16 && EventFlags::ERR.bits() == 8);
    let mut table = [Readiness::NONE; 32];
    let mut flags = 1;
    while flags < table.len() as u32 {
        let (read, write) = (EventFlags::IN.bits(), EventFlags::OUT.bits());
        table[flags as usize] = Readiness::new(flags & !write != 0, flags & !read != 0);
        flags += 1;
    }
    table
};

impl Backend for EpollSelector {
    type Kernel = Epoll;

    fn watched(&self) -> &Watched<Epoll> {
        &self.watched
    }

    fn watched_mut(&mut self) -> &mut Watched<Epoll> {
        &mut self.watched
    }

    #[inline]
    fn wait(&mut self, _: &mut Events, timeout: Option<Duration>) -> io::Result<()> {
        self.buffer.clear();
        make_room(&mut self.buffer, self.watched.registry.len() + 1);
        Ok(self.fill_buffer(timeout)?)
    }

    #[inline]
    fn report(&mut self, events: &mut Events) -> io::Result<()> {
        if !self.buffer.is_empty() {
            self.make_events(events);
        }
        Ok(())
    }

    fn pollable(&self) -> Option<BorrowedFd<'_>> {
        Some(AsFd::as_fd(self))
    }
}

impl AsFd for EpollSelector {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.watched.kernel.0.as_fd()
    }
}

impl fmt::Debug for EpollSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EpollSelector")
            .field("epoll", &self.watched.kernel.0)
            .field("registry", &self.watched.registry)
            .finish_non_exhaustive()
    }
}
