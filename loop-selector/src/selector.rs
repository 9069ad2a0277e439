//! The contract of a backend.

use std::io;
use std::os::fd::BorrowedFd;
use std::rc::Rc;
use std::time::Duration;

use crate::error::RegisterError;
use crate::event::Events;
use crate::interest::Interest;
use crate::registry::Registry;
use crate::source::AsSource;
use crate::token::Token;
use crate::waker::Waker;

/// Waits until one of many descriptors is ready: `selectors.BaseSelector`, level-triggered.
///
/// Object-safe, and meant to be implemented outside this crate too: [`Registry`] keeps the books,
/// [`Waker`] has the wake-up protocol, and the `conformance` feature is the test suite.
pub trait Selector {
    /// Starts watching a descriptor. The selector keeps its owner until
    /// [`deregister`](Selector::deregister), or until it is dropped itself.
    ///
    /// # Errors
    /// `AlreadyExists` if the descriptor is registered, `InvalidInput` if its number is negative,
    /// or what the kernel says, for instance `EPERM` for a regular file on epoll. Nothing is
    /// registered then, and the error gives the owner back (B-SEL-02 to 04).
    fn register(
        &mut self,
        owner: Rc<dyn AsSource>,
        interest: Interest,
    ) -> Result<Token, RegisterError>;

    /// Changes what a descriptor is watched for. `None` keeps it registered but silent: not even a
    /// hang-up is reported. An unchanged interest makes no system call (B-SEL-11).
    ///
    /// # Errors
    /// `NotFound` if the token's registration is over. If the kernel refuses, its error, and the
    /// descriptor is registered but silent (B-SEL-12).
    fn modify(&mut self, token: Token, interest: Option<Interest>) -> io::Result<()>;

    /// Tells the kernel once more what it should know already: for a descriptor that was closed
    /// and whose number another file has got since, which only a
    /// [`RawSource`](crate::RawSource) can bring about (B-SEL-13). Nothing to do for a silent one.
    ///
    /// # Errors
    /// As for [`modify`](Selector::modify).
    fn rearm(&mut self, token: Token) -> io::Result<()>;

    /// Stops watching a descriptor and gives its owner back, whatever the kernel says about it
    /// (B-SEL-08). The token is stale from now on; events for it are not reported.
    ///
    /// # Errors
    /// `NotFound` if the token's registration is over.
    fn deregister(&mut self, token: Token) -> io::Result<Rc<dyn AsSource>>;

    /// Empties `events`, waits until something is ready, a [`Waker`] wakes, a signal is handled or
    /// `timeout` is over, and fills `events` with what is ready. All of it: as many events as there
    /// are registrations fit into one batch (B-SEL-23).
    ///
    /// `None` waits for ever, `Some(Duration::ZERO)` not at all. A timeout is rounded up to what
    /// the backend can wait, and a huge one is clamped: a wait may return early with no events, so
    /// compute what is left and wait again.
    ///
    /// # Errors
    /// Only what the kernel says and the caller cannot ignore. A timeout, a wake and an
    /// interruption by a signal are `Ok` with no events (B-SEL-17).
    fn select(&mut self, events: &mut Events, timeout: Option<Duration>) -> io::Result<()>;

    /// What is registered.
    fn registry(&self) -> &Registry;

    /// What ends a wait from another thread. All clones share one state.
    fn waker(&self) -> Waker;

    /// The backend's name, such as `"epoll"`.
    fn name(&self) -> &'static str;

    /// A descriptor that is readable while a wait would not block, if the backend has one: to wait
    /// on this selector inside another loop. [`Waker::park`] first, or wakes are not seen there.
    fn as_fd(&self) -> Option<BorrowedFd<'_>>;
}

impl Selector for Box<dyn Selector + '_> {
    fn register(
        &mut self,
        owner: Rc<dyn AsSource>,
        interest: Interest,
    ) -> Result<Token, RegisterError> {
        (**self).register(owner, interest)
    }

    fn modify(&mut self, token: Token, interest: Option<Interest>) -> io::Result<()> {
        (**self).modify(token, interest)
    }

    fn rearm(&mut self, token: Token) -> io::Result<()> {
        (**self).rearm(token)
    }

    fn deregister(&mut self, token: Token) -> io::Result<Rc<dyn AsSource>> {
        (**self).deregister(token)
    }

    fn select(&mut self, events: &mut Events, timeout: Option<Duration>) -> io::Result<()> {
        (**self).select(events, timeout)
    }

    fn registry(&self) -> &Registry {
        (**self).registry()
    }

    fn waker(&self) -> Waker {
        (**self).waker()
    }

    fn name(&self) -> &'static str {
        (**self).name()
    }

    fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        (**self).as_fd()
    }
}
