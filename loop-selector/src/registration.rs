//! Registrations that end with a value: for those who use this crate alone.

use std::cell::RefCell;
use std::fmt;
use std::io;
use std::ops::Deref;
use std::os::fd::{AsFd, BorrowedFd};
use std::rc::Rc;
use std::time::Duration;

use crate::error::RegisterError;
use crate::event::Events;
use crate::interest::Interest;
use crate::selector::Selector;
use crate::source::{AsSource, Held};
use crate::token::Token;
use crate::waker::Waker;

/// A selector that several parts of a program hold, and whose registrations end by being dropped.
/// Not `Send`; clones are the same selector.
///
/// ```
/// use loop_selector::{Events, Interest, SharedSelector, default_selector};
/// use std::{io::Write, os::unix::net::UnixStream};
///
/// let selector = SharedSelector::new(default_selector()?);
/// let (near, mut far) = UnixStream::pair()?;
/// let near = selector.register(near, Interest::READ)?; // still a `UnixStream`, watched
/// far.write_all(b"x")?;
/// let mut events = Events::new();
/// selector.select(&mut events, None)?;
/// assert_eq!((events.len(), near.peer_addr()?.is_unnamed()), (1, true));
/// drop(near); // deregistered, then closed
/// selector.select(&mut events, Some(std::time::Duration::ZERO))?;
/// assert!(events.is_empty());
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone)]
pub struct SharedSelector(Rc<RefCell<dyn Selector>>);

impl SharedSelector {
    /// Shares a selector.
    pub fn new(selector: impl Selector + 'static) -> SharedSelector {
        SharedSelector(Rc::new(RefCell::new(selector)))
    }

    /// Watches a descriptor for as long as the registration lives. Calls `source.as_fd()`, once.
    ///
    /// # Errors
    /// As for [`Selector::register`]. The error gives the source back, as an `Rc<dyn AsSource>`.
    pub fn register<T: AsSource + 'static>(
        &self,
        source: T,
        interest: Interest,
    ) -> Result<Registration<T>, RegisterError> {
        let source = Rc::new(source);
        // `as_fd` is the user's: it runs here, and not inside the borrow.
        let held = Held::new(source.clone()).map_err(|(o, error)| RegisterError::new(o, error))?;
        let result = self.0.borrow_mut().register(Rc::new(held), interest);
        match result {
            Ok(token) => Ok(Registration { selector: self.clone(), token, source }),
            Err(error) => Err(RegisterError::new(source, error.into())),
        }
    }

    /// Waits: [`Selector::select`].
    ///
    /// # Errors
    /// As for [`Selector::select`].
    pub fn select(&self, events: &mut Events, timeout: Option<Duration>) -> io::Result<()> {
        self.0.borrow_mut().select(events, timeout)
    }

    /// What ends a wait from another thread: [`Selector::waker`].
    pub fn waker(&self) -> Waker {
        self.0.borrow().waker()
    }

    /// The backend's name: [`Selector::name`].
    pub fn name(&self) -> &'static str {
        self.0.borrow().name()
    }

    /// How many registrations there are.
    pub fn len(&self) -> usize {
        self.0.borrow().registry().len()
    }

    /// True if nothing is registered.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl fmt::Debug for SharedSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SharedSelector").field(&self.name()).finish()
    }
}

/// A source that is watched until this is dropped. Derefs to the source.
pub struct Registration<T> {
    selector: SharedSelector,
    token: Token,
    source: Rc<T>,
}

impl<T> Registration<T> {
    /// What events name it by.
    pub fn token(&self) -> Token {
        self.token
    }

    /// Changes what it is watched for: [`Selector::modify`].
    ///
    /// # Errors
    /// As for [`Selector::modify`].
    pub fn modify(&self, interest: Option<Interest>) -> io::Result<()> {
        self.selector.0.borrow_mut().modify(self.token, interest)
    }
}

impl<T> Deref for Registration<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.source
    }
}

impl<T: AsFd> AsFd for Registration<T> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.source.as_fd()
    }
}

impl<T> Drop for Registration<T> {
    fn drop(&mut self) {
        // What comes back is not the last of its kind: the source goes with our field, after this,
        // so that nobody's `drop` runs inside the borrow.
        let _ = self.selector.0.borrow_mut().deregister(self.token);
    }
}

impl<T: fmt::Debug> fmt::Debug for Registration<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registration")
            .field("token", &self.token)
            .field("source", &self.source)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::poll::PollSelector;
    use std::os::unix::net::UnixStream;

    fn shared() -> SharedSelector {
        SharedSelector::new(PollSelector::new().unwrap())
    }

    #[test]
    fn dropping_a_registration_deregisters_and_then_closes() {
        let selector = shared();
        let (a, mut b) = UnixStream::pair().unwrap();
        let registration = selector.register(a, Interest::READ).unwrap();
        assert_eq!(selector.len(), 1);
        registration.modify(None).unwrap();
        drop(registration);
        assert!(selector.is_empty());
        // Closed: the other end is alone.
        assert_eq!(std::io::Read::read(&mut b, &mut [0]).unwrap(), 0);
    }

    #[test]
    fn a_registration_keeps_the_selector() {
        let selector = shared();
        let registration =
            selector.register(UnixStream::pair().unwrap().0, Interest::READ).unwrap();
        drop(selector);
        registration.modify(Some(Interest::WRITE)).unwrap();
        assert_eq!(registration.selector.len(), 1);
    }

    #[test]
    fn a_failed_registration_gives_the_source_back() {
        let selector = shared();
        let a = Rc::new(UnixStream::pair().unwrap().0);
        let first = selector.register(a.clone(), Interest::READ).unwrap();
        let error = selector.register(a.clone(), Interest::READ).unwrap_err();
        assert_eq!(error.error().kind(), io::ErrorKind::AlreadyExists);
        drop(error);
        drop(first);
        assert_eq!(Rc::strong_count(&a), 1);
    }

    /// A source that uses the selector in its own methods, which no borrow may forbid.
    struct Meddler(UnixStream, SharedSelector);

    impl AsFd for Meddler {
        fn as_fd(&self) -> BorrowedFd<'_> {
            assert!(self.1.is_empty());
            self.0.as_fd()
        }
    }

    impl Drop for Meddler {
        fn drop(&mut self) {
            assert!(self.1.is_empty(), "deregistered before it is dropped");
        }
    }

    #[test]
    fn no_borrow_is_held_while_the_source_runs() {
        let selector = shared();
        let meddler = Meddler(UnixStream::pair().unwrap().0, selector.clone());
        drop(selector.register(meddler, Interest::READ).unwrap());
        assert!(selector.is_empty());
    }
}
