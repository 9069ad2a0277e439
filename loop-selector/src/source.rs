//! What can be registered: the owner of a descriptor.
//!
//! A selector holds the owner of every descriptor it watches, so that the number cannot be closed,
//! and reused by another file, underneath it.

#![allow(unsafe_code)]

use std::fmt;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::rc::Rc;

/// The owner of a descriptor. Implemented for everything that is [`AsFd`]: `TcpStream`, `Stdin`,
/// `OwnedFd`, your own type.
///
/// A selector calls [`source_fd`](AsSource::source_fd) once, at registration, and keeps the number. The
/// call happens inside [`Selector::register`](crate::Selector::register): it must not use the
/// selector.
pub trait AsSource {
    /// The descriptor to watch.
    fn source_fd(&self) -> BorrowedFd<'_>;
}

impl<T: AsFd> AsSource for T {
    fn source_fd(&self) -> BorrowedFd<'_> {
        self.as_fd()
    }
}

impl AsFd for dyn AsSource + '_ {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.source_fd()
    }
}

/// A duplicate of somebody else's descriptor: the safe way to watch one that cannot be given away,
/// for instance a C library's.
///
/// It is a second number for the same open file. Its readiness is that of the original, also after
/// the original was closed.
#[derive(Debug)]
pub struct OwnedSource(OwnedFd);

impl OwnedSource {
    /// Duplicates `fd`, close-on-exec. One system call.
    ///
    /// # Errors
    /// That of `fcntl(F_DUPFD_CLOEXEC)`: above all `EMFILE`.
    pub fn dup(fd: BorrowedFd<'_>) -> io::Result<OwnedSource> {
        Ok(OwnedSource(fd.try_clone_to_owned()?))
    }
}

impl AsFd for OwnedSource {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// A bare descriptor number, owned by nobody here: the free but `unsafe` way to watch one.
#[derive(Debug)]
pub struct RawSource(RawFd);

impl RawSource {
    /// Wraps `fd`. Dropping the value does not close it.
    ///
    /// # Errors
    /// `InvalidInput` if `fd` is negative (B-SEL-02).
    ///
    /// # Safety
    /// `fd` is open, and stays open, until this value is dropped: for a registered source, until
    /// [`deregister`](crate::Selector::deregister) has handed it back and that was dropped.
    pub unsafe fn new(fd: RawFd) -> io::Result<RawSource> {
        if fd < 0 {
            return Err(negative(fd));
        }
        Ok(RawSource(fd))
    }
}

impl AsFd for RawSource {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: `new` refused negative numbers, -1 among them, and its caller promised that the
        // descriptor is open for as long as `self` exists; the borrow ends no later.
        unsafe { BorrowedFd::borrow_raw(self.0) }
    }
}

/// An owner together with the number it gave at registration.
pub(crate) struct Held {
    owner: Rc<dyn AsSource>,
    fd: RawFd,
}

impl Held {
    /// Asks the owner for its descriptor, this once. Gives the owner back if that is negative.
    pub(crate) fn new(owner: Rc<dyn AsSource>) -> Result<Held, (Rc<dyn AsSource>, io::Error)> {
        let fd = owner.source_fd().as_raw_fd();
        if fd < 0 {
            return Err((owner, negative(fd)));
        }
        Ok(Held { owner, fd })
    }

    pub(crate) fn fd(&self) -> RawFd {
        self.fd
    }

    pub(crate) fn owner(&self) -> &Rc<dyn AsSource> {
        &self.owner
    }

    pub(crate) fn into_owner(self) -> Rc<dyn AsSource> {
        self.owner
    }
}

impl AsFd for Held {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the number is not negative (`new`). It came from `owner.source_fd()`, whose result
        // may live as long as a shared borrow of the owner. `self` has kept the owner alive since,
        // behind an `Rc`, so it has neither moved nor been borrowed mutably: the borrow taken in
        // `new` could have been held until now, and a sound owner may not close what is borrowed.
        unsafe { BorrowedFd::borrow_raw(self.fd) }
    }
}

impl fmt::Debug for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "fd {}", self.fd)
    }
}

fn negative(fd: RawFd) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, format!("invalid file descriptor {fd}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    #[test]
    fn b_sel_02_negative_fd_is_refused() {
        // SAFETY: nothing is wrapped: both numbers are refused.
        let refused = unsafe { [RawSource::new(-1), RawSource::new(-7)] };
        for result in refused {
            assert_eq!(result.unwrap_err().kind(), io::ErrorKind::InvalidInput);
        }
    }

    #[test]
    fn a_duplicate_has_a_number_of_its_own() {
        let (a, _b) = UnixStream::pair().unwrap();
        let copy = OwnedSource::dup(a.as_fd()).unwrap();
        assert_ne!(copy.as_fd().as_raw_fd(), a.as_raw_fd());
    }
}
