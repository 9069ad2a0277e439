//! What backends share whose kernel object remembers what to watch: epoll, kqueue, `/dev/poll`, mio.
//!
//! The registry and the kernel must agree whatever fails, and this is the one place where they are
//! changed together.

use std::fmt;
use std::io;
use std::os::fd::BorrowedFd;
use std::rc::Rc;
use std::time::Duration;

use rustix::io::Errno;

use crate::error::{RegisterError, SelectorError};
use crate::event::Events;
use crate::interest::Interest;
use crate::process::Process;
use crate::registry::{Entry, Registry};
use crate::selector::Selector;
use crate::source::AsSource;
use crate::token::Token;
use crate::waker::Waker;

/// A kernel object that remembers what to watch.
pub(crate) trait Kernel {
    /// The backend's name.
    const NAME: &'static str;

    /// Makes it watch `entry` for `interest`, and only for that. `before` is what it was last told,
    /// which need not be true: a descriptor may have been closed behind our back, and then the
    /// kernel has forgotten it (B-SEL-13). If it fails half-way, `disarm` follows.
    fn arm(
        &mut self,
        entry: &Entry,
        before: Option<Interest>,
        interest: Interest,
    ) -> io::Result<()>;

    /// Makes it forget `entry`. Any refusal means that it had done so already (B-SEL-08).
    fn disarm(&mut self, entry: &Entry);

    /// What to add to the error of a registration; may be empty.
    fn hint(_error: &io::Error) -> &'static str {
        ""
    }
}

/// A kernel object and the books about it.
pub(crate) struct Watched<K> {
    // First, so that the kernel forgets everything at once before owners close their descriptors.
    pub(crate) kernel: K,
    pub(crate) registry: Registry,
    process: Process,
    /// Its descriptor is one that the kernel object watches too.
    pub(crate) waker: Waker,
}

/// A selector that is such a pair: this is how they differ, and [`Selector`] is the same for all.
pub(crate) trait Backend {
    /// What remembers.
    type Kernel: Kernel;

    fn watched(&self) -> &Watched<Self::Kernel>;

    fn watched_mut(&mut self) -> &mut Watched<Self::Kernel>;

    /// Waits until there is something to tell, for `timeout` at most; the waker is parked if that is to
    /// take time. What is told is kept for [`report`](Backend::report), unless it is events already.
    fn wait(&mut self, events: &mut Events, timeout: Option<Duration>) -> io::Result<()>;

    /// The waker is un-parked: takes in a wake, and turns what was told into events.
    fn report(&mut self, events: &mut Events) -> io::Result<()>;

    /// The books have changed, or a wait is over.
    fn settle(&self) {}

    /// See [`Selector::as_fd`].
    fn pollable(&self) -> Option<BorrowedFd<'_>>;
}

impl<B: Backend> Selector for B {
    fn register(
        &mut self,
        owner: Rc<dyn AsSource>,
        interest: Interest,
    ) -> Result<Token, RegisterError> {
        let result = self.watched_mut().register(owner, interest);
        self.settle();
        result
    }

    fn modify(&mut self, token: Token, interest: Option<Interest>) -> io::Result<()> {
        let result = self.watched_mut().modify(token, interest);
        self.settle();
        result
    }

    fn rearm(&mut self, token: Token) -> io::Result<()> {
        let result = self.watched_mut().rearm(token);
        self.settle();
        result
    }

    fn deregister(&mut self, token: Token) -> io::Result<Rc<dyn AsSource>> {
        let result = self.watched_mut().deregister(token);
        self.settle();
        result
    }

    fn select(&mut self, events: &mut Events, timeout: Option<Duration>) -> io::Result<()> {
        events.clear();
        self.watched().check_process()?;
        let sleep = timeout != Some(Duration::ZERO) && self.watched().waker.park();
        let told = self.wait(events, if sleep { timeout } else { Some(Duration::ZERO) });
        self.watched().waker.unpark();
        match told {
            Ok(()) => self.report(events)?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
        self.settle();
        Ok(())
    }

    fn registry(&self) -> &Registry {
        &self.watched().registry
    }

    fn waker(&self) -> Waker {
        self.watched().waker.clone()
    }

    fn name(&self) -> &'static str {
        B::Kernel::NAME
    }

    fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        self.pollable()
    }
}

impl<K: Kernel> Watched<K> {
    pub(crate) fn new(kernel: K, waker: Waker) -> io::Result<Watched<K>> {
        let (registry, process) = (Registry::for_backend(K::NAME), Process::current()?);
        Ok(Watched { kernel, registry, process, waker })
    }

    /// Refuses to touch the kernel object of a parent process.
    pub(crate) fn check_process(&self) -> io::Result<()> {
        self.process.check(K::NAME)
    }

    pub(crate) fn register(
        &mut self,
        owner: Rc<dyn AsSource>,
        interest: Interest,
    ) -> Result<Token, RegisterError> {
        if let Err(error) = self.check_process() {
            return Err(RegisterError::new(owner, error));
        }
        let (kernel, waker) = (&mut self.kernel, self.waker.raw_fd());
        self.registry.insert_with(owner, interest, |entry| {
            let (error, hint) = if entry.fd() == waker {
                (Errno::EXIST.into(), "it is the selector's own waker")
            } else {
                let Err(error) = kernel.arm(entry, None, interest) else { return Ok(()) };
                kernel.disarm(entry);
                let hint = K::hint(&error);
                (error, hint)
            };
            Err(SelectorError::wrap_with_hint(K::NAME, "register", entry.fd(), error, hint))
        })
    }

    pub(crate) fn modify(&mut self, token: Token, interest: Option<Interest>) -> io::Result<()> {
        match self.registry.get(token) {
            Some(entry) if entry.interest() == interest => Ok(()),
            _ => self.update(token, interest),
        }
    }

    pub(crate) fn rearm(&mut self, token: Token) -> io::Result<()> {
        let interest = self.registry.get(token).and_then(Entry::interest);
        self.update(token, interest)
    }

    /// The system call behind `modify` and `rearm`. Afterwards the registry says what the kernel
    /// watches: `interest`, or nothing if it refused.
    fn update(&mut self, token: Token, interest: Option<Interest>) -> io::Result<()> {
        self.check_process()?;
        let entry = self.registry.lookup(token)?;
        let result = match interest {
            Some(interest) => self
                .kernel
                .arm(entry, entry.interest(), interest)
                .map_err(|error| SelectorError::wrap(K::NAME, "modify", entry.fd(), error)),
            None => Ok(()),
        };
        if interest.is_none() || result.is_err() {
            // Nobody can mask a hang-up: to be silent is to be out of the set.
            self.kernel.disarm(entry);
        }
        self.registry.set_interest(token, interest.filter(|_| result.is_ok()))?;
        result
    }

    pub(crate) fn deregister(&mut self, token: Token) -> io::Result<Rc<dyn AsSource>> {
        let entry = self.registry.remove(token)?;
        if entry.interest().is_some() && !self.process.is_forked() {
            self.kernel.disarm(&entry);
        }
        Ok(entry.into_owner())
    }
}

impl<K> fmt::Debug for Watched<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.registry.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::RawFd;
    use std::os::unix::net::UnixStream;

    /// A kernel that notes what it is told, and refuses on demand.
    #[derive(Default)]
    struct Fake {
        refuses: bool,
        told: Vec<(RawFd, Option<Interest>)>,
    }

    impl Kernel for Fake {
        const NAME: &'static str = "fake";

        fn arm(&mut self, entry: &Entry, _: Option<Interest>, new: Interest) -> io::Result<()> {
            self.told.push((entry.fd(), Some(new)));
            if self.refuses { Err(Errno::NOSPC.into()) } else { Ok(()) }
        }

        fn disarm(&mut self, entry: &Entry) {
            self.told.push((entry.fd(), None));
        }
    }

    fn fake() -> (Watched<Fake>, Rc<UnixStream>, RawFd) {
        let source = Rc::new(UnixStream::pair().unwrap().0);
        let fd = std::os::fd::AsRawFd::as_raw_fd(&*source);
        (Watched::new(Fake::default(), Waker::new().unwrap()).unwrap(), source, fd)
    }

    const READ: Option<Interest> = Some(Interest::READ);
    const WRITE: Option<Interest> = Some(Interest::WRITE);

    #[test]
    fn b_sel_04_a_refused_registration_is_disarmed() {
        let (mut watched, source, fd) = fake();
        watched.kernel.refuses = true;
        let error = watched.register(source, Interest::READ).unwrap_err();
        assert!(error.to_string().starts_with(&format!("fake: register fd {fd}: ")), "{error}");
        assert_eq!(watched.kernel.told, [(fd, READ), (fd, None)]);
        assert!(watched.registry.is_empty());
    }

    #[test]
    fn b_sel_12_a_refused_change_is_disarmed_and_can_be_made_good() {
        let (mut watched, source, fd) = fake();
        let token = watched.register(source, Interest::READ).unwrap();
        watched.kernel.refuses = true;
        let error = watched.modify(token, WRITE).unwrap_err();
        assert!(error.to_string().starts_with(&format!("fake: modify fd {fd}: ")), "{error}");
        assert_eq!(watched.kernel.told, [(fd, READ), (fd, WRITE), (fd, None)]);
        assert_eq!(watched.registry.get(token).unwrap().interest(), None);
        watched.kernel.refuses = false;
        watched.modify(token, READ).unwrap();
        assert_eq!(watched.registry.get(token).unwrap().interest(), READ);
        assert_eq!(watched.kernel.told.last(), Some(&(fd, READ)));
    }

    #[test]
    fn b_sel_11_an_unchanged_interest_is_not_told_and_rearm_always_is() {
        let (mut watched, source, fd) = fake();
        let token = watched.register(source, Interest::READ).unwrap();
        watched.modify(token, READ).unwrap();
        assert_eq!(watched.kernel.told.len(), 1);
        watched.rearm(token).unwrap();
        assert_eq!(watched.kernel.told, [(fd, READ), (fd, READ)]);
        watched.modify(token, None).unwrap();
        watched.deregister(token).unwrap();
        // Silent already: nothing is left to be said.
        assert_eq!(watched.kernel.told, [(fd, READ), (fd, READ), (fd, None)]);
    }
}
