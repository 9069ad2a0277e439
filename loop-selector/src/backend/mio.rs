//! mio, which reports each change once, made to report what is still so.
//!
//! Whatever a wait reported is told to the kernel again before the wait returns. That makes it look
//! anew: a descriptor that is still ready is due again at once, and one that was used up meanwhile
//! is dropped by the next wait unseen. A call for each event, then, and none for what is quiet.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use mio::unix::SourceFd;

use super::kernel::{Backend, Kernel, Watched};
use crate::error::SelectorError;
use crate::event::{Event, Events};
use crate::interest::{Interest, Readiness};
use crate::registry::Entry;
use crate::token::Token;
use crate::waker::Waker;

const NAME: &str = "mio";

/// What mio calls the waker's descriptor. No token has this value.
const WAKER: mio::Token = mio::Token(usize::MAX);

/// The `mio` crate as a selector: its epoll or kqueue, edge-triggered inside and level-triggered as
/// seen from here (B-SEL-32). It refuses what those refuse, and rounds timeouts up to a millisecond
/// where they do.
///
/// A child of `fork` shares the kernel object and is kept from it: see
/// [`EpollSelector`](crate::EpollSelector).
pub struct MioSelector {
    watched: Watched<Poll>,
    buffer: mio::Events,
}

pub(crate) struct Poll(mio::Poll);

impl MioSelector {
    /// A `mio::Poll` that watches nothing but a waker of its own.
    ///
    /// # Errors
    /// Those of `mio::Poll::new` and [`Waker::new`].
    pub fn new() -> io::Result<MioSelector> {
        MioSelector::with_waker(Waker::new().map_err(|e| SelectorError::create(NAME, e))?)
    }

    /// The same around a waker that exists already, which no other selector may wait for.
    ///
    /// # Errors
    /// Those of `mio::Poll::new`.
    pub fn with_waker(waker: Waker) -> io::Result<MioSelector> {
        let poll = Poll::new(&waker).map_err(|e| SelectorError::create(NAME, e))?;
        let buffer = mio::Events::with_capacity(16);
        Ok(MioSelector { watched: Watched::new(poll, waker)?, buffer })
    }

    /// Makes room for one event of each registration, and of the waker.
    fn make_room(&mut self) {
        let wanted = self.watched.registry.len() + 1;
        if self.buffer.capacity() < wanted {
            self.buffer = mio::Events::with_capacity(wanted.next_power_of_two());
        }
    }
}

impl Poll {
    fn new(waker: &Waker) -> io::Result<Poll> {
        let poll = mio::Poll::new()?;
        let fd = waker.raw_fd();
        poll.registry().register(&mut SourceFd(&fd), WAKER, mio::Interest::READABLE)?;
        Ok(Poll(poll))
    }
}

fn mio_interest(interest: Interest) -> mio::Interest {
    match (interest.is_readable(), interest.is_writable()) {
        (true, true) => mio::Interest::READABLE | mio::Interest::WRITABLE,
        (true, false) => mio::Interest::READABLE,
        (false, _) => mio::Interest::WRITABLE,
    }
}

/// Errors and hang-ups wake whoever waits (B-SEL-19). A peer that has only finished sending makes
/// readable and nothing else, as it does for those backends that do not ask for it.
fn readiness(event: &mio::event::Event) -> Readiness {
    let broken = event.is_error() || event.is_write_closed();
    let mut readiness = Readiness::NONE;
    if event.is_readable() || event.is_read_closed() || broken {
        readiness |= Readiness::READABLE;
    }
    if event.is_writable() || broken {
        readiness |= Readiness::WRITABLE;
    }
    readiness
}

impl Kernel for Poll {
    const NAME: &'static str = NAME;

    fn arm(
        &mut self,
        entry: &Entry,
        before: Option<Interest>,
        interest: Interest,
    ) -> io::Result<()> {
        let (fd, interest) = (entry.fd(), mio_interest(interest));
        // A token fits: this backend exists where a `usize` has 64 bits.
        let token = mio::Token(entry.token().to_bits() as usize);
        let registry = self.0.registry();
        let add = || registry.register(&mut SourceFd(&fd), token, interest);
        let modify = || registry.reregister(&mut SourceFd(&fd), token, interest);
        if before.is_none() {
            return match add() {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => modify(),
                result => result,
            };
        }
        match modify() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => add(),
            result => result,
        }
    }

    fn disarm(&mut self, entry: &Entry) {
        // A refusal means that it was forgotten already (B-SEL-08).
        let _ = self.0.registry().deregister(&mut SourceFd(&entry.fd()));
    }

    fn hint(error: &io::Error) -> &'static str {
        match error.kind() {
            io::ErrorKind::PermissionDenied => "regular files and directories cannot be polled",
            _ => "",
        }
    }
}

impl Backend for MioSelector {
    type Kernel = Poll;

    fn watched(&self) -> &Watched<Poll> {
        &self.watched
    }

    fn watched_mut(&mut self) -> &mut Watched<Poll> {
        &mut self.watched
    }

    fn wait(&mut self, _: &mut Events, timeout: Option<Duration>) -> io::Result<()> {
        self.make_room();
        // mio rounds up and clamps as we do.
        self.watched.kernel.0.poll(&mut self.buffer, timeout)
    }

    fn report(&mut self, events: &mut Events) -> io::Result<()> {
        for event in &self.buffer {
            if event.token() == WAKER {
                self.watched.waker.drain();
                continue;
            }
            let token = Token::from_bits(event.token().0 as u64);
            events.extend(self.watched.registry.event(token, readiness(event)));
        }
        for &Event::Ready { token, .. } in &*events {
            // A refusal means that it was closed behind our back: it has been reported, this once,
            // and is silent from here on.
            let _ = self.watched.rearm(token);
        }
        Ok(())
    }

    fn pollable(&self) -> Option<BorrowedFd<'_>> {
        Some(AsFd::as_fd(self))
    }
}

impl AsFd for MioSelector {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.watched.kernel.0.registry().as_fd()
    }
}

impl fmt::Debug for MioSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MioSelector")
            .field("poll", &self.watched.kernel.0)
            .field("registry", &self.watched.registry)
            .finish_non_exhaustive()
    }
}
