//! epoll: the kernel remembers the interest, and a wait costs what is ready, not what is watched.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;
use std::time::Duration;

use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::{DupFlags, Errno};

use crate::error::{RegisterError, SelectorError, unknown_token};
use crate::event::Events;
use crate::interest::{Interest, Readiness};
use crate::registry::{Entry, Registry};
use crate::selector::Selector;
use crate::source::AsSource;
use crate::timeout::timespec;
use crate::token::Token;
use crate::waker::Waker;

const NAME: &str = "epoll";

/// The user data of the waker's descriptor. No token has this value.
const WAKER: u64 = u64::MAX;

/// Linux's, Android's and illumos's selector. Refuses regular files and directories with `EPERM`
/// (B-SEL-05), and a closed descriptor with `EBADF` (B-SEL-06).
///
/// After a `fork` the child has the same epoll instance, not a copy, so it must not touch it: there
/// `register`, `modify` and `rearm` fail, while `deregister` and dropping release what is the
/// child's own and leave the parent's registrations alone (B-SEL-31). `select` does not check: it would
/// cost a system call a wait.
pub struct EpollSelector {
    // First, so that the kernel forgets everything at once before owners close their descriptors.
    epoll: OwnedFd,
    waker: Waker,
    buffer: Vec<epoll::Event>,
    registry: Registry,
    process: u32,
}

impl EpollSelector {
    /// An epoll instance, close-on-exec, that watches nothing but its waker.
    ///
    /// # Errors
    /// Those of `epoll_create1` and [`Waker::new`].
    pub fn new() -> io::Result<EpollSelector> {
        let waker = Waker::new()?;
        let epoll = create(&waker)?;
        let (buffer, registry, process) = (Vec::new(), Registry::new(), std::process::id());
        Ok(EpollSelector { epoll, waker, buffer, registry, process })
    }

    fn is_forked(&self) -> bool {
        std::process::id() != self.process
    }

    fn check_process(&self) -> io::Result<()> {
        if self.is_forked() {
            return Err(io::Error::other("epoll: this selector belongs to the parent process"));
        }
        Ok(())
    }

    /// Starts again with a fresh kernel object under the old number, because an orphan is in the
    /// present one: a descriptor closed too early, whose file a duplicate keeps open, is reported
    /// for ever and cannot be removed (B-SEL-25). O(n) in what is registered, and very rare.
    fn rebuild(&mut self) -> io::Result<()> {
        let fresh = create(&self.waker)?;
        let mut lost = Vec::new();
        for (entry, interest) in self.registry.iter().filter_map(|e| Some((e, e.interest()?))) {
            if arm(&fresh, entry, interest, false).is_err() {
                lost.push(entry.token());
            }
        }
        rustix::io::dup3(&fresh, &mut self.epoll, DupFlags::CLOEXEC)?;
        lost.into_iter().try_for_each(|token| self.registry.set_interest(token, None))
    }

    /// The system call behind `modify` and `rearm`. Afterwards the registry says what the kernel
    /// watches: `interest`, or nothing if it refused.
    fn update(&mut self, token: Token, interest: Option<Interest>) -> io::Result<()> {
        self.check_process()?;
        let entry = self.registry.get(token).ok_or_else(|| unknown_token(token))?;
        let result = match interest {
            Some(interest) => arm(&self.epoll, entry, interest, entry.interest().is_some())
                .map_err(|errno| SelectorError::wrap(NAME, "modify", entry.fd(), errno.into())),
            None => Ok(()),
        };
        if interest.is_none() || result.is_err() {
            // HUP and ERR cannot be masked: to be silent is to be out of the set.
            disarm(&self.epoll, entry);
        }
        self.registry.set_interest(token, interest.filter(|_| result.is_ok()))?;
        result
    }
}

/// A kernel object that watches nothing but the waker.
fn create(waker: &Waker) -> rustix::io::Result<OwnedFd> {
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    epoll::add(&epoll, waker, EventData::new_u64(WAKER), EventFlags::IN)?;
    Ok(epoll)
}

/// Makes the kernel watch `entry`. `known` is whether we believe that it does already; if a
/// descriptor was closed behind our back, the kernel knows better (B-SEL-13).
fn arm(epoll: &OwnedFd, entry: &Entry, interest: Interest, known: bool) -> rustix::io::Result<()> {
    let data = EventData::new_u64(entry.token().to_bits());
    let mut flags = EventFlags::empty();
    flags.set(EventFlags::IN, interest.is_readable());
    flags.set(EventFlags::OUT, interest.is_writable());
    let add = || epoll::add(epoll, entry, data, flags);
    let modify = || epoll::modify(epoll, entry, data, flags);
    match if known { modify() } else { add() } {
        Err(Errno::NOENT) if known => add(),
        Err(Errno::EXIST) if !known => modify(),
        result => result,
    }
}

/// Makes the kernel forget `entry`. Any refusal means that it had done so already (B-SEL-08).
fn disarm(epoll: &OwnedFd, entry: &Entry) {
    let _ = epoll::delete(epoll, entry);
}

/// Whatever is not plain "readable" makes writable, and the other way round (B-SEL-19): HUP and
/// ERR wake whoever waits.
fn readiness(flags: EventFlags) -> Readiness {
    let mut readiness = Readiness::NONE;
    if flags.intersects(!EventFlags::OUT) {
        readiness |= Readiness::READABLE;
    }
    if flags.intersects(!EventFlags::IN) {
        readiness |= Readiness::WRITABLE;
    }
    readiness
}

impl Selector for EpollSelector {
    fn register(
        &mut self,
        owner: Rc<dyn AsSource>,
        interest: Interest,
    ) -> Result<Token, RegisterError> {
        if let Err(error) = self.check_process() {
            return Err(RegisterError::new(owner, error));
        }
        let epoll = &self.epoll;
        self.registry.insert_with(owner, interest, |entry| {
            arm(epoll, entry, interest, false).map_err(|errno| {
                let hint = match errno {
                    Errno::PERM => "regular files and directories cannot be polled",
                    _ => "",
                };
                SelectorError::wrap_with_hint(NAME, "register", entry.fd(), errno.into(), hint)
            })
        })
    }

    fn modify(&mut self, token: Token, interest: Option<Interest>) -> io::Result<()> {
        match self.registry.get(token) {
            Some(entry) if entry.interest() == interest => Ok(()),
            _ => self.update(token, interest),
        }
    }

    fn rearm(&mut self, token: Token) -> io::Result<()> {
        let interest = self.registry.get(token).and_then(Entry::interest);
        self.update(token, interest)
    }

    fn deregister(&mut self, token: Token) -> io::Result<Rc<dyn AsSource>> {
        let entry = self.registry.remove(token)?;
        if entry.interest().is_some() && !self.is_forked() {
            disarm(&self.epoll, &entry);
        }
        Ok(entry.into_owner())
    }

    fn select(&mut self, events: &mut Events, timeout: Option<Duration>) -> io::Result<()> {
        events.clear();
        self.buffer.clear();
        self.buffer.reserve(self.registry.len() + 1);
        let sleep = timeout != Some(Duration::ZERO) && self.waker.park();
        let timeout = timespec(if sleep { timeout } else { Some(Duration::ZERO) });
        let result = epoll::wait(&self.epoll, spare_capacity(&mut self.buffer), timeout.as_ref());
        self.waker.unpark();
        match result {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        let mut orphan = false;
        for raw in &self.buffer {
            let (flags, data) = (raw.flags, raw.data.u64());
            if data == WAKER {
                self.waker.drain();
                continue;
            }
            match self.registry.event(Token::from_bits(data), readiness(flags)) {
                Some(event) => events.push(event),
                None => orphan = true,
            }
        }
        if orphan {
            // If it fails, for want of a descriptor say, the next wait tries again.
            let _ = self.rebuild();
        }
        Ok(())
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
        Some(AsFd::as_fd(&self.epoll))
    }
}

impl AsFd for EpollSelector {
    fn as_fd(&self) -> BorrowedFd<'_> {
        AsFd::as_fd(&self.epoll)
    }
}

impl fmt::Debug for EpollSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EpollSelector")
            .field("epoll", &self.epoll)
            .field("registry", &self.registry)
            .finish_non_exhaustive()
    }
}
