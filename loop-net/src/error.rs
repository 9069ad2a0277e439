//! Errors that name what failed.

use std::error::Error;
use std::fmt;
use std::io;

use loop_core::PanicError;

/// Why a connection was lost; what [`connection_lost`](crate::Protocol::connection_lost) is told.
#[derive(Debug)]
#[non_exhaustive]
pub enum NetError {
    /// An operation on the socket failed. The error names the operation and the peer.
    Io(io::Error),
    /// `data_received` or `eof_received` panicked (B-TRN-29).
    Panicked(PanicError),
}

impl fmt::Display for NetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NetError::Io(error) => error.fmt(f),
            NetError::Panicked(panic) => write!(f, "the protocol failed: {panic}"),
        }
    }
}

impl Error for NetError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            NetError::Io(error) => Some(error),
            NetError::Panicked(panic) => Some(panic),
        }
    }
}

impl NetError {
    /// The same as an [`io::Error`], which cannot be cloned and so is made anew: of the same kind and
    /// with the same message.
    pub fn to_io(&self) -> io::Error {
        match self {
            NetError::Io(error) => io::Error::new(error.kind(), error.to_string()),
            NetError::Panicked(panic) => io::Error::other(panic.clone()),
        }
    }
}

/// Something that was refused, and comes back: a descriptor that cannot be used as asked.
///
/// It becomes an [`io::Error`] by `?`, which then drops what was refused.
pub struct Rejected<S> {
    /// What was given, untouched.
    pub source: S,
    /// Why.
    pub error: io::Error,
}

impl<S> fmt::Display for Rejected<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl<S> fmt::Debug for Rejected<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rejected").field("error", &self.error).finish_non_exhaustive()
    }
}

impl<S> Error for Rejected<S> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.error)
    }
}

impl<S> From<Rejected<S>> for io::Error {
    fn from(rejected: Rejected<S>) -> io::Error {
        rejected.error
    }
}

/// An operating system error with what was tried.
#[derive(Debug)]
struct Named {
    what: String,
    error: io::Error,
}

impl fmt::Display for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.what, self.error)
    }
}

impl Error for Named {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.error)
    }
}

/// `error`, of the same kind, saying `what` was tried. The error itself is its source.
pub(crate) fn named(what: impl Into<String>, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), Named { what: what.into(), error })
}
