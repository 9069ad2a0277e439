//! A selector that notes what it is asked.

use std::cell::{Cell, RefCell};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::rc::{Rc, Weak};
use std::time::Duration;

use loop_core::{AsSource, Interest, Readiness, RegisterError, Selector, Token};
use loop_selector::{Event, Events, by_name, forward_selector};

/// The owner of a registered descriptor, as somebody else who has it: what [`Log::owners`] found.
/// It keeps the descriptor open.
pub struct Owner(Rc<dyn AsSource>);

impl AsFd for Owner {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.source_fd()
    }
}

type Registered = (Token, Weak<dyn AsSource>);

/// What a [`LogSelector`] was asked.
#[derive(Clone, Default)]
pub struct Log {
    pub registers: Rc<Cell<usize>>,
    pub deregisters: Rc<Cell<usize>>,
    pub waits: Rc<Cell<usize>>,
    modifies: Rc<RefCell<Vec<Option<Interest>>>>,
    fds: Rc<RefCell<Vec<Registered>>>,
    /// Says of everything that it is readable, whether it is or not.
    pub lies: Rc<Cell<bool>>,
}

impl Log {
    /// The changed interests since the last call.
    pub fn take_modifies(&self) -> Vec<Option<Interest>> {
        std::mem::take(&mut self.modifies.borrow_mut())
    }

    pub fn registered(&self) -> usize {
        self.fds.borrow().len()
    }

    /// Of all that is registered.
    pub fn owners(&self) -> Vec<Owner> {
        let fds = self.fds.borrow();
        let alive = |(_, owner): &Registered| owner.upgrade().expect("what is registered is alive");
        fds.iter().map(|registered| Owner(alive(registered))).collect()
    }
}

/// A selector that notes what it is asked.
pub struct LogSelector {
    inner: Box<dyn Selector>,
    log: Log,
}

impl LogSelector {
    pub fn new(name: &str) -> (Box<LogSelector>, Log) {
        let log = Log::default();
        (Box::new(LogSelector { inner: by_name(name).unwrap(), log: log.clone() }), log)
    }
}

impl Selector for LogSelector {
    fn register(
        &mut self,
        owner: Rc<dyn AsSource>,
        interest: Interest,
    ) -> Result<Token, RegisterError> {
        let weak = Rc::downgrade(&owner);
        let token = self.inner.register(owner, interest)?;
        self.log.registers.set(self.log.registers.get() + 1);
        self.log.fds.borrow_mut().push((token, weak));
        Ok(token)
    }

    fn modify(&mut self, token: Token, interest: Option<Interest>) -> io::Result<()> {
        self.log.modifies.borrow_mut().push(interest);
        self.inner.modify(token, interest)
    }

    fn deregister(&mut self, token: Token) -> io::Result<Rc<dyn AsSource>> {
        self.log.deregisters.set(self.log.deregisters.get() + 1);
        self.log.fds.borrow_mut().retain(|(other, _)| *other != token);
        self.inner.deregister(token)
    }

    fn select(&mut self, events: &mut Events, timeout: Option<Duration>) -> io::Result<()> {
        self.log.waits.set(self.log.waits.get() + 1);
        self.inner.select(events, timeout)?;
        if self.log.lies.get() {
            for (token, _) in &*self.log.fds.borrow() {
                events.push(Event::Ready { token: *token, readiness: Readiness::READABLE });
            }
        }
        Ok(())
    }

    forward_selector!(inner: rearm registry waker name as_fd);
}
