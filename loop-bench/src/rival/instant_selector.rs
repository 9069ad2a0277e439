//! No rival: a selector that asks no kernel. What a wait costs around the system call shows when there is none.

use std::io;
use std::os::fd::BorrowedFd;
use std::rc::Rc;
use std::time::Duration;

use loop_selector::{
    AsSource, Event, Events, Interest, PollSelector, Readiness, RegisterError, Selector, Token,
    forward_selector,
};

/// Whatever is registered is always readable.
pub(crate) struct Instant {
    /// Keeps the books; it is never asked to wait.
    inner: PollSelector,
    tokens: Vec<Token>,
}

impl Instant {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self { inner: PollSelector::new()?, tokens: Vec::new() })
    }
}

impl Selector for Instant {
    fn select(&mut self, events: &mut Events, _timeout: Option<Duration>) -> io::Result<()> {
        events.clear();
        for &token in &self.tokens {
            events.push(Event::Ready { token, readiness: Readiness::READABLE });
        }
        Ok(())
    }

    fn register(
        &mut self,
        owner: Rc<dyn AsSource>,
        interest: Interest,
    ) -> Result<Token, RegisterError> {
        let token = self.inner.register(owner, interest)?;
        self.tokens.push(token);
        Ok(token)
    }

    fn deregister(&mut self, token: Token) -> io::Result<Rc<dyn AsSource>> {
        self.tokens.retain(|&known| known != token);
        self.inner.deregister(token)
    }

    fn name(&self) -> &'static str {
        "instant"
    }

    fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    forward_selector!(inner: modify rearm registry waker);
}
