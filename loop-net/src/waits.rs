//! Tasks that wait for one descriptor.

use std::cell::{Cell, RefCell};
use std::io;
use std::os::fd::RawFd;
use std::rc::{Rc, Weak};
use std::task::{Context, Poll, Waker};

use loop_core::{Awaited, Interest, IoHandler, Listing, LoopRef, Readiness, Token, WaitsFor};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    Read,
    Write,
}

/// Who waits for a descriptor, a direction each.
pub(crate) struct Waits {
    lp: LoopRef,
    fd: RawFd,
    listing: Listing,
    /// Kept from the first wait on, silent while nobody waits.
    pub(crate) token: Cell<Option<Token>>,
    read: Slot,
    write: Slot,
}

#[derive(Default)]
pub(crate) struct Slot {
    /// An operation waits, or was woken and has not looked yet.
    waiting: Cell<bool>,
    wanted: Cell<bool>,
    ready: Cell<bool>,
    waker: RefCell<Option<Waker>>,
}

impl Waits {
    pub(crate) fn new(lp: LoopRef, fd: RawFd) -> Waits {
        Waits {
            lp,
            fd,
            listing: Listing::new(),
            token: Cell::new(None),
            read: Slot::default(),
            write: Slot::default(),
        }
    }

    /// Shows up in dumps of who waits for what.
    pub(crate) fn enlist(self: &Rc<Self>) {
        self.listing.enter(|| Rc::downgrade(self) as Weak<dyn Awaited>);
    }

    pub(crate) fn slot(&self, direction: Direction) -> &Slot {
        match direction {
            Direction::Read => &self.read,
            Direction::Write => &self.write,
        }
    }

    pub(crate) fn interest(&self) -> Option<Interest> {
        match (self.read.wanted.get(), self.write.wanted.get()) {
            (true, true) => Some(Interest::READ | Interest::WRITE),
            (true, false) => Some(Interest::READ),
            (false, true) => Some(Interest::WRITE),
            (false, false) => None,
        }
    }

    /// Tells the loop what is wanted by now. `false` if nothing is registered yet.
    pub(crate) fn tell(&self) -> bool {
        self.token.get().is_some_and(|token| self.lp.set_interest(token, self.interest()))
    }
}

impl Awaited for Waits {
    fn each_wait(&self, visit: &mut dyn FnMut(&Waker, WaitsFor)) {
        for (slot, interest) in [(&self.read, Interest::READ), (&self.write, Interest::WRITE)] {
            if let Some(waker) = &*slot.waker.borrow() {
                visit(waker, WaitsFor::Descriptor { fd: self.fd, interest });
            }
        }
    }
}

impl Slot {
    pub(crate) fn check(&self, fd: RawFd) -> io::Result<()> {
        if self.waiting.get() {
            let message = format!("another operation in this direction waits for fd {fd}");
            return Err(io::Error::new(io::ErrorKind::ResourceBusy, message));
        }
        Ok(())
    }

    pub(crate) fn poll(&self, cx: &mut Context<'_>) -> Poll<()> {
        if self.ready.get() {
            return Poll::Ready(());
        }
        let same = self.waker.borrow().as_ref().is_some_and(|waker| waker.will_wake(cx.waker()));
        if !same {
            let waker = cx.waker().clone();
            let old = self.waker.borrow_mut().replace(waker);
            drop(old);
        }
        Poll::Pending
    }

    /// Whoever is woken usually waits again for the same before the loop does, so the selector is left
    /// alone. One who does not even look is not reported to again.
    pub(crate) fn wake(&self) {
        if self.ready.replace(true) {
            self.wanted.set(false);
        }
        let waker = self.waker.borrow_mut().take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    pub(crate) fn begin(&self) {
        self.waiting.set(true);
        self.wanted.set(true);
        self.ready.set(false);
    }

    pub(crate) fn end(&self) {
        self.waiting.set(false);
        self.wanted.set(false);
        let waker = self.waker.borrow_mut().take();
        drop(waker);
    }
}

impl IoHandler for Waits {
    fn ready(self: Rc<Self>, readiness: Readiness, _: &mut Vec<u8>) {
        if readiness.is_readable() && self.read.wanted.get() {
            self.read.wake();
        }
        if readiness.is_writable() && self.write.wanted.get() {
            self.write.wake();
        }
        self.tell();
    }
}
