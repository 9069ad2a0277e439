//! What went wrong, in which backend, with which descriptor.

use std::error::Error;
use std::fmt;
use std::io;
use std::os::fd::RawFd;
use std::rc::Rc;

use crate::source::AsSource;

/// What [`SelectorError::fd`] says where no descriptor was named.
const NO_FD: RawFd = -1;

/// The payload of the [`io::Error`] that a backend returns when it, or the kernel, refused a call.
///
/// The outer error has the kind of the inner one; the errno is here:
/// `error.get_ref()?.downcast_ref::<SelectorError>()?.os_error().raw_os_error()`.
#[derive(Debug)]
pub struct SelectorError {
    backend: &'static str,
    action: &'static str,
    fd: RawFd,
    hint: &'static str,
    os_error: io::Error,
}

impl SelectorError {
    /// "`backend`: `action` fd `fd`: `os_error`", as an [`io::Error`] of `os_error`'s kind. For
    /// backends.
    pub fn wrap(
        backend: &'static str,
        action: &'static str,
        fd: RawFd,
        os_error: io::Error,
    ) -> io::Error {
        SelectorError::wrap_with_hint(backend, action, fd, os_error, "")
    }

    /// The same, with a remark in brackets behind it unless `hint` is empty.
    pub fn wrap_with_hint(
        backend: &'static str,
        action: &'static str,
        fd: RawFd,
        os_error: io::Error,
        hint: &'static str,
    ) -> io::Error {
        let kind = os_error.kind();
        io::Error::new(kind, SelectorError { backend, action, fd, hint, os_error })
    }

    /// "`backend`: create: `os_error`", for a selector that could not be made: no descriptor.
    pub fn create(backend: &'static str, os_error: io::Error) -> io::Error {
        SelectorError::wrap(backend, "create", NO_FD, os_error)
    }

    /// The backend's [`name`](crate::Selector::name).
    pub fn backend(&self) -> &'static str {
        self.backend
    }

    /// The descriptor; -1 if there was none yet.
    pub fn fd(&self) -> RawFd {
        self.fd
    }

    /// What the kernel said, errno included.
    pub fn os_error(&self) -> &io::Error {
        &self.os_error
    }
}

impl fmt::Display for SelectorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.backend, self.action)?;
        if self.fd != NO_FD {
            write!(f, " fd {}", self.fd)?;
        }
        write!(f, ": {}", self.os_error)?;
        if !self.hint.is_empty() {
            write!(f, " ({})", self.hint)?;
        }
        Ok(())
    }
}

impl Error for SelectorError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.os_error)
    }
}

/// A registration that failed, and the owner of the descriptor, given back. Holds an `Rc`, so it
/// stays in its thread; the [`io::Error`] it converts into does not.
pub struct RegisterError {
    owner: Rc<dyn AsSource>,
    error: io::Error,
}

impl RegisterError {
    /// For backends.
    pub fn new(owner: Rc<dyn AsSource>, error: io::Error) -> RegisterError {
        RegisterError { owner, error }
    }

    /// What could not be registered.
    pub fn owner(&self) -> &Rc<dyn AsSource> {
        &self.owner
    }

    /// Why.
    pub fn error(&self) -> &io::Error {
        &self.error
    }

    /// Both.
    pub fn into_parts(self) -> (Rc<dyn AsSource>, io::Error) {
        (self.owner, self.error)
    }
}

impl fmt::Debug for RegisterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RegisterError").field("error", &self.error).finish_non_exhaustive()
    }
}

impl fmt::Display for RegisterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl Error for RegisterError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.error.source()
    }
}

impl From<RegisterError> for io::Error {
    /// Drops the owner.
    fn from(error: RegisterError) -> io::Error {
        error.error
    }
}
