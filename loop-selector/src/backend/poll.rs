//! poll: POSIX's own, available everywhere. The whole set travels to the kernel on each wait, so a
//! wait is O(n) in what is watched; in return nothing needs telling beforehand.

use std::io;
use std::os::fd::BorrowedFd;
use std::rc::Rc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;

use crate::error::{RegisterError, SelectorError};
use crate::event::Events;
use crate::interest::{Interest, Readiness};
use crate::process::Process;
use crate::registry::Registry;
use crate::room::make_room;
use crate::selector::Selector;
use crate::source::AsSource;
use crate::timeout::timespec;
use crate::token::Token;
use crate::waker::Waker;

const NAME: &str = "poll";

/// The portable selector. Accepts every descriptor: a regular file is always ready (B-SEL-05), and
/// a closed one is reported ready for all it is watched for, so that the next read or write says
/// what is wrong, and is silent then until it is watched for something again (B-SEL-06, B-SEL-25).
///
/// In the child of a `fork`, `select` fails: it would take the parent's wakes (B-SEL-31).
#[derive(Debug)]
pub struct PollSelector {
    waker: Waker,
    registry: Registry,
    /// The arguments of the last wait, empty, kept for their memory.
    fds: Vec<PollFd<'static>>,
    tokens: Vec<Token>,
    process: Process,
}

impl PollSelector {
    /// A selector that watches nothing but its waker. Polls once, to know that it can (B-SEL-30).
    ///
    /// # Errors
    /// Those of `poll` and [`Waker::new`].
    pub fn new() -> io::Result<PollSelector> {
        PollSelector::with_waker(Waker::new().map_err(|e| SelectorError::create(NAME, e))?)
    }

    /// The same around a waker that exists already, which no other selector may wait for.
    ///
    /// # Errors
    /// Those of `poll`.
    pub fn with_waker(waker: Waker) -> io::Result<PollSelector> {
        let mut probe = [PollFd::new(&waker, PollFlags::IN)];
        rustix::event::poll(&mut probe, timespec(Some(Duration::ZERO)).as_ref())
            .map_err(|errno| SelectorError::create(NAME, errno.into()))?;
        Ok(PollSelector {
            waker,
            registry: Registry::for_backend(NAME),
            fds: Vec::new(),
            tokens: Vec::new(),
            process: Process::current()?,
        })
    }
}

pub(crate) fn poll_flags(interest: Interest) -> PollFlags {
    let mut flags = PollFlags::empty();
    flags.set(PollFlags::IN, interest.is_readable());
    flags.set(PollFlags::OUT, interest.is_writable());
    flags
}

/// Whatever is not plain "readable" makes writable, and the other way round (B-SEL-19): HUP, ERR
/// and NVAL wake whoever waits.
pub(crate) fn readiness(flags: PollFlags) -> Readiness {
    Readiness::new(flags.intersects(!PollFlags::OUT), flags.intersects(!PollFlags::IN))
}

/// An empty vector of another lifetime in the same memory. Collecting from a vector's own iterator
/// reuses its allocation; were that ever to change, this would cost an allocation a wait.
fn recycle(mut fds: Vec<PollFd<'_>>) -> Vec<PollFd<'static>> {
    fds.clear();
    fds.into_iter().map(|_| unreachable!("the vector was cleared")).collect()
}

impl Selector for PollSelector {
    fn register(
        &mut self,
        owner: Rc<dyn AsSource>,
        interest: Interest,
    ) -> Result<Token, RegisterError> {
        self.registry.insert(owner, interest)
    }

    fn modify(&mut self, token: Token, interest: Option<Interest>) -> io::Result<()> {
        self.registry.set_interest(token, interest)
    }

    fn rearm(&mut self, token: Token) -> io::Result<()> {
        // The kernel remembers nothing, so there is nothing to remind it of.
        self.registry.lookup(token).map(drop)
    }

    fn deregister(&mut self, token: Token) -> io::Result<Rc<dyn AsSource>> {
        Ok(self.registry.remove(token)?.into_owner())
    }

    fn select(&mut self, events: &mut Events, timeout: Option<Duration>) -> io::Result<()> {
        events.clear();
        self.process.check(NAME)?;
        self.tokens.clear();
        make_room(&mut self.tokens, self.registry.len());
        let mut fds: Vec<PollFd<'_>> = std::mem::take(&mut self.fds);
        make_room(&mut fds, self.registry.len() + 1);
        fds.push(PollFd::new(&self.waker, PollFlags::IN));
        // A silent entry is left out: HUP and ERR cannot be masked.
        for (entry, interest) in self.registry.iter().filter_map(|e| Some((e, e.interest()?))) {
            self.tokens.push(entry.token());
            fds.push(PollFd::new(entry, poll_flags(interest)));
        }
        let sleep = timeout != Some(Duration::ZERO) && self.waker.park();
        let timeout = timespec(if sleep { timeout } else { Some(Duration::ZERO) });
        let result = rustix::event::poll(&mut fds, timeout.as_ref());
        self.waker.unpark();
        let mut closed = Vec::new();
        if result.is_ok() {
            if !fds[0].revents().is_empty() {
                self.waker.drain();
            }
            for (&token, fd) in self.tokens.iter().zip(&fds[1..]) {
                events.extend(self.registry.event(token, readiness(fd.revents())));
                if fd.revents().contains(PollFlags::NVAL) {
                    closed.push(token);
                }
            }
        }
        self.fds = recycle(fds);
        closed.into_iter().try_for_each(|token| self.registry.set_interest(token, None))?;
        match result {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }

    fn registry(&self) -> &Registry {
        &self.registry
    }

    fn waker(&self) -> Waker {
        self.waker.clone()
    }

    fn name(&self) -> &'static str {
        NAME
    }

    fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}
